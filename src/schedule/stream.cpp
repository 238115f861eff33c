// All other kernels: elementwise chains, folds, scans and moves of data, in one pass over memory if possible.
//
// Nodes share their outer loops (loops::initial_schedule). The steps, in order:
//   - A fold of many elements to few results is done in independent parts. The number of parts is fixed, so that the
//     result does not depend on the number of threads.
//   - If memory is contiguous along a kept variable and not along the folded one, a block of the kept variable becomes
//     the innermost loop: accumulators are vectors.
//   - A transposition goes block by block. Blocks are transposed in registers.
//   - Innermost loops are vectorized.
//   - An outer loop becomes parallel. If it is short or folded, blocks of the innermost loop do.
#include <algorithm>
#include <ranges>

#include "loops/limits.h"
#include "loops/schedule.h"
#include "schedule/contraction.h"
#include "schedule/default_schedule.h"

namespace tenon {
namespace {

using namespace loops;

// A fold in parts. The number of parts does not depend on the machine's threads, so neither does the result.
constexpr int64_t kFewResults = 64;  // The most results of a fold that is done in parts.
constexpr int64_t kMostParts = 64;
// Grains of work, see Machine::thread_grain.
constexpr int64_t kBlockGrains = 2;  // One thread's block of an innermost loop.
constexpr int64_t kPartGrains = 4;   // The least part of a fold, and the least nest of loops that is parallel.

std::optional<int64_t> number_of(const Expr& size) {
  return size.is_constant() ? std::optional(size.constant()) : std::nullopt;
}

class StreamScheduler {
 public:
  StreamScheduler(const IR& kernel, const Machine& machine) : ir_(initial_schedule(kernel)), machine_(machine) {}

  LoopTree run() {
    put_single_iterations_first();
    fold_in_parts();
    turn_to_contiguous();
    vectorize();
    spread();
    return LoopTree(std::move(ir_));
  }

 private:
  // ---- what is where ----
  std::optional<int64_t> elements(const Vars& vars) const {
    constexpr int64_t kMost = int64_t{1} << 40;
    int64_t product = 1;
    for (VarRef var : vars) {
      const std::optional<int64_t> size = number_of(ir_.var(var).size);
      if (!size) return {};
      if (__builtin_mul_overflow(product, *size, &product) || product > kMost) product = kMost;
    }
    return product;
  }

  bool is_small(VarRef var, int64_t bound) const {
    const std::optional<int64_t> size = number_of(ir_.var(var).size);
    return size && *size <= bound;
  }

  // The variable of `vars` along which a piece reads contiguous memory. Empty if there is none.
  VarRef stepped_by(const Piece& piece, const Vars& vars) const {
    const Vars& of_input = ir_.node(piece.input).vars;
    if (of_input.empty()) return {};
    for (VarRef var : vars) {
      const Result<Expr> slope = differentiate(piece.index.back(), ir_.var(var).symbol());
      if (slope.ok() && (slope->is_constant(1) || slope->is_constant(-1))) return var;
    }
    return {};
  }

  // The variables along which a node reads and writes arrays of the caller contiguously.
  Vars contiguous_of(NodeRef ref) const {
    const Node& node = ir_.node(ref);
    Vars vars;
    if (const auto* view = node.as<View>()) {
      for (const Piece& piece : view->pieces) {
        if (ir_.node(piece.input).as<Read>()) vars.push_back(stepped_by(piece, node.vars));
      }
    } else {
      // The indices of a scatter do not count: one index places many elements.
      const size_t count = node.as<Scatter>() ? 2 : node.inputs.size();
      for (NodeRef input : node.inputs | std::views::take(count)) {
        if (ir_.node(input).as<Read>()) vars.push_back(tenon::contiguous_of(ir_, ir_.node(input).vars));
      }
    }
    if (node.as<Write>()) vars.push_back(tenon::contiguous_of(ir_, node.vars));
    std::erase(vars, VarRef());
    return vars;
  }

  Vars contiguous_below(const LoopTree& tree, TreeRef loop) const {
    Vars vars;
    for (NodeRef ref : tree.nodes_below(loop)) {
      for (VarRef var : contiguous_of(ref)) vars.push_back(var);
    }
    return vars;
  }

