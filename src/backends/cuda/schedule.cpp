#include "backends/cuda/schedule.h"

#include <algorithm>
#include <map>

#include "backends/cuda/products.h"
#include "loops/schedule.h"
#include "support/is_in.h"
#include "symbolic/typical_size.h"

namespace tenon {
namespace {

using namespace loops;
using loops::Compute;

constexpr int64_t kMostAbout = int64_t{1} << 40;

int64_t about(const Expr& size) {
  symbolic::Bindings typical;
  for (Symbol symbol : symbols_of(size)) typical.emplace(symbol, symbolic::kTypicalSize);
  return std::clamp<int64_t>(estimate(size, typical), 1, kMostAbout);
}

// ---- folds of columns -----------------------------------------------------------------------------------------------

// A fold along another dimension than the contiguous one has few results for a GPU, and a block for each result would
// read a column, an element of each row. It becomes a fold of parts: each thread folds a part of a column, next to its
// neighbours, and a second fold takes the parts together.
class ColumnSplitter {
 public:
  ColumnSplitter(const IR& kernel, const CudaScheduleOptions& options) : ir_(kernel), options_(options) {}

  // With the loops of initial_schedule.
  IR run() {
    std::vector<std::string> names;  // refs change with each split
    for (NodeRef ref : ir_.order()) {
      if (is_column_fold(ref)) names.push_back(ir_.node(ref).name);
    }
    for (const std::string& name : names) split_fold(name);
    ir_ = initial_schedule(std::move(ir_), /*repeats_cheap=*/true);
    for (const std::string& name : names) {
      if (const auto part = ir_.node_named(name + "_part")) part_first(*part, *ir_.node_named(name + "_total"));
    }
    return std::move(ir_);
  }

 private:
  // The array that is read, behind a cast that nothing else reads.
  NodeRef array_of(NodeRef fold) const {
    NodeRef input = ir_.node(fold).inputs[0];
    if (ir_.node(input).computes("cast") && ir_.consumers(input).size() == 1) input = ir_.node(input).inputs[0];
    return ir_.node(input).as<Read>() ? input : NodeRef();
  }

  bool is_column_fold(NodeRef ref) const {
    if (!ir_.node(ref).as<Reduce>() || ir_.folded_vars(ref).size() != 1) return false;
    const NodeRef array = array_of(ref);
    if (!array || ir_.node(array).vars.size() != ir_.node(ref).vars.size() + 1) return false;
    if (!ir_.node(ref).has(ir_.node(array).vars.back())) return false;
    int64_t results = 1;
    for (VarRef var : ir_.node(ref).vars) results = std::min(results * about(ir_.var(var).size), kMostAbout);
    const int64_t length = about(ir_.var(ir_.folded_vars(ref)[0]).size);
    return results >= options_.least_spread && results < options_.many_columns && length >= 4 * options_.column_part;
  }

  void split_fold(const std::string& name) {
    const LoopTree tree(ir_);
    const NodeRef ref = *ir_.node_named(name);
    const VarRef var = ir_.folded_vars(ref)[0];
    const auto loop_by = [&](const LoopTree& of, NodeRef node, int64_t step) {
      for (TreeRef loop : of.path(of.find(node))) {
        if (of.loop(loop).var == var && of.loop(loop).step == step) return loop;
      }
      return TreeRef();
    };
    const Result<LoopTree> parts = split(tree, loop_by(tree, ref, 1), options_.column_part);
    if (!parts.ok()) return;
    const NodeRef fold = *parts->ir.node_named(name);
    const Result<LoopTree> folded = split_node(*parts, fold, loop_by(*parts, fold, options_.column_part));
    if (!folded.ok()) return;
    ir_ = folded->ir;
    read_before_cast(*ir_.node_named(name + "_part"));
  }

