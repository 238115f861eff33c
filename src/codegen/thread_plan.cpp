#include "codegen/thread_plan.h"

#include <algorithm>

#include "loops/in_place.h"
#include "support/is_in.h"

namespace tenon::codegen {

using namespace loops;

ThreadPlan::ThreadPlan(const Compiler& compiler) : compiler_(compiler), tree_(compiler.tree()) {
  for (TreeRef root : tree_.roots()) assign(root, Level::kGrid);
  find_places();
  for (const InPlacePair& pair : in_place_pairs(tree_)) {
    const IR& ir = tree_.ir;
    const auto position = [&](NodeRef array) { return compiler_.allocations.at(array).mem_idx; };
    same_[position(ir.writes()[static_cast<size_t>(pair.output)])] =
        position(ir.reads()[static_cast<size_t>(pair.input)]);
  }
}

// ---- loops ----------------------------------------------------------------------------------------------------------

ThreadRole ThreadPlan::role(TreeRef loop) const {
  const auto found = roles_.find(loop);
  return found == roles_.end() ? ThreadRole::kSerial : found->second;
}

bool ThreadPlan::is_independent(TreeRef loop) const { return !why_not_parallel(tree_, loop); }

TreeRef ThreadPlan::only_loop_in(TreeRef loop) const {
  const std::vector<TreeRef>& children = tree_.children(loop);
  const bool is_one = children.size() == 1 && tree_.kind(children[0]) == LoopTree::LOOP;
  return is_one && compiler_.fills(children[0]).empty() ? children[0] : TreeRef();
}

std::vector<TreeRef> ThreadPlan::chain(TreeRef loop) const {
  std::vector<TreeRef> loops = {loop};
  for (TreeRef next = only_loop_in(loop); next; next = only_loop_in(next)) {
    const auto head = heads_.find(next);
    if (head == heads_.end() || head->second != loop) break;
    loops.push_back(next);
  }
  return loops;
}

// The extents of a split variable's inner loop depend on the outer one, so a chain has each variable once.
void ThreadPlan::assign(TreeRef ref, Level level) {
  if (tree_.kind(ref) == LoopTree::NODE) return;
  const Mark mark = tree_.loop(ref).annotation.mark;
  const bool is_root = !tree_.parent(ref);
  const bool spreads = (mark == Mark::kBlock || mark == Mark::kThread) && is_independent(ref);
  Level inside = level == Level::kThread ? Level::kThread : Level::kBlock;
  TreeRef last = ref;
  if (spreads && (mark == Mark::kBlock ? level == Level::kGrid : level != Level::kThread)) {
    roles_[ref] = mark == Mark::kBlock ? ThreadRole::kBlock : is_root ? ThreadRole::kGridThread : ThreadRole::kThread;
    if (mark == Mark::kThread) inside = Level::kThread;
    std::set<VarRef> vars = {tree_.loop(ref).var};
    for (TreeRef next = only_loop_in(ref); next; next = only_loop_in(next)) {
      const LoopTree::Loop& loop = tree_.loop(next);
      if (loop.annotation.mark != mark || !is_independent(next) || !vars.insert(loop.var).second) break;
      heads_[next] = ref;
      roles_[next] = roles_[ref];
      last = next;
    }
  } else if (mark == Mark::kThread && level != Level::kThread && can_fold(ref)) {
    roles_[ref] = is_root ? ThreadRole::kGridFold : ThreadRole::kFold;
    inside = Level::kThread;
    const std::vector<NodeRef> sums = folded_by(ref);
    std::set<VarRef> vars = {tree_.loop(ref).var};
    for (TreeRef next = only_loop_in(ref); next; next = only_loop_in(next)) {
      const LoopTree::Loop& loop = tree_.loop(next);
      const bool goes_on = loop.annotation.mark == mark && can_fold(next) && folded_by(next) == sums;
      if (!goes_on || !vars.insert(loop.var).second) break;
      heads_[next] = ref;
      roles_[next] = roles_[ref];
      last = next;
    }
  }
  for (TreeRef child : tree_.children(last)) assign(child, inside);
}

std::vector<NodeRef> ThreadPlan::folded_by(TreeRef loop) const {
  std::vector<NodeRef> nodes = tree_.nodes_below(loop);
  std::erase_if(nodes, [&](NodeRef ref) { return !tree_.ir.folds(ref, tree_.loop(loop).var); });
  return nodes;
}

// Each thread needs one register for each sum.
bool ThreadPlan::can_fold(TreeRef loop) const {
  if (why_not_threads(tree_, loop)) return false;
  return std::ranges::all_of(folded_by(loop), [&](NodeRef sum) {
    const Compiler::Fill block = compiler_.fill(sum, loop);
    return std::ranges::all_of(block.extents, [](const Expr& extent) { return extent.is_constant(1); });
  });
}

bool ThreadPlan::runs_on_threads(TreeRef ref) const {
  const ThreadRole own = tree_.kind(ref) == LoopTree::LOOP ? role(ref) : ThreadRole::kSerial;
  return own != ThreadRole::kSerial && own != ThreadRole::kBlock;
}

bool ThreadPlan::has_threads(TreeRef root) const {
  bool found = false;
  tree_.walk([&](TreeRef ref, int) { found = found || runs_on_threads(ref); }, root);
  return found;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// The outermost loop between the two that is spread over threads.
TreeRef ThreadPlan::spread_loop(TreeRef around, TreeRef leaf) const {
  for (TreeRef loop : tree_.path(leaf)) {
    if (tree_.contains(loop, around) && around) continue;
    if (runs_on_threads(loop)) return loop;
  }
  return {};
}

Place ThreadPlan::place_of(NodeRef node, const Compiler::Allocation& memory, bool is_carry) const {
  if (!memory.lca) return Place::kDevice;
  for (TreeRef loop : tree_.path(memory.lca)) {
    if (runs_on_threads(loop)) return Place::kThread;
  }
  const Expr size = memory.size();
  const bool is_small = size.is_constant() && size.constant() <= kMostOwnBytes / size_of(memory.dtype);
  const TreeRef spread = spread_loop(memory.lca, tree_.find(node));
  const bool is_fold = spread && (role(spread) == ThreadRole::kFold || role(spread) == ThreadRole::kGridFold);
  const bool is_total = is_fold && tree_.ir.folds(node, tree_.loop(spread).var);
  return is_small && (!spread || is_total || is_carry) ? Place::kThread : Place::kBlock;
}

void ThreadPlan::find_places() {
  for (const auto& [node, memory] : compiler_.allocations)
    places_[memory.mem_idx] = memory.scratch ? place_of(node, memory, false) : Place::kDevice;
  for (const auto& [node, memory] : compiler_.carries) places_[memory.mem_idx] = place_of(node, memory, true);
}

void ThreadPlan::add_touched(const Compiler::Allocation& memory, std::set<int64_t>& positions) const {
  if (places_.at(memory.mem_idx) == Place::kThread) return;
  const auto same = same_.find(memory.mem_idx);
  positions.insert(same == same_.end() ? memory.mem_idx : same->second);
}

bool ThreadPlan::is_only_read(int64_t mem_idx) const {
  const auto is_input = mem_idx < static_cast<int64_t>(tree_.ir.reads().size());
  return is_input && std::ranges::none_of(same_, [&](const auto& pair) { return pair.second == mem_idx; });
}

ThreadPlan::Touched ThreadPlan::touched_below(TreeRef ref) const {
  Touched touched;
  const auto add = [&](NodeRef node, std::set<int64_t>& positions) {
    const auto memory = compiler_.allocations.find(node);
    if (memory != compiler_.allocations.end()) add_touched(memory->second, positions);
  };
  for (NodeRef node : tree_.nodes_below(ref)) {
    add(node, touched.written);
    const bool reads_itself = tree_.ir.node(node).as<Reduce>() || tree_.ir.node(node).as<Scatter>();
    if (reads_itself) add(node, touched.read);
    for (NodeRef input : tree_.ir.node(node).inputs) add(input, touched.read);
    if (const auto carry = compiler_.carries.find(node); carry != compiler_.carries.end()) {
      add_touched(carry->second, touched.read);
      add_touched(carry->second, touched.written);
    }
  }
  return touched;
}

}  // namespace tenon::codegen