  static bool is_innermost(const LoopTree& tree, TreeRef loop) {
    return std::ranges::all_of(tree.children(loop), [&](TreeRef child) { return tree.kind(child) == LoopTree::NODE; });
  }

  std::vector<TreeRef> innermost_loops(const LoopTree& tree) const {
    std::vector<TreeRef> loops;
    tree.walk([&](TreeRef ref, int) {
      if (tree.kind(ref) == LoopTree::LOOP && is_innermost(tree, ref)) loops.push_back(ref);
    });
    return loops;
  }

  // The loop over `var` around `inside`, or `inside` itself. Empty if the variable is split.
  static TreeRef loop_over(const LoopTree& tree, TreeRef inside, VarRef var) {
    TreeRef found;
    for (TreeRef loop : tree.path(inside)) {
      if (tree.loop(loop).var != var) continue;
      if (found || tree.loop(loop).step != 1) return {};
      found = loop;
    }
    return found;
  }

  int64_t widest_below(const LoopTree& tree, TreeRef loop) const {
    int64_t bytes = 1;
    for (NodeRef ref : tree.nodes_below(loop)) {
      bytes = std::max(bytes, size_of(ir_.node(ref).dtype));
      for (NodeRef input : ir_.node(ref).inputs) bytes = std::max(bytes, size_of(ir_.node(input).dtype));
    }
    return bytes;
  }

  template <class Edit>
  void edit_loops(const LoopTree& tree, TreeRef loop, Edit edit) {
    const auto depth = static_cast<ptrdiff_t>(tree.depth(loop));
    for (NodeRef ref : tree.nodes_below(loop)) {
      LoopSpecs loops = ir_.node(ref).loops;
      edit(loops, loops.begin() + depth);
      ir_.set_loops(ref, std::move(loops));
    }
  }

  // Gives all nodes all loops of one iteration, outermost, so that these do not keep nodes from sharing other loops.
  // Loops over folded variables stay in place.
  void put_single_iterations_first() {
    Vars folded;
    for (NodeRef ref : ir_.order()) {
      for (VarRef var : ir_.folded_vars(ref)) folded.push_back(var);
      if (const auto* scan = ir_.node(ref).as<Scan>()) folded.push_back(scan->along);
    }
    LoopSpecs single;
    for (NodeRef ref : ir_.order()) {
      for (const LoopSpec& loop : ir_.node(ref).loops) {
        const bool is_single = ir_.var(loop.var).size.is_constant(1) && !is_in(folded, loop.var);
        if (is_single && !is_in(single, loop)) single.push_back(loop);
      }
    }
    for (NodeRef ref : ir_.order()) {
      LoopSpecs loops = single;
      for (const LoopSpec& loop : ir_.node(ref).loops) {
        if (!is_in(single, loop)) loops.push_back(loop);
      }
      ir_.set_loops(ref, std::move(loops));
    }
  }

  // ---- folds in parts ----
  void fold_in_parts() {
    std::vector<std::string> folds;  // by name: refs change with each split
    for (NodeRef ref : ir_.order()) {
      if (part_size(ref)) folds.push_back(ir_.node(ref).name);
    }
    for (const std::string& name : folds) split_fold(*ir_.node_named(name));
  }

  struct FoldParts {
    VarRef var;
    int64_t size;
  };

  std::optional<FoldParts> part_size(NodeRef ref) const {
    if (!ir_.node(ref).as<Reduce>()) return {};
    const std::optional<int64_t> results = elements(ir_.node(ref).vars);
    if (!results || *results > kFewResults) return {};
    const Vars folded = ir_.folded_vars(ref);
    VarRef longest;
    for (VarRef var : folded) {
      if (!longest || !is_small(var, number_of(ir_.var(longest).size).value_or(kInt64Max))) longest = var;
    }
    Vars others = folded;
    std::erase(others, longest);
    const int64_t beside = std::max<int64_t>(elements(others).value_or(1), 1);
    const int64_t least = std::max<int64_t>(divided_up(kPartGrains * machine_.thread_grain, beside), 2);
    const std::optional<int64_t> length = number_of(ir_.var(longest).size);
    if (!length) return FoldParts{longest, least};
    if (*length < 2 * least) return {};
    return FoldParts{longest, best_part(*length, std::max(least, divided_up(*length, kMostParts)))};
  }