  // For each part all columns, which are neighbours.
  void part_first(NodeRef part, NodeRef total) {
    const VarRef number = ir_.folded_vars(total)[0];
    std::vector<LoopSpec> loops = {{.var = number}};
    for (VarRef var : ir_.iteration_vars(part)) {
      if (var != number) loops.push_back({.var = var});
    }
    for (NodeRef at = part; !ir_.node(at).is_leaf(); at = ir_.node(at).inputs[0]) ir_.set_loops(at, loops);
    std::vector<LoopSpec> own = ir_.node(total).loops;
    own[0].fresh = true;
    ir_.set_loops(total, std::move(own));
  }

  // The parts read the array itself, and cast what they read.
  void read_before_cast(NodeRef fold) {
    const NodeRef part = ir_.node(fold).inputs[0];
    const auto* view = ir_.node(part).as<View>();
    const NodeRef cast = view && view->only_piece() ? view->only_piece()->input : NodeRef();
    if (!cast || !ir_.node(cast).computes("cast")) return;
    View of_array = *view;
    of_array.pieces[0].input = ir_.node(cast).inputs[0];
    const std::vector<VarRef> vars = ir_.node(part).vars;
    const NodeRef read = ir_.add_view(std::move(of_array), vars);
    const NodeRef wide = ir_.add_compute(op_named("cast"), {read}, vars, ir_.node(part).dtype);
    ir_.set_input(fold, part, wide);
    std::vector<NodeRef> order = ir_.order();
    std::erase_if(order, [&](NodeRef ref) { return ref == read || ref == wide; });
    const auto at = std::ranges::find(order, fold);
    order.insert(at, {read, wide});
    ir_.set_order(std::move(order));
    const std::string name = ir_.node(cast).name;
    ir_ = ir_.without(part);
    ir_ = ir_.without(*ir_.node_named(name));
  }

  IR ir_;
  const CudaScheduleOptions& options_;
};

// ---- products -------------------------------------------------------------------------------------------------------

enum class End : uint8_t { kSum, kWrite, kBias };  // how much of what follows the sum the product does

struct Placed {
  std::vector<NodeRef> tile = {};                 // in order
  std::vector<std::vector<NodeRef>> arrays = {};  // operands in scratch memory, with the nodes that run in their loops
};

class ProductScheduler {
 public:
  ProductScheduler(const IR& kernel, const CudaScheduleOptions& options) : ir_(kernel), options_(options) {}

  // The kernel with its products as tiles.
  IR run() {
    ir_ = ColumnSplitter(ir_, options_).run();
    const std::vector<NodeRef> order = ir_.order();
    for (NodeRef ref : order) {
      if (is_candidate(ref)) schedule(ref);
    }
    ir_ = ordered_by_loops(std::move(ir_));
    for (const Placed& product : products_) order_tile(ir_, product.tile);
    for (const Placed& product : products_) {
      for (const std::vector<NodeRef>& array : product.arrays) start_anew(ir_, array);
    }
    drop_repetitions();
    separate();
    return std::move(ir_);
  }

 private:
  // A node that repeats for readers which ended up elsewhere is computed once.
  void drop_repetitions() {
    const std::vector<NodeRef> order = ir_.order();
    for (auto ref = order.rbegin(); ref != order.rend(); ++ref) {
      while (const std::optional<size_t> position = needless_loop(*ref)) {
        std::vector<LoopSpec> loops = ir_.node(*ref).loops;
        loops.erase(loops.begin() + static_cast<ptrdiff_t>(*position));
        ir_.set_loops(*ref, std::move(loops));
      }
    }
  }

  std::optional<size_t> needless_loop(NodeRef ref) const {
    const std::vector<VarRef> own = ir_.iteration_vars(ref);
    const std::vector<LoopSpec>& loops = ir_.node(ref).loops;
    const auto repeats = [&](const LoopSpec& loop) {
      return !is_in(own, loop.var) && loop.annotation.mark == Mark::kNone;
    };
    if (std::ranges::none_of(loops, repeats)) return {};
    const LoopTree tree(ir_);
    const std::vector<TreeRef> path = tree.path(tree.find(ref));
    for (size_t i = 0; i < loops.size(); ++i) {
      const auto is_inside = [&](NodeRef reader) { return tree.contains(path[i], tree.find(reader)); };
      if (repeats(loops[i]) && std::ranges::none_of(ir_.consumers(ref), is_inside)) return i;
    }
    return {};
  }

