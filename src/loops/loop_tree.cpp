#include "loops/loop_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/is_in.h"
#include "symbolic/format.h"

namespace tenon::loops {
namespace {

bool scans_along(const Node& node, VarRef var) {
  const auto* scan = node.as<Scan>();
  return scan && scan->along == var;
}

bool starts_from(const Node& scatter, NodeRef input) { return scatter.as<Scatter>() && scatter.inputs[0] == input; }

bool has_loop_over(const Node& node, VarRef var) {
  return std::ranges::find(node.loops, var, &LoopSpec::var) != node.loops.end();
}

// If a loop that repeats a node may have no iterations, every reader of the node must be in such a loop too.
void check_unneeded(const IR& ir, NodeRef ref, VarRef var) {
  const Node& node = ir.node(ref);
  const std::string& name = ir.var(var).name;
  if (node.as<Write>()) fail("%{} cannot be repeated over {}: that loop may have no iterations", node.name, name);
  for (NodeRef reader : ir.consumers(ref)) {
    const bool reads_before = starts_from(ir.node(reader), ref) && ir.folds(reader, var);
    if (has_loop_over(ir.node(reader), var) && !reads_before) continue;
    fail("%{} cannot be repeated over {}: %{} reads it, and that loop may have no iterations", node.name, name,
         ir.node(reader).name);
  }
}

TreeRef innermost(const std::vector<TreeRef>& open) { return open.empty() ? TreeRef() : open.back(); }

// All nodes of a vectorized loop run lane by lane, in step.
std::optional<std::string> why_not_vectorized(const LoopTree& tree, TreeRef loop) {
  for (TreeRef child : tree.children(loop)) {
    if (tree.kind(child) == LoopTree::LOOP) return "it is not an innermost loop";
    const VarRef var = tree.loop(loop).var;
    const Node& node = tree.ir.node(tree.node(child));
    if (scans_along(node, var))
      return fmt::format("%{} goes along {}, one element after the other", node.name, tree.ir.var(var).name);
    if (node.as<Scatter>() && tree.ir.folds(tree.node(child), var)) {
      return fmt::format("%{} may write one element from several lanes", node.name);
    }
  }
  return {};
}

}  // namespace

LoopTree::LoopTree(IR kernel) : ir(std::move(kernel)), leaves_(ir.nodes().size()) {
  std::vector<TreeRef> open;
  for (NodeRef node : ir.order()) place(node, open);
  check_repeats();
  check_annotations();
}

const LoopTree::Element& LoopTree::at(TreeRef ref) const {
  check(owns(ref), "tree ref {} of {}", ref.id, elements_.size());
  return elements_[ref.id];
}

TreeRef LoopTree::add(Element element) {
  const TreeRef ref{static_cast<uint32_t>(elements_.size())};
  element.depth = element.parent ? at(element.parent).depth + 1 : 0;
  (element.parent ? elements_[element.parent.id].children : roots_).push_back(ref);
  elements_.push_back(std::move(element));
  return ref;
}

void LoopTree::place(NodeRef node, std::vector<TreeRef>& open) {
  const std::vector<LoopSpec>& specs = ir.node(node).loops;
  const auto same = [&](TreeRef ref, const LoopSpec& spec) {
    const Loop& loop = this->loop(ref);
    return !spec.fresh && loop.var == spec.var && loop.step == spec.step && loop.annotation == spec.annotation;
  };
  size_t shared = 0;
  while (shared < open.size() && shared < specs.size() && same(open[shared], specs[shared]) &&
         may_share(open[shared], node)) {
    ++shared;
  }
  open.resize(shared);
  for (const LoopSpec& spec : std::span(specs).subspan(shared)) {
    Expr extent = ir.var(spec.var).size;
    for (TreeRef outer : open) {
      if (loop(outer).var == spec.var) extent = loop(outer).step;
    }
    loops_.push_back({spec.var, floordiv(extent, spec.step), mod(extent, spec.step), spec.step, spec.annotation});
    open.push_back(add({.loop = static_cast<uint32_t>(loops_.size() - 1), .parent = innermost(open)}));
  }
  leaves_[node.id] = add({.node = node, .parent = innermost(open)});
}

bool LoopTree::may_share(TreeRef loop, NodeRef node) const {
  return std::ranges::all_of(ir.node(node).inputs, [&](NodeRef input) {
    const TreeRef leaf = find(input);
    return !leaf || !contains(loop, leaf) || may_share_loop(ir, node, input, this->loop(loop).var);
  });
}

void LoopTree::check_repeats() const {
  const symbolic::Ranges ranges = ir.ranges();
  for (NodeRef ref : ir.order()) {
    const std::vector<VarRef> own = ir.iteration_vars(ref);
    for (const LoopSpec& loop : ir.node(ref).loops) {
      if (!is_in(own, loop.var) && bounds(ir.var(loop.var).size, ranges).low < 1) check_unneeded(ir, ref, loop.var);
    }
  }
}

void LoopTree::check_annotations() const {
  walk([&](TreeRef ref, int) {
    if (kind(ref) == NODE) return;
    const Loop& loop = this->loop(ref);
    std::optional<std::string> reason;
    const Mark mark = loop.annotation.mark;
    if (mark == Mark::kParallel || mark == Mark::kBlock) reason = why_not_parallel(*this, ref);
    if (mark == Mark::kThread) reason = why_not_threads(*this, ref);
    if (loop.annotation.mark == Mark::kVectorize) reason = why_not_vectorized(*this, ref);
    if (reason)
      fail("the loop over {} cannot be marked {}: {}", ir.var(loop.var).name, to_string(loop.annotation), *reason);
  });
}

// ---- reading --------------------------------------------------------------------------------------------------------

TreeRef LoopTree::lca(TreeRef a, TreeRef b) const {
  while (a && b && a != b) {
    if (depth(a) >= depth(b)) {
      a = parent(a);
    } else {
      b = parent(b);
    }
  }
  return a && b ? a : TreeRef();
}

bool LoopTree::contains(TreeRef outer, TreeRef inner) const {
  if (!outer) return true;
  while (inner && depth(inner) > depth(outer)) inner = parent(inner);
  return inner == outer;
}

std::vector<TreeRef> LoopTree::path(TreeRef ref) const {
  std::vector<TreeRef> path;
  for (; ref; ref = parent(ref)) {
    if (kind(ref) == LOOP) path.push_back(ref);
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<NodeRef> LoopTree::nodes_below(TreeRef ref) const {
  std::vector<NodeRef> nodes;
  const auto visit = [&](TreeRef below, int) {
    if (kind(below) == NODE) nodes.push_back(node(below));
  };
  walk(visit, ref);
  return nodes;
}

void LoopTree::walk(const std::function<void(TreeRef, int)>& visit, TreeRef start) const {
  const std::function<void(TreeRef)> from = [&](TreeRef ref) {
    visit(ref, depth(ref));
    for (TreeRef child : children(ref)) from(child);
  };
  if (start) return from(start);
  for (TreeRef root : roots_) from(root);
}

std::string LoopTree::dump(const std::function<std::string(TreeRef)>& note) const {
  std::string text;
  walk([&](TreeRef ref, int depth) {
    text += std::string(static_cast<size_t>(depth) * 2, ' ');
    if (kind(ref) == NODE) {
      text += to_string(ir, node(ref));
    } else {
      const Loop& loop = this->loop(ref);
      text += fmt::format("for {} in {}", ir.var(loop.var).name, loop.size);
      if (!loop.tail.is_constant(0)) text += fmt::format(" r {}", loop.tail);
      if (loop.step != 1) text += fmt::format(" by {}", loop.step);
      if (loop.annotation.mark != Mark::kNone) text += " " + to_string(loop.annotation);
    }
    if (note) text += note(ref);
    text += "\n";
  });
  return text;
}

bool may_share_loop(const IR& ir, NodeRef reader, NodeRef input, VarRef var) {
  if (ir.folds(input, var)) return false;
  if (ir.node(input).has(var)) return ir.reads_in_step(reader, input, var);
  return !(starts_from(ir.node(reader), input) && ir.folds(reader, var));
}

namespace {

std::optional<std::string> why_not_independent(const LoopTree& tree, TreeRef loop, bool may_reduce) {
  const VarRef var = tree.loop(loop).var;
  const std::string& name = tree.ir.var(var).name;
  for (NodeRef ref : tree.nodes_below(loop)) {
    const Node& node = tree.ir.node(ref);
    const bool folds = tree.ir.folds(ref, var);
    if (folds && may_reduce && node.as<Reduce>()) continue;
    if (folds) return fmt::format("%{} folds {}", node.name, name);
    if (scans_along(node, var)) return fmt::format("%{} goes along {}", node.name, name);
    if (node.has(var)) continue;
    const auto is_inside = [&](NodeRef reader) { return tree.contains(loop, tree.find(reader)); };
    if (node.as<Write>() || !std::ranges::all_of(tree.ir.consumers(ref), is_inside)) {
      return fmt::format("every iteration makes the same %{}", node.name);
    }
  }
  return {};
}

}  // namespace

std::optional<std::string> why_not_parallel(const LoopTree& tree, TreeRef loop) {
  return why_not_independent(tree, loop, false);
}

std::optional<std::string> why_not_threads(const LoopTree& tree, TreeRef loop) {
  return why_not_independent(tree, loop, true);
}

}  // namespace tenon::loops