  // The size of a part, at least `least`. A divisor of the length needs no guards; otherwise a multiple of vectors is
  // best.
  static int64_t best_part(int64_t length, int64_t least) {
    for (int64_t parts = length / least; parts > 0 && length / parts <= 2 * least; --parts) {
      if (length % parts == 0) return length / parts;
    }
    return divided_up(least, 64) * 64;
  }

  void split_fold(NodeRef ref) {
    const auto [var, size] = *part_size(ref);
    LoopSpecs loops = ir_.node(ref).loops;
    const auto is_wide = [&](const LoopSpec& loop) { return !ir_.var(loop.var).size.is_constant(1); };
    loops.insert(std::ranges::find_if(loops, is_wide), {.var = var, .step = size});
    const std::string name = ir_.node(ref).name;
    ir_.set_loops(ref, std::move(loops));
    const LoopTree before(ir_);
    const std::vector<TreeRef> path = before.path(before.find(ref));
    const auto outer = std::ranges::find_if(path, [&](TreeRef loop) { return before.loop(loop).step == size; });
    ir_ = split_node(before, ref, *outer).value().ir;
    const NodeRef total = *ir_.node_named(name + "_total");
    loops.assign(ir_.node(total).loops.begin(), ir_.node(total).loops.end());
    const auto first = std::ranges::find_if(loops, is_wide);
    if (first != loops.end()) first->fresh = true;
    ir_.set_loops(total, std::move(loops));
    put_single_iterations_first();
  }

  // ---- contiguous innermost loops ----
  void turn_to_contiguous() {
    for (size_t done = 0;; ++done) {
      const LoopTree tree(ir_);
      const std::vector<TreeRef> loops = innermost_loops(tree);
      if (done >= loops.size()) return;
      turn(tree, loops[done]);
    }
  }

  // Whether the order of iterations matters: a scatter without an op keeps the last value written.
  bool overwrites(NodeRef ref) const {
    const auto* scatter = ir_.node(ref).as<Scatter>();
    return scatter != nullptr && !scatter->op;
  }

  void turn(const LoopTree& tree, TreeRef inner) {
    const VarRef var = tree.loop(inner).var;
    const Vars wanted = contiguous_below(tree, inner);
    const std::vector<NodeRef> nodes = tree.nodes_below(inner);
    const bool folds = std::ranges::any_of(nodes, [&](NodeRef ref) {
      const auto* scan = ir_.node(ref).as<Scan>();
      return ir_.folds(ref, var) || (scan && scan->along == var);
    });
    const auto other = std::ranges::find_if(wanted, [&](VarRef other) {
      return other != var && loop_over(tree, inner, other) && loop_over(tree, inner, var) == inner;
    });
    const bool scatters =
        std::ranges::any_of(nodes, [&](NodeRef ref) { return ir_.node(ref).as<Scatter>() != nullptr; });
    if (std::ranges::any_of(nodes, [&](NodeRef ref) { return overwrites(ref); })) return;
    if (const TreeRef kept = folds ? wide_loop_around(tree, inner) : TreeRef()) return sink(tree, kept, inner);
    if (other == wanted.end()) return;
    if ((folds || scatters) && !is_in(wanted, var)) return sink(tree, loop_over(tree, inner, *other), inner);
    if (folds || scatters) return;
    transpose(tree, loop_over(tree, inner, *other), inner);
  }

  // A fold of a few elements (the window of a pool) fills no vector. The nearest loop around it that fills one; empty
  // if there is none.
  TreeRef wide_loop_around(const LoopTree& tree, TreeRef inner) const {
    const int64_t lanes = machine_.vector_bytes / widest_below(tree, inner);
    const std::vector<TreeRef> path = tree.path(inner);
    const std::vector<NodeRef> nodes = tree.nodes_below(inner);
    Vars folded;
    for (auto loop = path.rbegin(); loop != path.rend(); ++loop) {
      const VarRef var = tree.loop(*loop).var;
      if (loop_over(tree, inner, var) != *loop) return {};
      if (std::ranges::any_of(nodes, [&](NodeRef ref) { return ir_.folds(ref, var); })) {
        folded.push_back(var);
        if (!is_small(var, lanes / 2) || elements(folded) > kLongestChain) return {};
      } else {
        return is_small(var, lanes - 1) ? TreeRef() : *loop;
      }
    }
    return {};
  }