  // Nests that have nothing to do with each other share no loop: they would be in the way of each other's threads.
  void separate() {
    const LoopTree tree(ir_);
    std::vector<NodeRef> order;
    for (TreeRef root : tree.roots()) {
      const std::vector<NodeRef> nodes = tree.nodes_below(root);
      std::vector<std::vector<NodeRef>> parts = {nodes};
      if (is_branched(tree, root)) parts = parts_of(nodes);
      for (const std::vector<NodeRef>& part : parts) {
        if (parts.size() > 1) start_anew(ir_, part);
        order.insert(order.end(), part.begin(), part.end());
      }
    }
    ir_.set_order(std::move(order));
  }

  static bool is_branched(const LoopTree& tree, TreeRef root) {
    bool found = false;
    tree.walk(
        [&](TreeRef ref, int) {
          if (tree.kind(ref) == LoopTree::NODE || tree.children(ref).size() < 2) return;
          const auto is_loop = [&](TreeRef child) { return tree.kind(child) == LoopTree::LOOP; };
          found = found || std::ranges::any_of(tree.children(ref), is_loop);
        },
        root);
    return found && !is_product_root(tree, root);
  }

  // Nodes that depend on each other, in order.
  std::vector<std::vector<NodeRef>> parts_of(const std::vector<NodeRef>& nodes) const {
    std::vector<std::vector<NodeRef>> parts;
    for (NodeRef ref : nodes) {
      std::vector<NodeRef> joined;
      const auto reads = [&](NodeRef other) { return is_in(ir_.node(ref).inputs, other); };
      std::erase_if(parts, [&](const std::vector<NodeRef>& part) {
        if (std::ranges::none_of(part, reads)) return false;
        joined.insert(joined.end(), part.begin(), part.end());
        return true;
      });
      std::ranges::sort(joined, {}, [&](NodeRef each) { return std::ranges::find(nodes, each) - nodes.begin(); });
      joined.push_back(ref);
      parts.push_back(std::move(joined));
    }
    return parts;
  }

  bool is_candidate(NodeRef ref) const {
    const Node& node = ir_.node(ref);
    if (!node.sums() || !is_float(node.dtype)) return false;
    const NodeRef product = node.inputs[0];
    if (!ir_.node(product).computes("mul") || ir_.consumers(product).size() != 1) return false;
    int64_t work = 1;
    for (VarRef var : ir_.iteration_vars(ref)) {
      if (ir_.node(product).has(var)) work = std::min(work * about(ir_.var(var).size), kMostAbout);
    }
    return work >= options_.least_product;
  }

  // The operand as it is, else a copy of it in scratch memory.
  void schedule(NodeRef sum) {
    round_weights(ir_, sum);
    for (const auto& [copy_a, copy_b] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      for (const End end : {End::kBias, End::kWrite, End::kSum}) {
        IR attempt = ir_;
        Placed placed;
        if (!place(attempt, sum, copy_a, copy_b, end, placed)) continue;
        ir_ = std::move(attempt);
        products_.push_back(std::move(placed));
        return;
      }
    }
  }

  static bool is_plain_view(const IR& ir, NodeRef ref) {
    const auto* view = ir.node(ref).as<View>();
    return view && view->only_piece() && view->only_piece()->where.empty();
  }

