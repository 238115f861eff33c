// Adding nodes to an IR, with the checks of each kind of node.
#include <algorithm>
#include <set>

#include "loops/ir.h"
#include "support/cursor.h"
#include "support/is_in.h"
#include "support/text.h"

namespace tenon::loops {
namespace {

bool is_cast(const OpDef& op) { return op.name.get() == "cast" || op.name.get() == "bitcast"; }

// The result dtype of an op, by the op's shape rule for one element. Nothing is computed in f16 and bf16.
DType result_dtype_of(const OpDef& op, const std::vector<DType>& inputs, std::optional<DType> dtype) {
  std::vector<TensorType> types;
  for (DType input : inputs) types.push_back({input, {}});
  std::vector<const TensorType*> pointers;
  for (const TensorType& type : types) pointers.push_back(&type);
  if (is_cast(op) != dtype.has_value()) fail("{} {} a result dtype", op.name.get(), is_cast(op) ? "needs" : "takes no");
  const std::vector<Attr> attrs = complete_attrs(op, dtype ? NamedAttrs{{"dtype", *dtype}} : NamedAttrs{});
  return infer(op, pointers, attrs)[0].dtype;
}

void check_compute_dtypes(const OpDef& op, const std::vector<DType>& inputs) {
  if (is_cast(op)) return;
  const bool selects = std::get<Elementwise>(op.semantics.get()).compute == tenon::Compute::kSelect;
  const size_t first = selects ? 1 : 0;
  if (selects && inputs[0] != DType::kBool)
    fail("{}: the condition is {}, not bool", op.name.get(), name_of(inputs[0]));
  for (size_t i = first; i < inputs.size(); ++i) {
    if (inputs[i] != inputs[first]) {
      fail("{}: operands of {} and {}: cast one of them", op.name.get(), name_of(inputs[first]), name_of(inputs[i]));
    }
    if (is_narrow_float(inputs[i])) fail("{} in {}: cast to f32 around it", op.name.get(), name_of(inputs[i]));
  }
}

void require_foldable(const OpDef& op, DType dtype) {
  if (is_narrow_float(dtype)) fail("a fold in {}: cast to f32 around it", name_of(dtype));
  if (!identity_of(op, dtype)) fail("{} cannot fold {}", op.name.get(), name_of(dtype));
}

std::string list(const IR& ir, std::span<const VarRef> vars) {
  return "[" + join(vars, ", ", [&](VarRef var) { return ir.var(var).name; }) + "]";
}

}  // namespace

// ---- variables and symbols ------------------------------------------------------------------------------------------

VarRef IR::add_var(std::string name, Expr size) {
  const Symbol symbol(name);
  if (name == "new") fail("'new' cannot name a variable: it is a word of the text form");
  if (var_named(name)) fail("variable {} is defined twice", name);
  if (size.is_constant() && size.constant() < 0) fail("variable {} has the negative size {}", name, size);
  if (is_in(size_symbols(), symbol)) fail("{} is the name of a size, not of a variable", name);
  for (Symbol part : symbols_of(size)) {
    if (part == symbol || var_named(part.name()))
      fail("variable {}: its size {} contains the variable {}", name, size, part.name());
  }
  for (const Node& node : nodes_) {
    for (const Lookup& lookup : node.lookups()) {
      if (lookup.symbol == symbol || depends_on(size, lookup.symbol))
        fail("variable {}: %{} has a lookup of the name {}", name, node.name, lookup.symbol.name());
    }
  }
  vars_.push_back({std::move(name), std::move(size)});
  return {static_cast<uint32_t>(vars_.size() - 1)};
}

void IR::declare_symbol(Symbol symbol, symbolic::Interval range) {
  if (range.low > range.high) fail("symbol {}: the range {} is empty", symbol.name(), to_string(range));
  if (var_named(symbol.name())) fail("{} is a variable, not a size", symbol.name());
  if (!symbols_.emplace(symbol, range).second) fail("symbol {} is declared twice", symbol.name());
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

NodeRef IR::add_read(DType dtype, std::vector<VarRef> vars, std::string name) {
  return add_node({std::move(name), dtype, std::move(vars), Read{}, {}, {}});
}

NodeRef IR::add_constant(DType dtype, Scalar value, std::string name) {
  return add({std::move(name), dtype, {}, Constant{value}, {}, {}});
}

NodeRef IR::add_index(Expr value, std::vector<VarRef> vars, std::string name) {
  return add({std::move(name), DType::kI64, std::move(vars), Index{std::move(value)}, {}, {}});
}

NodeRef IR::add_compute(const OpDef& op, std::vector<NodeRef> inputs, std::vector<VarRef> vars,
                        std::optional<DType> dtype, std::string name) {
  if (!std::holds_alternative<Elementwise>(op.semantics.get()) && !is_cast(op)) {
    fail("{} is not a function of single elements", op.name.get());
  }
  std::vector<DType> dtypes;
  for (NodeRef input : inputs) {
    check(input.id < nodes_.size(), "node {} does not exist", input.id);
    dtypes.push_back(node(input).dtype);
  }
  const DType result = result_dtype_of(op, dtypes, dtype);
  check_compute_dtypes(op, dtypes);
  return add({std::move(name), result, std::move(vars), Compute{&op}, std::move(inputs), {}});
}

NodeRef IR::add_reduce(const OpDef& op, NodeRef input, std::vector<VarRef> vars, std::string name) {
  require_foldable(op, node(input).dtype);
  return add({std::move(name), node(input).dtype, std::move(vars), Reduce{&op}, {input}, {}});
}

NodeRef IR::add_scan(const OpDef& op, NodeRef input, VarRef along, std::vector<VarRef> vars, std::string name) {
  require_foldable(op, node(input).dtype);
  return add({std::move(name), node(input).dtype, std::move(vars), Scan{&op, along}, {input}, {}});
}

NodeRef IR::add_view(View view, std::vector<VarRef> vars, std::string name) {
  if (view.pieces.empty()) fail("a view reads at least one input");
  std::vector<NodeRef> inputs;
  for (const Piece& piece : view.pieces) inputs.push_back(piece.input);
  for (const Lookup& lookup : view.lookups) inputs.push_back(lookup.indices);
  const DType dtype = node(inputs[0]).dtype;
  return add_node({std::move(name), dtype, std::move(vars), std::move(view), std::move(inputs), {}});
}

NodeRef IR::add_copy(NodeRef input, std::vector<VarRef> vars, std::string name) {
  View view{{{input, own_index(input), {}}}, zero_of(node(input).dtype), {}};
  return add_view(std::move(view), std::move(vars), std::move(name));
}

NodeRef IR::add_scatter(Scatter scatter, NodeRef initial, NodeRef values, std::vector<VarRef> vars, std::string name) {
  const DType dtype = node(initial).dtype;
  if (scatter.op) require_foldable(*scatter.op, dtype);
  std::vector<NodeRef> inputs = {initial, values};
  for (const Lookup& lookup : scatter.lookups) inputs.push_back(lookup.indices);
  return add_node({std::move(name), dtype, std::move(vars), std::move(scatter), std::move(inputs), {}});
}

NodeRef IR::add_write(NodeRef input, std::vector<VarRef> vars, std::string name) {
  return add_node({std::move(name), node(input).dtype, std::move(vars), Write{}, {input}, {}});
}

void IR::set_name(NodeRef ref, std::string name) {
  const auto other = node_named(name);
  if (other && *other != ref) fail("%{} is defined twice", name);
  nodes_by_name_.erase(node(ref).name);
  nodes_by_name_.emplace(name, ref);
  nodes_[ref.id].name = std::move(name);
}

NodeRef IR::add(Node node) {
  if (node.name.empty()) {
    size_t number = nodes_.size();
    while (node_named(std::to_string(number))) ++number;
    node.name = std::to_string(number);
  } else if (!is_name(node.name)) {
    fail("'{}' cannot name a node: use letters, digits, '_' and '.'", node.name);
  } else if (node_named(node.name)) {
    fail("%{} is defined twice", node.name);
  }
  check_node(node);
  node.loops = default_loops(node);
  nodes_.push_back(std::move(node));
  const NodeRef ref{static_cast<uint32_t>(nodes_.size() - 1)};
  nodes_by_name_.emplace(nodes_.back().name, ref);
  if (!nodes_.back().is_leaf()) order_.push_back(ref);
  return ref;
}

std::vector<LoopSpec> IR::default_loops(const Node& node) const {
  std::vector<LoopSpec> loops;
  if (node.is_leaf()) return loops;
  for (VarRef var : iteration_vars(node)) loops.push_back({.var = var});
  return loops;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

namespace {

class NodeCheck {
 public:
  NodeCheck(const IR& ir, const Node& node) : ir_(ir), node_(node) {}

  void run() {
    std::set<VarRef> seen;
    for (VarRef var : node_.vars) {
      check(var.id < ir_.vars().size(), "variable {} does not exist", var.id);
      if (!seen.insert(var).second) fail("%{} has {} twice", node_.name, ir_.var(var).name);
    }
    for (NodeRef input : node_.inputs) {
      check(input.id < ir_.nodes().size(), "node {} does not exist", input.id);
      const Node& read = ir_.node(input);
      if (read.as<Write>())
        fail("%{} reads the output %{}: read %{}", node_.name, read.name, ir_.node(read.inputs[0]).name);
    }
    std::visit([&](const auto& action) { check_action(action); }, node_.action);
  }

 private:
  void check_action(const Read&) {}
  void check_action(const Constant& constant) { check_scalar(constant.value); }
  void check_action(const Index& index) { check_symbols(index.value, {}); }
  void check_action(const Compute&) { check_broadcast(0); }
  void check_action(const Write&) { check_broadcast(0); }

  void check_action(const Reduce&) {
    const Node& input = ir_.node(node_.inputs[0]);
    for (VarRef var : node_.vars) {
      if (!input.has(var)) fail("%{} has {}, which its input %{} lacks", node_.name, ir_.var(var).name, input.name);
    }
    if (input.vars.size() == node_.vars.size()) fail("%{} folds no variable of %{}", node_.name, input.name);
  }

  void check_action(const Scan& scan) {
    check_broadcast(0);
    const Node& input = ir_.node(node_.inputs[0]);
    check(scan.along.id < ir_.vars().size(), "variable {} does not exist", scan.along.id);
    if (!node_.has(scan.along) || !input.has(scan.along)) {
      fail("%{} scans along {}, a variable that it or its input lacks", node_.name, ir_.var(scan.along).name);
    }
  }

  void check_action(const View& view) {
    check_scalar(view.fill);
    check_lookups(view.lookups, node_.vars);
    for (const Piece& piece : view.pieces) {
      const Node& input = ir_.node(piece.input);
      if (input.dtype != node_.dtype) {
        fail("%{} is {}, but its piece %{} is {}", node_.name, name_of(node_.dtype), input.name, name_of(input.dtype));
      }
      check_index(piece.index, input, piece.where, view.lookups);
    }
  }

  void check_action(const Scatter& scatter) {
    const Node &initial = ir_.node(node_.inputs[0]), &values = ir_.node(node_.inputs[1]);
    if (values.dtype != node_.dtype) {
      fail("%{} is {}, but its values %{} are {}", node_.name, name_of(node_.dtype), values.name,
           name_of(values.dtype));
    }
    const auto has_var = [&](VarRef var) { return node_.has(var); };
    if (!std::ranges::all_of(initial.vars, has_var)) {
      fail("%{} starts as %{}, which has other variables: {} against {}", node_.name, initial.name,
           list(ir_, initial.vars), list(ir_, node_.vars));
    }
    std::vector<VarRef> all;
    for (uint32_t id = 0; id < ir_.vars().size(); ++id) all.push_back({id});
    check_lookups(scatter.lookups, all);
    check_index(scatter.index, node_, scatter.where, scatter.lookups);
    check_kept(scatter);
  }

  // A variable of the result is either kept (the node loops over it) or written at an index that does not contain it.
  void check_kept(const Scatter& scatter) {
    std::set<Symbol> used;
    const auto use = [&](const Expr& expr) {
      for (Symbol symbol : symbols_of(expr)) used.insert(symbol);
    };
    std::ranges::for_each(scatter.index, use);
    for (const Constraint& constraint : scatter.where) use(constraint.expr);
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      for (VarRef var : ir_.node(node_.inputs[i]).vars) used.insert(ir_.var(var).symbol());
    }
    for (size_t i = 0; i < node_.vars.size(); ++i) {
      const Var& var = ir_.var(node_.vars[i]);
      if (scatter.index[i] != Expr(var.symbol()) && used.contains(var.symbol())) {
        fail("%{} writes {} at {}, so nothing else of it can depend on {}: use another variable", node_.name, var.name,
             scatter.index[i], var.name);
      }
    }
  }

  void check_scalar(const Scalar& scalar) {
    if (std::holds_alternative<double>(scalar) != is_float(node_.dtype)) {
      fail("%{} is {}, but its number is {}", node_.name, name_of(node_.dtype),
           is_float(node_.dtype) ? "an integer" : "not an integer");
    }
    const auto* integer = std::get_if<int64_t>(&scalar);
    if (integer && wrap_to(node_.dtype, *integer) != *integer) {
      fail("%{}: {} does not fit {}", node_.name, *integer, name_of(node_.dtype));
    }
  }

  void check_broadcast(size_t first) {
    for (size_t i = first; i < node_.inputs.size(); ++i) {
      const Node& input = ir_.node(node_.inputs[i]);
      for (VarRef var : input.vars) {
        if (!node_.has(var))
          fail("%{} lacks {}, a variable of its input %{}", node_.name, ir_.var(var).name, input.name);
      }
    }
  }

  void check_lookups(const std::vector<Lookup>& lookups, std::span<const VarRef> allowed) {
    std::set<Symbol> seen;
    for (const Lookup& lookup : lookups) {
      const Node& indices = ir_.node(lookup.indices);
      if (!kIndices.contains(indices.dtype)) {
        fail("%{}: indices %{} are {}, not i64 or i32", node_.name, indices.name, name_of(indices.dtype));
      }
      if (ir_.var_named(lookup.symbol.name()) || !seen.insert(lookup.symbol).second || is_size(lookup.symbol)) {
        fail("%{}: the name {} of a lookup is taken", node_.name, lookup.symbol.name());
      }
      for (VarRef var : indices.vars) {
        if (is_in(allowed, var)) continue;
        fail("%{} lacks {}, a variable of its indices %{}", node_.name, ir_.var(var).name, indices.name);
      }
      check_sizes_only(lookup.bound);
    }
  }

  void check_index(const std::vector<Expr>& index, const Node& of, const std::vector<Constraint>& where,
                   const std::vector<Lookup>& lookups) {
    if (index.size() != of.vars.size()) {
      fail("%{} indexes %{}{} with {} expressions", node_.name, of.name, list(ir_, of.vars), index.size());
    }
    for (const Constraint& constraint : where) {
      check_symbols(constraint.expr, lookups);
      check_sizes_only(constraint.bound);
    }
    for (size_t i = 0; i < index.size(); ++i) {
      check_symbols(index[i], lookups);
      const Constraint needed{index[i], ir_.var(of.vars[i]).size};
      if (std::ranges::find(where, needed) != where.end() || provably_within(needed.expr, needed.bound, ir_, lookups))
        continue;
      fail("%{} {} at {}, which may be outside of {}: add `where {} in {}`", node_.name,
           node_.as<Scatter>() ? "writes" : "reads %" + of.name, index[i], needed.bound, index[i], needed.bound);
    }
  }

  bool is_size(Symbol symbol) const { return is_in(ir_.size_symbols(), symbol); }

  void check_symbols(const Expr& expr, const std::vector<Lookup>& lookups) const {
    for (Symbol symbol : symbols_of(expr)) {
      const auto var = ir_.var_named(symbol.name());
      const bool is_lookup = std::ranges::find(lookups, symbol, &Lookup::symbol) != lookups.end();
      if (is_lookup || is_size(symbol)) continue;
      if (!var) fail("%{}: {} in {} is neither a variable nor a size", node_.name, symbol.name(), expr);
      if (!node_.as<Scatter>() && !node_.has(*var)) {
        fail("%{} lacks {}, which its expression {} mentions", node_.name, symbol.name(), expr);
      }
    }
  }

  void check_sizes_only(const Expr& expr) const {
    for (Symbol symbol : symbols_of(expr)) {
      if (!is_size(symbol)) fail("%{}: {} in the bound {} is not a size", node_.name, symbol.name(), expr);
    }
  }

  const IR& ir_;
  const Node& node_;
};

class LoopsCheck {
 public:
  // `needed`: the variables that the node loops over. `folded`: those of them that it folds.
  LoopsCheck(const IR& ir, const Node& node, std::vector<VarRef> needed, std::vector<VarRef> folded)
      : ir_(ir), node_(node), needed_(std::move(needed)), folded_(std::move(folded)) {}

  void run(std::span<const LoopSpec> loops) {
    for (const LoopSpec& loop : loops) {
      check_loop(loop);
      check_repeated(loop.var);
    }
    check_complete();
    check_overwrites(loops);
  }

 private:
  const std::string& name_of(VarRef var) const { return ir_.var(var).name; }

  void check_loop(const LoopSpec& loop) {
    check(loop.var.id < ir_.vars().size(), "variable {} does not exist", loop.var.id);
    if (loop.annotation.tile.empty() == (loop.annotation.mark == Mark::kTile)) {
      fail("%{}: a tile has a name, and no other annotation has one", node_.name);
    }
    if (loop.step < 1) fail("%{}: the loop over {} has the step {}", node_.name, name_of(loop.var), loop.step);
    const auto [outer, is_first] = steps_.try_emplace(loop.var, loop.step);
    if (!is_first && outer->second <= loop.step) {
      fail("%{}: a loop over {} by {} cannot be inside of one by {}", node_.name, name_of(loop.var), loop.step,
           outer->second);
    }
    outer->second = loop.step;
  }

  // A loop over any other variable repeats the node in every iteration.
  void check_repeated(VarRef var) {
    const auto* scan = node_.as<Scan>();
    if (!is_in(needed_, var)) {
      if (folds_) {
        fail("%{}: a loop over {} inside of a fold would fold everything again", node_.name, name_of(var));
      }
      if (node_.has(var)) {
        fail("%{} writes all of {} at once: a loop over it would leave one element", node_.name, name_of(var));
      }
    }
    folds_ = folds_ || is_in(folded_, var) || (scan && scan->along == var);
  }

  void check_complete() const {
    for (VarRef var : needed_) {
      const auto innermost = steps_.find(var);
      if (innermost == steps_.end()) fail("%{}: no loop over {}", node_.name, name_of(var));
      if (innermost->second != 1) {
        fail("%{}: the innermost loop over {} has the step {}", node_.name, name_of(var), innermost->second);
      }
    }
  }

  // An element that is overwritten twice keeps the last value, so the order of the folded variables matters.
  void check_overwrites(std::span<const LoopSpec> loops) const {
    const auto* scatter = node_.as<Scatter>();
    if (!scatter || scatter->op) return;
    auto last = folded_.begin();
    for (const LoopSpec& loop : loops) {
      const auto found = std::ranges::find(folded_, loop.var);
      if (found == folded_.end()) continue;
      if (found < last)
        fail("%{} overwrites in the order of its variables: {} comes too late", node_.name, name_of(loop.var));
      last = found;
    }
  }

  const IR& ir_;
  const Node& node_;
  std::vector<VarRef> needed_;
  std::vector<VarRef> folded_;
  std::map<VarRef, int64_t> steps_;  // steps of the innermost loops so far
  bool folds_ = false;               // one of the loops so far folds
};

}  // namespace

void IR::check_node(const Node& node) const { NodeCheck(*this, node).run(); }

void IR::check_loops(const Node& node, std::span<const LoopSpec> loops) const {
  if (node.is_leaf()) fail("%{} has no loops", node.name);
  std::vector<VarRef> needed;
  for (const LoopSpec& loop : default_loops(node)) needed.push_back(loop.var);
  LoopsCheck(*this, node, std::move(needed), folded_vars(node)).run(loops);
}

}  // namespace tenon::loops