  // Accumulators in registers leave no registers for other operations: with more of them, accumulators are in the
  // cache.
  int64_t column_vectors(const LoopTree& tree, TreeRef loop) const {
    const std::vector<NodeRef> nodes = tree.nodes_below(loop);
    const auto ops = std::ranges::count_if(nodes, [&](NodeRef ref) { return ir_.node(ref).as<loops::Compute>(); });
    return ops > machine_.column_sum_ops ? machine_.cached_column_sums : machine_.column_sums;
  }

  // Splits a loop: blocks stay in place, and the elements of a block become the innermost loop.
  void sink(const LoopTree& tree, TreeRef loop, TreeRef inner) {
    const VarRef var = tree.loop(loop).var;
    const int64_t block = column_vectors(tree, loop) * machine_.vector_bytes / widest_below(tree, inner);
    const bool is_whole = is_small(var, block), takes_rows = is_far(tree, inner);
    const int64_t lanes = machine_.vector_bytes / widest_below(tree, inner);
    const VarRef folded = tree.loop(inner).var;
    edit_loops(tree, loop, [&](LoopSpecs& loops, auto at) {
      is_whole ? static_cast<void>(loops.erase(at)) : static_cast<void>(at->step = block);
      if (takes_rows && loops.back().var == folded) {
        loops.back().step = machine_.far_rows;
        loops.push_back({.var = var, .step = lanes});
        loops.push_back({.var = folded, .annotation = {Mark::kUnroll}});
      }
      loops.push_back({.var = var});
    });
  }

  // Whether rows are pages apart. Reading several such rows at once is faster.
  bool is_far(const LoopTree& tree, TreeRef fold) const {
    const VarRef folded = tree.loop(fold).var;
    const auto reads_far = [&](NodeRef input) {
      const std::vector<VarRef>& vars = ir_.node(input).vars;
      const auto at = std::ranges::find(vars, folded);
      if (!ir_.node(input).as<Read>() || at == vars.end()) return false;
      Expr bytes = size_of(ir_.node(input).dtype);
      for (auto var = at + 1; var != vars.end(); ++var) bytes *= ir_.var(*var).size;
      return bytes.is_constant() && bytes.constant() >= machine_.page_bytes;
    };
    const Expr& rows = ir_.var(folded).size;
    if (!rows.is_constant() || rows.constant() < 4 * machine_.far_rows) return false;
    const std::vector<NodeRef> nodes = tree.nodes_below(fold);
    const auto is_plain = [&](NodeRef ref) { return ir_.node(ref).as<Reduce>() || ir_.node(ref).as<loops::Compute>(); };
    return std::ranges::all_of(nodes, is_plain) && std::ranges::any_of(nodes, [&](NodeRef ref) {
             return std::ranges::any_of(ir_.node(ref).inputs, reads_far);
           });
  }

  // Splits both loops twice: into blocks that fit the cache, and into squares that are transposed in registers.
  void transpose(const LoopTree& tree, TreeRef outer, TreeRef inner) {
    for (TreeRef loop = outer; loop != inner; loop = tree.children(loop)[0]) {
      if (tree.children(loop).size() != 1) return;
    }
    const VarRef row = tree.loop(outer).var, column = tree.loop(inner).var;
    const int64_t lanes = std::min(machine_.vector_bytes / widest_below(tree, inner), machine_.transposed_side);
    edit_loops(tree, outer, [&](LoopSpecs& loops, auto at) {
      loops.erase(at);
      loops.pop_back();
      for (const int64_t step : {machine_.transposed_block, lanes, int64_t{1}}) {
        const auto add = [&](VarRef var) {
          if (step == 1 || !is_small(var, step)) loops.push_back({.var = var, .step = step});
        };
        if (step == lanes) {
          add(column), add(row);
        } else {
          add(row), add(column);
        }
      }
      loops[loops.size() - 2].annotation.mark = Mark::kUnroll;
    });
  }