  // The views, casts and scalings between an operand and memory, which the product reads through.
  static std::vector<NodeRef> makers_of(const IR& ir, NodeRef operand) {
    std::vector<NodeRef> makers;
    for (NodeRef at = operand; !ir.node(at).is_leaf() && ir.consumers(at).size() == 1; at = made_of(ir, at)) {
      const bool casts = ir.node(at).computes("cast") && size_of(ir.node(ir.node(at).inputs[0]).dtype) == 2;
      if (!casts && !is_plain_view(ir, at) && !scaled_operand(ir, at)) break;
      makers.insert(makers.begin(), at);
    }
    return makers;
  }

  static NodeRef made_of(const IR& ir, NodeRef maker) {
    const NodeRef scaled = scaled_operand(ir, maker);
    return scaled ? scaled : ir.node(maker).inputs[0];
  }

  // Whether an array lies in memory for others, too, or rounds such an array.
  static bool is_shared(const IR& ir, NodeRef array) {
    const auto has_others = [&](NodeRef ref) { return !ir.node(ref).is_leaf() && ir.consumers(ref).size() > 1; };
    const bool rounds = ir.node(array).computes("cast") && is_narrow_float(ir.node(array).dtype);
    return has_others(array) || (rounds && has_others(ir.node(array).inputs[0]));
  }

  // What lies in memory behind the makers of an operand.
  static NodeRef source_of(const IR& ir, NodeRef operand) {
    const std::vector<NodeRef> makers = makers_of(ir, operand);
    return makers.empty() ? operand : made_of(ir, makers[0]);
  }

  // The weights of a softmax are at most 1, for each row. They are multiplied in the dtype of the values that they
  // weigh, as these have no more digits, and lie in the order of these.
  static void round_weights(IR& ir, NodeRef sum) {
    const NodeRef product = ir.node(sum).inputs[0];
    const std::vector<NodeRef> inputs = ir.node(product).inputs;
    for (size_t i = 0; i < 2; ++i) {
      const NodeRef weights = inputs[i], values = inputs[1 - i];
      if (!ir.node(weights).computes("exp2") || !is_shared(ir, weights) || !ir.node(values).computes("cast")) continue;
      const DType narrow = ir.node(ir.node(values).inputs[0]).dtype;
      if (!is_narrow_float(narrow) || ir.node(weights).dtype != DType::kF32) continue;
      const std::vector<VarRef> vars = ir.node(weights).vars;
      const NodeRef rounded = ir.add_compute(op_named("cast"), {weights}, vars, narrow);
      const NodeRef wide = ir.add_compute(op_named("cast"), {rounded}, vars, DType::kF32);
      ir.set_input(product, weights, wide);
      ir.set_loops(rounded, loops_of_rounded(ir, sum, weights));
      ir.set_loops(wide, ir.node(product).loops);
      std::vector<NodeRef> order = ir.order();
      std::erase_if(order, [&](NodeRef ref) { return ref == rounded || ref == wide; });
      order.insert(std::ranges::find(order, weights) + 1, rounded);
      order.insert(std::ranges::find(order, product), wide);
      ir.set_order(std::move(order));
      return;
    }
  }

  // Those of the weights around each row, then what the sum folds.
  static std::vector<LoopSpec> loops_of_rounded(const IR& ir, NodeRef sum, NodeRef weights) {
    std::vector<LoopSpec> loops;
    for (const LoopSpec& loop : ir.node(weights).loops) {
      if (ir.folds(sum, loop.var)) break;
      loops.push_back(loop);
    }
    for (VarRef var : ir.node(weights).vars) {
      if (std::ranges::find(loops, var, &LoopSpec::var) == loops.end()) loops.push_back({.var = var});
    }
    loops[0].fresh = false;
    return loops;
  }

  // In the order of an operand that lies in memory for others, too.
  static std::vector<VarRef> folded_of(const IR& ir, NodeRef sum) {
    std::vector<VarRef> folded = ir.folded_vars(sum);
    for (NodeRef operand : ir.node(ir.node(sum).inputs[0]).inputs) {
      const NodeRef array = source_of(ir, operand);
      if (!is_shared(ir, array)) continue;
      const std::vector<LoopSpec>& loops = ir.node(array).loops;
      std::ranges::sort(folded, {},
                        [&](VarRef var) { return std::ranges::find(loops, var, &LoopSpec::var) - loops.begin(); });
      break;
    }
    return folded;
  }

