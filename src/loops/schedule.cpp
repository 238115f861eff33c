#include "loops/schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "support/checked.h"
#include "support/is_in.h"

namespace tenon::loops {
namespace {

// Changes a copy of the IR and builds a new tree from it.
template <class Change>
Result<LoopTree> edited(const LoopTree& tree, Change change) {
  return attempt([&] {
    IR ir = tree.ir;
    change(ir);
    return LoopTree(std::move(ir));
  });
}

void require_loop(const LoopTree& tree, TreeRef ref) {
  if (!tree.owns(ref)) fail("there is no line {}: the tree has {}, from 0 on", ref.id, tree.size());
  if (tree.kind(ref) == LoopTree::LOOP) return;
  fail("line {} is the node %{}, not a loop", ref.id, tree.ir.node(tree.node(ref)).name);
}

void require_node(const LoopTree& tree, NodeRef ref) {
  if (ref.id >= tree.ir.nodes().size()) fail("the ref {} is not a node of the kernel", ref.id);
  if (tree.ir.node(ref).is_leaf()) fail("%{} has no loops", tree.ir.node(ref).name);
}

const std::string& var_name(const LoopTree& tree, TreeRef loop) { return tree.ir.var(tree.loop(loop).var).name; }

// The loops of a node are those around it in the tree, so a loop's depth is its position in Node::loops.
size_t position_of(const LoopTree& tree, TreeRef loop) { return static_cast<size_t>(tree.depth(loop)); }

template <class Change>
void change_loops(IR& ir, const std::vector<NodeRef>& nodes, Change change) {
  for (NodeRef node : nodes) {
    std::vector<LoopSpec> loops = ir.node(node).loops;
    change(loops);
    ir.set_loops(node, std::move(loops));
  }
}

// The outer loop of a split has the mark if that was parallel or block; other marks go to the inner loop.
bool goes_outside(const Annotation& annotation) {
  return annotation.mark == Mark::kParallel || annotation.mark == Mark::kBlock;
}

}  // namespace

// ---- loops ----------------------------------------------------------------------------------------------------------

Result<LoopTree> split(const LoopTree& tree, TreeRef loop, int64_t size) {
  return edited(tree, [&](IR& ir) {
    require_loop(tree, loop);
    const LoopTree::Loop& old = tree.loop(loop);
    if (size < 2)
      fail("the loop over {} cannot be split by {}: the size must be at least 2", var_name(tree, loop), size);
    const Expr iterations = old.iterations();
    if (iterations.is_constant() && iterations.constant() < size) {
      fail("the loop over {} has {} iterations: it cannot be split by {}", var_name(tree, loop), iterations, size);
    }
    const int64_t step = checked_mul(old.step, size);
    change_loops(ir, tree.nodes_below(loop), [&](std::vector<LoopSpec>& loops) {
      const auto inner = loops.begin() + tree.depth(loop);
      LoopSpec outer = *inner;
      outer.step = step;
      (goes_outside(outer.annotation) ? inner->annotation : outer.annotation) = {};
      inner->fresh = false;
      loops.insert(inner, outer);
    });
  });
}

Result<LoopTree> merge(const LoopTree& tree, TreeRef loop) {
  return edited(tree, [&](IR& ir) {
    require_loop(tree, loop);
    const std::vector<TreeRef>& children = tree.children(loop);
    const bool has_one = children.size() == 1 && tree.kind(children[0]) == LoopTree::LOOP;
    if (!has_one || tree.loop(children[0]).var != tree.loop(loop).var) {
      fail("the loop over {} cannot be merged: its only child is not a loop over {}", var_name(tree, loop),
           var_name(tree, loop));
    }
    change_loops(ir, tree.nodes_below(loop), [&](std::vector<LoopSpec>& loops) {
      const auto outer = loops.begin() + tree.depth(loop);
      const LoopSpec before = std::move(*outer);
      const auto merged = loops.erase(outer);
      merged->fresh = before.fresh;
      if (goes_outside(before.annotation)) merged->annotation = before.annotation;
    });
  });
}

Result<LoopTree> swap_loops(const LoopTree& tree, TreeRef a, TreeRef b) {
  return edited(tree, [&](IR& ir) {
    require_loop(tree, a);
    require_loop(tree, b);
    if (tree.depth(a) > tree.depth(b)) std::swap(a, b);
    if (a == b || !tree.contains(a, b)) {
      fail("the loops over {} and {} are not inside of each other", var_name(tree, a), var_name(tree, b));
    }
    change_loops(ir, tree.nodes_below(b), [&](std::vector<LoopSpec>& loops) {
      LoopSpec &outer = loops[position_of(tree, a)], &inner = loops[position_of(tree, b)];
      std::swap(outer, inner);
      std::swap(outer.fresh, inner.fresh);  // `fresh` belongs to the place, not to the loop
    });
  });
}

namespace {

// Whether two nodes share the loop of that depth.
bool share_loop(const LoopTree& tree, NodeRef a, NodeRef b, int depth) {
  const TreeRef shared = tree.lca(tree.find(a), tree.find(b));
  return shared && tree.depth(shared) >= depth;
}

TreeRef sibling_before(const LoopTree& tree, TreeRef ref) {
  const TreeRef parent = tree.parent(ref);
  const std::vector<TreeRef>& siblings = parent ? tree.children(parent) : tree.roots();
  const auto found = std::ranges::find(siblings, ref);
  return found == siblings.begin() ? TreeRef() : *(found - 1);
}

}  // namespace

Result<LoopTree> fuse(const LoopTree& tree, TreeRef loop) {
  return attempt([&] {
    require_loop(tree, loop);
    const TreeRef before = sibling_before(tree, loop);
    const std::string& name = var_name(tree, loop);
    if (!before || tree.kind(before) != LoopTree::LOOP) fail("there is no loop right before the one over {}", name);
    const LoopTree::Loop &first = tree.loop(before), &second = tree.loop(loop);
    if (first.var != second.var || first.step != second.step || first.annotation != second.annotation) {
      fail(
          "the loop over {} and the one over {} before it are not alike: their variables, steps and annotations must "
          "be",
          name, var_name(tree, before));
    }
    IR ir = tree.ir;
    change_loops(ir, tree.nodes_below(loop),
                 [&](std::vector<LoopSpec>& loops) { loops[position_of(tree, loop)].fresh = false; });
    LoopTree result(std::move(ir));
    const NodeRef last = tree.nodes_below(before).back(), next = tree.nodes_below(loop).front();
    if (!share_loop(result, last, next, tree.depth(loop))) {
      fail("the loops over {} cannot be joined: %{} reads values that the first loop completes at its end", name,
           tree.ir.node(next).name);
    }
    return result;
  });
}

Result<LoopTree> unfuse(const LoopTree& tree, TreeRef loop, TreeRef child) {
  return edited(tree, [&](IR& ir) {
    require_loop(tree, loop);
    const std::vector<TreeRef>& children = tree.children(loop);
    if (!is_in(children, child)) fail("the ref {} is not in the loop over {}", child.id, var_name(tree, loop));
    if (child == children.front()) fail("the loop over {} cannot be cut before its first child", var_name(tree, loop));
    const NodeRef first = tree.nodes_below(child).front();
    change_loops(ir, {first}, [&](std::vector<LoopSpec>& loops) { loops[position_of(tree, loop)].fresh = true; });
  });
}

Result<LoopTree> reorder(const LoopTree& tree, NodeRef node, const std::vector<LoopSpec>& loops) {
  return edited(tree, [&](IR& ir) {
    require_node(tree, node);
    for (const LoopSpec& loop : loops) {
      if (loop.var.id >= ir.vars().size()) fail("the ref {} is not a variable of the kernel", loop.var.id);
    }
    ir.set_loops(node, loops);
  });
}

Result<LoopTree> annotate(const LoopTree& tree, TreeRef loop, Annotation annotation) {
  return edited(tree, [&](IR& ir) {
    require_loop(tree, loop);
    change_loops(ir, tree.nodes_below(loop),
                 [&](std::vector<LoopSpec>& loops) { loops[position_of(tree, loop)].annotation = annotation; });
  });
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

Result<LoopTree> swap_nodes(const LoopTree& tree, NodeRef a, NodeRef b) {
  return edited(tree, [&](IR& ir) {
    require_node(tree, a);
    require_node(tree, b);
    if (a == b) fail("%{} cannot be exchanged with itself", ir.node(a).name);
    std::vector<NodeRef> order = ir.order();
    std::iter_swap(std::ranges::find(order, a), std::ranges::find(order, b));
    ir.set_order(std::move(order));
  });
}

namespace {

std::string unused_var_name(const IR& ir, std::string name) {
  const std::vector<Symbol> sizes = ir.size_symbols();
  while (ir.var_named(name) || is_in(sizes, Symbol(name))) name += "_";
  return name;
}

// Moves the nodes that were added last right before `place`.
void run_before(IR& ir, NodeRef place, size_t added) {
  std::vector<NodeRef> order = ir.order();
  const auto last = order.end() - static_cast<std::ptrdiff_t>(added);
  std::rotate(std::ranges::find(order, place), last, order.end());
  ir.set_order(std::move(order));
}

bool is_copy(const IR& ir, NodeRef ref) {
  const Node& node = ir.node(ref);
  const auto* view = node.as<View>();
  return view && reads_own_index(ir, *view, ir.node(node.inputs[0]).vars) &&
         ir.node(node.inputs[0]).vars.size() == node.vars.size();
}

// The loops around the node up to `inside`, then loops over the input's variables.
std::vector<LoopSpec> loops_of_copy(const LoopTree& tree, NodeRef node, NodeRef input, TreeRef inside) {
  const size_t shared = inside ? position_of(tree, inside) + 1 : 0;
  std::vector<LoopSpec> loops;
  std::set<VarRef> complete;
  const std::vector<LoopSpec>& of_node = tree.ir.node(node).loops;
  for (size_t i = 0; i < of_node.size(); ++i) {
    LoopSpec loop = of_node[i];
    if (i >= shared && !tree.ir.node(input).has(loop.var)) continue;
    if (i >= shared) loop.annotation = {};
    loop.fresh = false;
    if (loop.step == 1) complete.insert(loop.var);
    loops.push_back(loop);
  }
  for (VarRef var : tree.ir.node(input).vars) {
    if (!complete.contains(var)) loops.push_back({.var = var});
  }
  return loops;
}

// The child of `inside` that contains the node.
TreeRef part_with(const LoopTree& tree, TreeRef inside, NodeRef node) {
  TreeRef part = tree.find(node);
  while (tree.parent(part) != inside) part = tree.parent(part);
  return part;
}

// Places the copy, which was added last, before the loops that read it. These loops become `fresh`: sharing them, the
// copy would copy one element at a time.
void place_copy(IR& ir, const LoopTree& tree, NodeRef node, NodeRef input, TreeRef inside) {
  const TreeRef part = part_with(tree, inside, node);
  const bool is_made_there = tree.find(input) && tree.contains(part, tree.find(input));
  const NodeRef first = is_made_there ? node : tree.nodes_below(part).front();
  run_before(ir, first, 1);
  const size_t shared = inside ? position_of(tree, inside) + 1 : 0;
  change_loops(ir, {first}, [&](std::vector<LoopSpec>& loops) {
    if (loops.size() > shared) loops[shared].fresh = true;
  });
}

}  // namespace

Result<LoopTree> copy_input(const LoopTree& tree, NodeRef node, NodeRef input, TreeRef inside) {
  return attempt([&] {
    require_node(tree, node);
    const Node& reader = tree.ir.node(node);
    if (!is_in(reader.inputs, input)) fail("the ref {} is not an input of %{}", input.id, reader.name);
    const Node& source = tree.ir.node(input);
    if (source.as<Constant>() || source.as<Index>()) fail("%{} has no memory that could be copied", source.name);
    if (inside) require_loop(tree, inside);
    if (inside && !tree.contains(inside, tree.find(node))) {
      fail("%{} is not in the loop over {}", reader.name, var_name(tree, inside));
    }
    IR ir = tree.ir;
    const NodeRef copy = ir.add_copy(input, source.vars, ir.unused_node_name(source.name + "_copy"));
    ir.set_loops(copy, loops_of_copy(tree, node, input, inside));
    ir.set_input(node, input, copy);
    place_copy(ir, tree, node, input, inside);
    LoopTree result(std::move(ir));
    if (inside && !share_loop(result, copy, node, tree.depth(inside))) {
      fail("%{} cannot be copied inside of the loop over {}: %{} reads it there at other indices", source.name,
           var_name(tree, inside), reader.name);
    }
    return result;
  });
}

Result<LoopTree> delete_copy(const LoopTree& tree, NodeRef copy) {
  return attempt([&] {
    require_node(tree, copy);
    if (!is_copy(tree.ir, copy)) fail("%{} is not a copy", tree.ir.node(copy).name);
    IR ir = tree.ir;
    const NodeRef source = ir.node(copy).inputs[0];
    for (NodeRef reader : tree.ir.consumers(copy)) {
      if (is_in(ir.node(reader).inputs, source))
        fail("%{} reads %{} and its copy", ir.node(reader).name, ir.node(source).name);
      ir.set_input(reader, copy, source);
    }
    return LoopTree(ir.without(copy));
  });
}

// ---- split_node -----------------------------------------------------------------------------------------------------

namespace {

// Replaces a folded variable v by two variables: v == part * size + rest.
class NodeSplitter {
 public:
  NodeSplitter(const LoopTree& tree, NodeRef node, TreeRef loop)
      : ir_(tree.ir),
        node_(node),
        var_(tree.loop(loop).var),
        size_(tree.loop(loop).step),
        loops_(ir_.node(node).loops) {
    const std::string name = ir_.var(var_).name;
    const Expr whole = ir_.var(var_).size;
    part_ = ir_.add_var(unused_var_name(ir_, name + "_part"), ceildiv(whole, size_));
    rest_ = ir_.add_var(unused_var_name(ir_, name + "_rest"), size_);
    has_tail_ = !mod(whole, size_).is_constant(0);
    index_ = Expr(ir_.var(part_).symbol()) * size_ + Expr(ir_.var(rest_).symbol());
  }

  IR run() {
    const Node old = ir_.node(node_);
    const OpDef& op = *old.as<Reduce>()->op;
    const size_t before = ir_.order().size();
    const NodeRef input = has_tail_ ? viewed(old.inputs[0], *identity_of(op, old.dtype)) : rewritten(old.inputs[0]);
    std::vector<VarRef> vars = old.vars;
    vars.push_back(part_);
    const NodeRef partial = ir_.add_reduce(op, input, vars, ir_.unused_node_name(old.name + "_part"));
    ir_.set_loops(partial, replaced(loops_));
    const NodeRef total = ir_.add_reduce(op, partial, old.vars, ir_.unused_node_name(old.name + "_total"));
    run_before(ir_, node_, ir_.order().size() - before);
    for (NodeRef reader : ir_.consumers(node_)) ir_.set_input(reader, node_, total);
    return without_unread(ir_.without(node_));
  }

 private:
  std::vector<LoopSpec> replaced(std::vector<LoopSpec> loops) const {
    for (LoopSpec& loop : loops) {
      loop.fresh = false;
      if (loop.var != var_) continue;
      const bool is_outer = loop.step >= size_;
      loop.var = is_outer ? part_ : rest_;
      if (is_outer) loop.step /= size_;
    }
    return loops;
  }

  std::vector<VarRef> replaced(std::vector<VarRef> vars) const {
    const auto found = std::ranges::find(vars, var_);
    if (found == vars.end()) return vars;
    *found = part_;
    vars.insert(std::ranges::find(vars, part_) + 1, rest_);
    return vars;
  }

  Expr replaced(const Expr& expr) const { return substitute(expr, {{ir_.var(var_).symbol(), index_}}); }

  // A view of the node's array over the two variables. Beyond the end of the array it reads `fill`.
  NodeRef viewed(NodeRef ref, const Scalar& fill) {
    const Node source = ir_.node(ref);
    Piece piece{ref, {}, {}};
    for (VarRef var : source.vars) piece.index.push_back(replaced(Expr(ir_.var(var).symbol())));
    if (has_tail_) piece.where.push_back({index_, ir_.var(var_).size});
    return add(source, [&](std::vector<VarRef> vars) { return ir_.add_view({{piece}, fill, {}}, std::move(vars)); });
  }

  // The node over the two variables. Elementwise nodes are computed again over them, once for all readers.
  NodeRef rewritten(NodeRef ref) {
    if (!ir_.node(ref).has(var_)) return ref;
    if (const auto found = rewritten_.find(ref); found != rewritten_.end()) return found->second;
    return rewritten_[ref] = rewrite(ref);
  }

  NodeRef rewrite(NodeRef ref) {
    const Node source = ir_.node(ref);
    const auto* compute = source.as<Compute>();
    if (!compute) return viewed(ref, zero_of(source.dtype));
    std::vector<NodeRef> inputs;
    for (NodeRef input : source.inputs) inputs.push_back(rewritten(input));
    const bool is_cast = compute->op->attr_named("dtype") != nullptr;
    const std::optional<DType> dtype = is_cast ? std::optional(source.dtype) : std::nullopt;
    return add(source,
               [&](std::vector<VarRef> vars) { return ir_.add_compute(*compute->op, inputs, std::move(vars), dtype); });
  }

  // Gives nodes the loops of the reduction, so that they share them.
  template <class Add>
  NodeRef add(const Node& source, Add add_node) {
    const NodeRef ref = add_node(replaced(source.vars));
    std::vector<LoopSpec> loops = replaced(loops_);
    std::erase_if(loops, [&](const LoopSpec& loop) { return !ir_.node(ref).has(loop.var); });
    ir_.set_loops(ref, std::move(loops));
    return ref;
  }

  static IR without_unread(IR ir) {
    const auto is_unread = [&](NodeRef ref) { return !ir.node(ref).as<Write>() && ir.consumers(ref).empty(); };
    for (auto unread = std::ranges::find_if(ir.order(), is_unread); unread != ir.order().end();
         unread = std::ranges::find_if(ir.order(), is_unread)) {
      ir = ir.without(*unread);
    }
    return ir;
  }

  IR ir_;
  NodeRef node_;
  VarRef var_;
  int64_t size_;
  std::vector<LoopSpec> loops_;
  VarRef part_;
  VarRef rest_;
  bool has_tail_;
  Expr index_;
  std::map<NodeRef, NodeRef> rewritten_;
};

}  // namespace

Result<LoopTree> split_node(const LoopTree& tree, NodeRef node, TreeRef loop) {
  return attempt([&] {
    require_node(tree, node);
    require_loop(tree, loop);
    const std::string &name = tree.ir.node(node).name, &var = var_name(tree, loop);
    if (!tree.ir.node(node).as<Reduce>()) fail("%{} is not a reduction", name);
    if (!tree.contains(loop, tree.find(node))) fail("%{} is not in the loop over {}", name, var);
    if (!tree.ir.folds(node, tree.loop(loop).var)) fail("%{} does not fold {}", name, var);
    if (tree.loop(loop).step == 1) fail("the loop over {} covers one element per iteration: split it first", var);
    for (const LoopSpec& around : tree.ir.node(node).loops) {
      if (around.var != tree.loop(loop).var || around.step % tree.loop(loop).step == 0) continue;
      if (around.step > tree.loop(loop).step)
        fail("the loop over {} by {} is no multiple of {}", var, around.step, tree.loop(loop).step);
    }
    return LoopTree(NodeSplitter(tree, node, loop).run());
  });
}

// ---- for tools ------------------------------------------------------------------------------------------------------

bool is_parallel(const LoopTree& tree, TreeRef loop) { return !why_not_parallel(tree, loop); }

TreeRef map_ref(const LoopTree& before, TreeRef ref, const LoopTree& after) {
  if (!before.owns(ref)) return {};
  for (NodeRef below : before.nodes_below(ref)) {
    const auto node = after.ir.node_named(before.ir.node(below).name);
    if (!node || !after.find(*node)) continue;
    if (before.kind(ref) == LoopTree::NODE) return after.find(*node);
    const std::string& name = var_name(before, ref);
    TreeRef nearest;
    for (TreeRef loop : after.path(after.find(*node))) {
      if (var_name(after, loop) != name) continue;
      if (!nearest || after.loop(loop).step >= before.loop(ref).step) nearest = loop;
    }
    if (nearest) return nearest;
  }
  return {};
}

// ---- the default ----------------------------------------------------------------------------------------------------

namespace {

using Readers = std::vector<std::vector<NodeRef>>;  // readers of each node, in order

Readers readers_of(const IR& ir) {
  Readers readers(ir.nodes().size());
  for (NodeRef ref : ir.order()) {
    const std::set<NodeRef> inputs(ir.node(ref).inputs.begin(), ir.node(ref).inputs.end());
    for (NodeRef input : inputs) readers[input.id].push_back(ref);
  }
  return readers;
}

bool is_cheap(const Node& node) {
  const auto* compute = node.as<loops::Compute>();
  return compute && cost_of(*compute->op) < Cost::kFunction;
}

// A view with one reader, which reads it at its own index, runs in the loops of the reader: it is not stored.
bool joins_loops_of(const IR& ir, NodeRef ref, std::span<const NodeRef> readers, bool repeats_cheap) {
  const Node& node = ir.node(ref);
  if (!node.as<View>() && !(repeats_cheap && is_cheap(node))) return false;
  if (readers.size() != 1 || ir.node(readers[0]).as<Scatter>()) return false;
  return std::ranges::all_of(node.vars, [&](VarRef var) { return ir.reads_in_step(readers[0], ref, var); });
}

// A node takes the loop order of the first node that reads it at its own index. Folded variables come last. So do loops
// of one iteration if nothing is folded: other nodes rarely have them.
void follow_consumer(IR& ir, NodeRef ref, std::span<const NodeRef> readers, bool repeats_cheap) {
  if (joins_loops_of(ir, ref, readers, repeats_cheap)) return ir.set_loops(ref, ir.node(readers[0]).loops);
  const std::vector<VarRef> own = ir.iteration_vars(ref);
  const std::vector<VarRef> folded = ir.folded_vars(ref);
  std::vector<LoopSpec> loops;
  std::set<VarRef> placed;
  const auto place = [&](VarRef var) {
    if (placed.insert(var).second) loops.push_back({.var = var});
  };
  for (NodeRef reader : readers) {
    for (const LoopSpec& loop : ir.node(reader).loops) {
      const bool follows = is_in(own, loop.var) && !is_in(folded, loop.var) && ir.reads_in_step(reader, ref, loop.var);
      if (follows) place(loop.var);
    }
    if (!loops.empty()) break;
  }
  for (VarRef var : own) {
    if (!folded.empty() || !ir.var(var).size.is_constant(1)) place(var);
  }
  std::ranges::for_each(own, place);
  ir.set_loops(ref, std::move(loops));
}

// Orders nodes: among the ready ones, next comes the node that shares most open loops. A node without loops waits until
// no loop is open, because it would close them.
class NodeOrder {
 public:
  NodeOrder(const IR& ir, const Readers& readers) : ir_(ir), readers_(readers), missing_(ir.nodes().size()) {
    for (NodeRef ref : ir.order()) {
      for (NodeRef reader : readers[ref.id]) ++missing_[reader.id];
    }
    std::ranges::copy_if(ir.order(), std::back_inserter(ready_), [&](NodeRef ref) { return missing_[ref.id] == 0; });
  }

  std::vector<NodeRef> run() {
    std::vector<NodeRef> order;
    while (!ready_.empty()) {
      auto best = ready_.begin();
      for (auto next = ready_.begin() + 1; next != ready_.end(); ++next) {
        if (shared_with_open(*next) > shared_with_open(*best)) best = next;
      }
      if (open_.empty()) {
        const auto scalar = std::ranges::find_if(ready_, [&](NodeRef ref) { return ir_.node(ref).loops.empty(); });
        if (scalar != ready_.end()) best = scalar;
      }
      const NodeRef node = *best;
      ready_.erase(best);
      place(node);
      order.push_back(node);
    }
    return order;
  }

 private:
  struct Open {
    VarRef var;
    std::set<NodeRef> inside;
  };

  size_t shared_with_open(NodeRef ref) const {
    const std::vector<LoopSpec>& loops = ir_.node(ref).loops;
    size_t shared = 0;
    while (shared < loops.size() && shared < open_.size() && may_enter(open_[shared], ref, loops[shared])) ++shared;
    return shared;
  }

  bool may_enter(const Open& open, NodeRef ref, const LoopSpec& loop) const {
    return open.var == loop.var && std::ranges::all_of(ir_.node(ref).inputs, [&](NodeRef input) {
             return !open.inside.contains(input) || may_share_loop(ir_, ref, input, loop.var);
           });
  }

  void place(NodeRef ref) {
    open_.resize(shared_with_open(ref));
    const std::vector<LoopSpec>& loops = ir_.node(ref).loops;
    for (size_t i = open_.size(); i < loops.size(); ++i) open_.push_back({loops[i].var, {}});
    for (Open& open : open_) open.inside.insert(ref);
    for (NodeRef reader : readers_[ref.id]) {
      if (--missing_[reader.id] == 0) ready_.insert(std::ranges::lower_bound(ready_, reader), reader);
    }
  }

  const IR& ir_;
  const Readers& readers_;
  std::vector<int> missing_;  // by node: how many inputs are not placed yet
  std::vector<NodeRef> ready_;
  std::vector<Open> open_;
};

}  // namespace

IR initial_schedule(IR ir, bool repeats_cheap) {
  const std::vector<NodeRef> order = ir.order();
  const Readers readers = readers_of(ir);
  for (auto ref = order.rbegin(); ref != order.rend(); ++ref)
    follow_consumer(ir, *ref, readers[ref->id], repeats_cheap);
  return ordered_by_loops(std::move(ir));
}

IR ordered_by_loops(IR ir) {
  ir.set_order(NodeOrder(ir, readers_of(ir)).run());
  return ir;
}

}  // namespace tenon::loops