  // ---- lanes ----
  void vectorize() {
    const LoopTree tree(ir_);
    for (TreeRef loop : innermost_loops(tree)) {
      if (annotate(tree, loop, {Mark::kVectorize}).ok()) mark(tree, loop, Mark::kVectorize);
    }
  }

  void mark(const LoopTree& tree, TreeRef loop, Mark mark) {
    edit_loops(tree, loop, [&](LoopSpecs&, auto at) { at->annotation.mark = mark; });
  }

  // ---- threads ----
  void spread() {
    const LoopTree tree(ir_);
    std::vector<TreeRef> nests = tree.roots();
    while (nests.size() == 1 && is_single(tree, nests[0])) nests = tree.children(nests[0]);
    for (TreeRef nest : nests) {
      if (tree.kind(nest) == LoopTree::LOOP && !is_little(tree, nest)) spread(tree, nest);
    }
  }

  static bool is_single(const LoopTree& tree, TreeRef ref) {
    return tree.kind(ref) == LoopTree::LOOP && tree.ir.var(tree.loop(ref).var).size.is_constant(1);
  }

  bool is_little(const LoopTree& tree, TreeRef root) const {
    const auto is_little_work = [&](NodeRef ref) {
      const std::optional<int64_t> work = elements(ir_.iteration_vars(ref));
      return work && *work < kPartGrains * machine_.thread_grain;
    };
    return std::ranges::all_of(tree.nodes_below(root), is_little_work);
  }

  // Makes a loop parallel: the first with enough iterations; else blocks of the innermost loop; else the outermost
  // loop.
  void spread(const LoopTree& tree, TreeRef root) {
    std::vector<TreeRef> spine = {root};
    while (tree.children(spine.back()).size() == 1 && tree.kind(tree.children(spine.back())[0]) == LoopTree::LOOP) {
      spine.push_back(tree.children(spine.back())[0]);
    }
    std::erase_if(spine, [&](TreeRef loop) { return !is_parallel(tree, loop); });
    if (spine.empty()) return;
    const auto is_plain = [&](TreeRef loop) { return tree.loop(loop).annotation.mark == Mark::kNone; };
    const auto is_long = [&](TreeRef loop) {
      const std::optional<int64_t> count = number_of(tree.loop(loop).size);
      return is_plain(loop) && is_whole(tree, loop) && (!count || *count >= machine_.thread_iterations);
    };
    const auto found = std::ranges::find_if(spine, is_long);
    if (found != spine.end()) return move_out(tree, root, *found);
    const TreeRef inner = spine.back();
    const LoopTree::Loop& loop = tree.loop(inner);
    if (loop.annotation.mark == Mark::kVectorize && loop.step == 1 && loop_over(tree, inner, loop.var) &&
        !is_small(loop.var, kBlockGrains * machine_.thread_grain)) {
      return block_outside(tree, root, inner);
    }
    if (is_plain(spine[0])) move_out(tree, root, spine[0]);
  }

  // Whether no loop around it is over the same variable.
  static bool is_whole(const LoopTree& tree, TreeRef loop) {
    const auto is_same_var = [&](TreeRef around) { return tree.loop(around).var == tree.loop(loop).var; };
    return std::ranges::count_if(tree.path(loop), is_same_var) == 1;
  }

  void move_out(const LoopTree& tree, TreeRef root, TreeRef loop) {
    const auto distance = tree.depth(loop) - tree.depth(root);
    edit_loops(tree, root, [&](LoopSpecs&, auto at) {
      std::rotate(at, at + distance, at + distance + 1);
      at->annotation.mark = Mark::kParallel;
    });
  }

  void block_outside(const LoopTree& tree, TreeRef root, TreeRef inner) {
    const int64_t block = kBlockGrains * machine_.thread_grain;
    edit_loops(tree, root, [&](LoopSpecs& loops, auto at) {
      loops.insert(at, {.var = tree.loop(inner).var, .step = block, .annotation = {Mark::kParallel}});
    });
  }

  IR ir_;
  const Machine& machine_;
};

}  // namespace

loops::LoopTree schedule_stream(const loops::IR& kernel, const Machine& machine) {
  return StreamScheduler(kernel, machine).run();
}

}  // namespace tenon