  // Batch, rows, columns, then what is folded: the result is dense.
  static std::vector<LoopSpec> loops_of(const IR& ir, NodeRef sum) {
    const NodeRef product = ir.node(sum).inputs[0];
    const NodeRef a = ir.node(product).inputs[0], b = ir.node(product).inputs[1];
    std::vector<VarRef> batch, rows, columns, vars;
    for (VarRef var : ir.node(sum).vars) {
      const bool in_a = has(ir, a, var), in_b = has(ir, b, var);
      (in_a == in_b ? batch : in_a ? rows : columns).push_back(var);
    }
    // The columns of the result are those of its last variable.
    if (!rows.empty() && !ir.node(sum).vars.empty() && rows.back() == ir.node(sum).vars.back())
      std::swap(rows, columns);
    for (const auto& some : {batch, rows, columns, folded_of(ir, sum)})
      vars.insert(vars.end(), some.begin(), some.end());
    std::vector<LoopSpec> loops;
    for (VarRef var : vars) loops.push_back({.var = var});
    return loops;
  }

  static bool has(const IR& ir, NodeRef operand, VarRef var) { return ir.node(operand).has(var); }

  // Makes the tile. False if cuBLASLt has no such product.
  static bool place(IR& ir, NodeRef sum, bool copy_a, bool copy_b, End end, Placed& placed) {
    const NodeRef product = ir.node(sum).inputs[0];
    if (ir.node(product).inputs[0] == ir.node(product).inputs[1]) return false;
    std::vector<LoopSpec> loops = loops_of(ir, sum);
    if (loops.empty() || ir.folded_vars(sum).empty()) return false;
    std::vector<NodeRef>& nodes = placed.tile;
    for (size_t i = 0; i < 2; ++i) {
      const NodeRef operand = ir.node(product).inputs[i];
      const bool copies = i == 0 ? copy_a : copy_b;
      if (copies) {
        if (!materialize(ir, product, operand, loops, placed)) return false;
        continue;
      }
      const std::vector<NodeRef> makers = makers_of(ir, operand);
      const NodeRef source = source_of(ir, operand);
      if (!ir.node(source).is_leaf() && !is_shared(ir, source)) set_own_loops(ir, source, loops, placed);
      nodes.insert(nodes.end(), makers.begin(), makers.end());
    }
    nodes.push_back(product);
    nodes.push_back(sum);
    const auto has_loop = [&](VarRef var) { return std::ranges::find(loops, var, &LoopSpec::var) != loops.end(); };
    for (NodeRef ref : nodes) {
      if (!std::ranges::all_of(ir.iteration_vars(ref), has_loop)) return false;
    }
    loops[0].annotation = {Mark::kTile, kProductTile};
    loops[0].fresh = true;
    for (NodeRef ref : nodes) ir.set_loops(ref, loops);
    for (NodeRef& ref : nodes) {
      if (ref == nodes[0]) continue;
      std::vector<LoopSpec> shared = loops;
      shared[0].fresh = false;
      ir.set_loops(ref, shared);
    }
    if (end != End::kSum && !add_end(ir, sum, loops, end, nodes)) return false;
    order_tile(ir, nodes);
    const LoopTree tree(ir);
    const Compiler compiler(tree);
    TreeRef root = tree.find(sum);
    while (tree.parent(root)) root = tree.parent(root);
    return match_product(compiler, root).has_value();
  }

  // What the tile does with the sum, where nothing else reads the values on the way. False if there is nothing.
  static bool add_end(IR& ir, NodeRef sum, const std::vector<LoopSpec>& loops, End end, std::vector<NodeRef>& nodes) {
    std::vector<LoopSpec> kept;
    for (const LoopSpec& loop : loops) {
      if (ir.node(sum).has(loop.var)) kept.push_back(loop);
    }
    if (kept.empty()) return false;
    kept[0].fresh = false;
    const size_t before = nodes.size();
    NodeRef at = sum;
    const auto next = [&](auto suits) {
      const std::vector<NodeRef> readers = ir.consumers(at);
      if (readers.size() != 1 || !has_elements_of(ir, sum, readers[0]) || !suits(ir.node(readers[0]))) return false;
      at = readers[0];
      return true;
    };
    if (end == End::kBias) {
      if (!next([](const Node& node) { return node.computes("add"); })) return false;
      const std::vector<NodeRef> inputs = ir.node(at).inputs;
      const NodeRef bias = inputs[inputs[0] == sum ? 1 : 0];
      if (ir.node(bias).computes("cast") && ir.consumers(bias).size() == 1) nodes.push_back(bias);
      nodes.push_back(at);
    }
    if (next([](const Node& node) { return node.computes("cast") && size_of(node.dtype) == 2; })) nodes.push_back(at);
    if (next([](const Node& node) { return node.as<Write>() != nullptr; })) nodes.push_back(at);
    for (size_t i = before; i < nodes.size(); ++i) {
      std::vector<LoopSpec> loops_of_node = kept;
      for (VarRef var : ir.node(nodes[i]).vars) {
        if (!ir.node(sum).has(var)) loops_of_node.push_back({.var = var});
      }
      ir.set_loops(nodes[i], std::move(loops_of_node));
    }
    return nodes.size() > before;
  }

  // Whether a reader of the sum has an element for each of its own: other dimensions have one element.
  static bool has_elements_of(const IR& ir, NodeRef sum, NodeRef reader) {
    const std::vector<VarRef>& vars = ir.node(reader).vars;
    return std::ranges::all_of(ir.node(sum).vars, [&](VarRef var) { return is_in(vars, var); }) &&
           std::ranges::all_of(vars,
                               [&](VarRef var) { return ir.node(sum).has(var) || ir.var(var).size.is_constant(1); });
  }

  // The operand becomes an array of its own, in the order of the tile's loops.
  static bool materialize(IR& ir, NodeRef product, NodeRef operand, const std::vector<LoopSpec>& loops,
                          Placed& placed) {
    if (ir.node(operand).as<Constant>()) return false;
    std::vector<VarRef> vars;
    for (const LoopSpec& loop : loops) {
      if (ir.node(operand).has(loop.var)) vars.push_back(loop.var);
    }
    if (vars.size() != ir.node(operand).vars.size() || vars.empty()) return false;
    NodeRef array = operand;
    if (ir.node(operand).is_leaf() || ir.consumers(operand).size() != 1) {
      array = ir.add_copy(operand, vars);
      ir.set_input(product, operand, array);
      std::vector<NodeRef> order = ir.order();
      std::erase(order, array);
      order.insert(std::ranges::find(order, product), array);
      ir.set_order(order);
    }
    set_own_loops(ir, array, loops, placed);
    return true;
  }

  // An array of its own, in the order of the tile's loops. What only it reads runs in its loops.
  static void set_own_loops(IR& ir, NodeRef array, const std::vector<LoopSpec>& loops, Placed& placed) {
    const std::vector<VarRef> own = ir.iteration_vars(array);
    std::vector<VarRef> vars;
    for (const LoopSpec& loop : loops) {
      if (is_in(own, loop.var)) vars.push_back(loop.var);
    }
    for (VarRef var : own) {
      if (!is_in(vars, var)) vars.push_back(var);
    }
    std::vector<LoopSpec> around;
    for (VarRef var : vars) around.push_back({.var = var});
    ir.set_loops(array, around);
    std::vector<NodeRef>& nodes = placed.arrays.emplace_back(std::vector{array});
    for (NodeRef input : std::vector<NodeRef>(ir.node(array).inputs)) follow(ir, input, array, around, nodes);
  }

  static void follow(IR& ir, NodeRef ref, NodeRef reader, const std::vector<LoopSpec>& loops,
                     std::vector<NodeRef>& nodes) {
    const Node& node = ir.node(ref);
    const bool is_elementwise = node.as<Compute>() || node.as<View>();
    if (!is_elementwise || ir.consumers(ref).size() != 1 || ir.node(reader).as<Scatter>()) return;
    if (!std::ranges::all_of(node.vars, [&](VarRef var) { return ir.reads_in_step(reader, ref, var); })) return;
    const std::vector<NodeRef> inputs = node.inputs;
    ir.set_loops(ref, loops);
    nodes.push_back(ref);
    for (NodeRef input : inputs) follow(ir, input, ref, loops, nodes);
  }

  // The first of the nodes starts loops of its own.
  static void start_anew(IR& ir, const std::vector<NodeRef>& nodes) {
    const std::vector<NodeRef>& order = ir.order();
    const auto first = std::ranges::find_if(order, [&](NodeRef ref) { return is_in(nodes, ref); });
    std::vector<LoopSpec> loops = ir.node(*first).loops;
    if (loops.empty()) return;
    loops[0].fresh = true;
    ir.set_loops(*first, std::move(loops));
  }

  // The nodes of the tile come one after the other, where the last of them was.
  static void order_tile(IR& ir, const std::vector<NodeRef>& nodes) {
    const std::vector<NodeRef> order = ir.order();
    const auto last =
        std::ranges::find_if(order.rbegin(), order.rend(), [&](NodeRef ref) { return is_in(nodes, ref); });
    std::vector<NodeRef> result;
    for (NodeRef ref : order) {
      if (ref == *last) result.insert(result.end(), nodes.begin(), nodes.end());
      if (!is_in(nodes, ref)) result.push_back(ref);
    }
    ir.set_order(std::move(result));
  }

  IR ir_;
  std::vector<Placed> products_;
  const CudaScheduleOptions& options_;
};

// ---- all other loops ------------------------------------------------------------------------------------------------

class LoopMarker {
 public:
  LoopMarker(const IR& ir, const CudaScheduleOptions& options)
      : tree_(ir), compiler_(tree_), ir_(ir), options_(options) {}

  IR run() {
    for (TreeRef root : tree_.roots()) {
      if (tree_.kind(root) == LoopTree::LOOP && !is_product_root(tree_, root)) mark_root(root);
    }
    return std::move(ir_);
  }

 private:
  bool is_independent(TreeRef ref) const { return tree_.kind(ref) == LoopTree::LOOP && !why_not_parallel(tree_, ref); }

  TreeRef only_loop_in(TreeRef loop) const {
    const std::vector<TreeRef>& children = tree_.children(loop);
    return children.size() == 1 && tree_.kind(children[0]) == LoopTree::LOOP ? children[0] : TreeRef();
  }

  // The loop, and those alone in it, while their iterations are independent.
  std::vector<TreeRef> independent_from(TreeRef loop) const {
    std::vector<TreeRef> chain;
    for (TreeRef at = loop; at && is_independent(at); at = only_loop_in(at)) chain.push_back(at);
    return chain;
  }

  int64_t iterations(const std::vector<TreeRef>& loops) const {
    int64_t count = 1;
    for (TreeRef ref : loops) count = std::min(count * about(tree_.loop(ref).iterations()), kMostAbout);
    return count;
  }

  void mark(TreeRef ref, Mark mark) {
    const auto depth = static_cast<size_t>(tree_.depth(ref));
    for (NodeRef node : tree_.nodes_below(ref)) {
      std::vector<LoopSpec> loops = ir_.node(node).loops;
      loops[depth].annotation = {mark};
      ir_.set_loops(node, std::move(loops));
    }
  }
  void mark(const std::vector<TreeRef>& loops, Mark mark) {
    for (TreeRef ref : loops) this->mark(ref, mark);
  }

  void mark_root(TreeRef root) {
    const std::vector<TreeRef> rows = independent_from(root);
    if (rows.empty()) return mark_inside(root);
    const std::vector<TreeRef>& inside = tree_.children(rows.back());
    int64_t longest = 0;
    for (TreeRef child : inside) longest = std::max(longest, longest_in(child));
    const bool by_block =
        longest >= options_.least_spread && !(iterations(rows) >= options_.many_rows && reads_along(rows.back()));
    mark(rows, by_block ? Mark::kBlock : Mark::kThread);
    if (!by_block) return;
    for (TreeRef child : inside) mark_inside(child);
  }

  // Reductions that a block can fold: each has one element.
  bool can_fold(TreeRef loop) const {
    if (why_not_threads(tree_, loop)) return false;
    return std::ranges::all_of(tree_.nodes_below(loop), [&](NodeRef ref) {
      if (!ir_.folds(ref, tree_.loop(loop).var)) return true;
      const Compiler::Fill block = compiler_.fill(ref, loop);
      return std::ranges::all_of(block.extents, [](const Expr& extent) { return extent.is_constant(1); });
    });
  }

  std::vector<NodeRef> folded_by(TreeRef loop) const {
    std::vector<NodeRef> nodes = tree_.nodes_below(loop);
    std::erase_if(nodes, [&](NodeRef ref) { return !ir_.folds(ref, tree_.loop(loop).var); });
    return nodes;
  }

  // The loop, and those alone in it, while they fold the same.
  std::vector<TreeRef> folds_from(TreeRef loop) const {
    std::vector<TreeRef> chain = {loop};
    for (TreeRef at = only_loop_in(loop); at && can_fold(at) && folded_by(at) == folded_by(loop); at = only_loop_in(at))
      chain.push_back(at);
    return chain;
  }

  // The iterations of the longest nest of loops that threads can share.
  int64_t longest_in(TreeRef ref) const {
    if (tree_.kind(ref) == LoopTree::NODE) return 0;
    if (const std::vector<TreeRef> chain = independent_from(ref); !chain.empty()) return iterations(chain);
    int64_t longest = can_fold(ref) ? iterations(folds_from(ref)) : 0;
    for (TreeRef child : tree_.children(ref)) longest = std::max(longest, longest_in(child));
    return longest;
  }

  void mark_inside(TreeRef ref) {
    if (tree_.kind(ref) == LoopTree::NODE) return;
    if (const std::vector<TreeRef> chain = independent_from(ref); !chain.empty()) return mark(chain, Mark::kThread);
    int64_t inner = 0;
    for (TreeRef child : tree_.children(ref)) inner = std::max(inner, longest_in(child));
    if (can_fold(ref) && (inner < options_.least_spread || inner <= iterations(folds_from(ref))))
      return mark(folds_from(ref), Mark::kThread);
    for (TreeRef child : tree_.children(ref)) mark_inside(child);
  }

  // Whether neighbours along the loop are neighbours in the arrays that are read below it.
  bool reads_along(TreeRef loop) const {
    int64_t along = 0, others = 0;
    for (NodeRef ref : tree_.nodes_below(loop)) {
      for (NodeRef input : ir_.node(ref).inputs) {
        if (!ir_.node(input).as<Read>() || ir_.node(input).vars.empty()) continue;
        const std::optional<Expr> stride = compiler_.stride(compiler_.gen_access(input, tree_.find(ref)), loop);
        (stride && stride->is_constant(1) ? along : others) += 1;
      }
    }
    return along > others;
  }

  const LoopTree tree_;
  const Compiler compiler_;
  IR ir_;
  const CudaScheduleOptions& options_;
};

}  // namespace

LoopTree schedule_cuda(const IR& kernel, const CudaScheduleOptions& options) {
  return LoopTree(LoopMarker(ProductScheduler(kernel, options).run(), options).run());
}

}  // namespace tenon
