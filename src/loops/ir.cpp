#include "loops/ir.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "loops/box.h"

namespace tenon::loops {
namespace {

bool same_scalar(const Scalar& a, const Scalar& b) {
  if (a.index() != b.index()) return false;
  if (const auto* integer = std::get_if<int64_t>(&a)) return *integer == std::get<int64_t>(b);
  return std::bit_cast<uint64_t>(std::get<double>(a)) == std::bit_cast<uint64_t>(std::get<double>(b));
}

Scalar smallest(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool || dtype == DType::kU8) return int64_t{0};
  return -(int64_t{1} << (size_of(dtype) * 8 - 2)) * 2;
}

Scalar largest(DType dtype) {
  if (is_float(dtype)) return std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return int64_t{1};
  if (dtype == DType::kU8) return int64_t{255};
  return -(std::get<int64_t>(smallest(dtype)) + 1);
}

template <class T>
void add_unique(std::vector<T>& items, const T& item) {
  if (std::ranges::find(items, item) == items.end()) items.push_back(item);
}

// The inputs of a node, each once. The first input of a scatter is its initial value.
void remove_repeated_inputs(Node& node) {
  if (!node.as<View>() && !node.as<Scatter>()) return;
  const size_t first = node.as<Scatter>() ? 2 : 0;
  std::vector<NodeRef> inputs(node.inputs.begin(), node.inputs.begin() + static_cast<ptrdiff_t>(first));
  for (size_t i = first; i < node.inputs.size(); ++i) {
    const auto from = inputs.begin() + (first > 0 ? 1 : 0);
    if (std::find(from, inputs.end(), node.inputs[i]) == inputs.end()) inputs.push_back(node.inputs[i]);
  }
  node.inputs = std::move(inputs);
}

}  // namespace

void for_each_lookup(Node& node, const std::function<void(Lookup&)>& visit) {
  if (auto* view = std::get_if<View>(&node.action)) std::ranges::for_each(view->lookups, visit);
  if (auto* scatter = std::get_if<Scatter>(&node.action)) std::ranges::for_each(scatter->lookups, visit);
}

void for_each_ref(Node& node, const std::function<void(NodeRef&)>& visit) {
  std::ranges::for_each(node.inputs, visit);
  for_each_lookup(node, [&](Lookup& lookup) { visit(lookup.indices); });
  auto* view = std::get_if<View>(&node.action);
  if (!view) return;
  for (Piece& piece : view->pieces) visit(piece.input);
}

void for_each_var(Node& node, const std::function<void(VarRef&)>& visit) {
  std::ranges::for_each(node.vars, visit);
  if (auto* scan = std::get_if<Scan>(&node.action)) visit(scan->along);
}

void for_each_expr(Node& node, const std::function<void(Expr&)>& visit) {
  const auto visit_place = [&](std::vector<Expr>& index, std::vector<Constraint>& where) {
    std::ranges::for_each(index, visit);
    for (Constraint& constraint : where) visit(constraint.expr), visit(constraint.bound);
  };
  for_each_lookup(node, [&](Lookup& lookup) { visit(lookup.bound); });
  if (auto* index = std::get_if<Index>(&node.action)) visit(index->value);
  if (auto* scatter = std::get_if<Scatter>(&node.action)) visit_place(scatter->index, scatter->where);
  if (auto* view = std::get_if<View>(&node.action)) {
    for (Piece& piece : view->pieces) visit_place(piece.index, piece.where);
  }
}

NodeRef IR::add_node(Node node) {
  remove_repeated_inputs(node);
  if (auto* read = std::get_if<Read>(&node.action)) read->slot = static_cast<int64_t>(reads_.size());
  if (auto* write = std::get_if<Write>(&node.action)) write->slot = static_cast<int64_t>(writes_.size());
  const NodeRef ref = add(std::move(node));
  if (this->node(ref).as<Read>()) reads_.push_back(ref);
  if (this->node(ref).as<Write>()) writes_.push_back(ref);
  return ref;
}

Scalar scalar_of(DType dtype, int64_t value) {
  return is_float(dtype) ? Scalar(static_cast<double>(value)) : Scalar(value);
}

bool Constant::operator==(const Constant& other) const { return same_scalar(value, other.value); }

bool View::operator==(const View& other) const {
  return pieces == other.pieces && same_scalar(fill, other.fill) && lookups == other.lookups;
}

const Piece* View::only_piece() const { return pieces.size() == 1 && lookups.empty() ? &pieces[0] : nullptr; }

std::span<const Lookup> Node::lookups() const {
  if (const auto* view = as<View>()) return view->lookups;
  if (const auto* scatter = as<Scatter>()) return scatter->lookups;
  return {};
}

bool Node::has(VarRef var) const { return std::ranges::find(vars, var) != vars.end(); }

bool Node::computes(std::string_view op) const {
  const auto* compute = as<Compute>();
  return compute && compute->op->name.get() == op;
}

bool Node::sums() const {
  const auto* reduce = as<Reduce>();
  return reduce && reduce->op->name.get() == "add";
}

std::optional<Scalar> identity_of(const OpDef& op, DType dtype) {
  const auto* const elementwise = std::get_if<Elementwise>(&op.semantics.get());
  if (!elementwise) return {};
  const ScalarFn& fn = is_float(dtype) ? elementwise->real : elementwise->integer;
  switch (fn.primitive().value_or(Primitive::kOperand)) {
    case Primitive::kAdd:
    case Primitive::kBitwiseOr:
      return zero_of(dtype);
    case Primitive::kMul:
      return scalar_of(dtype, 1);
    case Primitive::kMaximum:
    case Primitive::kLogaddexp:
      return smallest(dtype);
    case Primitive::kMinimum:
      return largest(dtype);
    case Primitive::kBitwiseAnd:
      return wrap_to(dtype, -1);
    default:
      return {};
  }
}

// ---- reading --------------------------------------------------------------------------------------------------------

std::optional<VarRef> IR::var_named(std::string_view name) const {
  const auto found = std::ranges::find(vars_, name, &Var::name);
  if (found == vars_.end()) return {};
  return VarRef{static_cast<uint32_t>(found - vars_.begin())};
}

std::optional<NodeRef> IR::node_named(std::string_view name) const {
  const auto found = nodes_by_name_.find(name);
  return found == nodes_by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<NodeRef> IR::consumers(NodeRef ref) const {
  std::vector<NodeRef> result;
  for (NodeRef reader : order_) {
    if (std::ranges::find(node(reader).inputs, ref) != node(reader).inputs.end()) result.push_back(reader);
  }
  return result;
}

std::vector<NodeRef> IR::node_refs() const {
  std::vector<NodeRef> refs;
  for (uint32_t id = 0; id < nodes_.size(); ++id) refs.push_back({id});
  return refs;
}

std::vector<VarRef> IR::folded_vars(NodeRef ref) const { return folded_vars(node(ref)); }

bool IR::folds(NodeRef ref, VarRef var) const {
  const std::vector<VarRef> folded = folded_vars(ref);
  return std::ranges::find(folded, var) != folded.end();
}

std::vector<VarRef> IR::folded_vars(const Node& node) const {
  std::vector<VarRef> folded;
  if (node.as<Reduce>()) {
    for (VarRef var : this->node(node.inputs[0]).vars) {
      if (!node.has(var)) folded.push_back(var);
    }
  }
  if (const auto* scatter = node.as<Scatter>()) {
    const auto fold = [&](VarRef var) {
      if (!node.has(var)) add_unique(folded, var);
    };
    for (size_t i = 1; i < node.inputs.size(); ++i) std::ranges::for_each(this->node(node.inputs[i]).vars, fold);
    const auto fold_mentioned = [&](const Expr& expr) {
      for (Symbol symbol : symbols_of(expr)) {
        if (const auto var = var_named(symbol.name())) fold(*var);
      }
    };
    std::ranges::for_each(scatter->index, fold_mentioned);
    for (const Constraint& constraint : scatter->where) fold_mentioned(constraint.expr);
  }
  return folded;
}

std::vector<VarRef> IR::iteration_vars(NodeRef ref) const { return iteration_vars(node(ref)); }

std::vector<VarRef> IR::iteration_vars(const Node& node) const {
  std::vector<VarRef> vars = node.vars;
  if (const auto* scatter = node.as<Scatter>()) {
    vars.clear();
    for (size_t i = 0; i < node.vars.size(); ++i) {
      if (scatter->index[i] == Expr(var(node.vars[i]).symbol())) vars.push_back(node.vars[i]);
    }
  }
  for (VarRef var : folded_vars(node)) vars.push_back(var);
  return vars;
}

bool IR::reads_in_step(NodeRef ref, NodeRef input, VarRef var) const {
  const Node& node = this->node(ref);
  const std::vector<VarRef>& input_vars = this->node(input).vars;
  const auto in_step = [&](const std::vector<Expr>& index, const std::vector<VarRef>& vars) {
    const auto position = std::ranges::find(vars, var) - vars.begin();
    return node.has(var) && index[static_cast<size_t>(position)] == Expr(this->var(var).symbol());
  };
  if (const auto* view = node.as<View>()) {
    return std::ranges::all_of(
        view->pieces, [&](const Piece& piece) { return piece.input != input || in_step(piece.index, input_vars); });
  }
  if (const auto* scatter = node.as<Scatter>(); scatter && node.inputs[0] == input) {
    return in_step(scatter->index, node.vars);
  }
  return true;
}

std::vector<Symbol> IR::size_symbols() const {
  std::set<Symbol> symbols;
  for (const Var& var : vars_) {
    for (Symbol symbol : symbols_of(var.size)) symbols.insert(symbol);
  }
  return {symbols.begin(), symbols.end()};
}

symbolic::Ranges IR::ranges() const {
  symbolic::Ranges ranges;
  for (Symbol symbol : size_symbols()) ranges[symbol] = symbolic::Interval::at_least(0);
  for (const auto& [symbol, range] : symbols_) ranges[symbol] = range;
  return ranges;
}

TensorType IR::type(NodeRef ref) const {
  TensorType type{node(ref).dtype, {}};
  for (VarRef var : node(ref).vars) type.shape.push_back(this->var(var).size);
  return type;
}

std::vector<Expr> IR::own_index(NodeRef ref) const {
  std::vector<Expr> index;
  for (VarRef var : node(ref).vars) index.emplace_back(this->var(var).symbol());
  return index;
}

std::string IR::unused_node_name(std::string name) const {
  while (node_named(name)) name += "_";
  return name;
}

bool IR::operator==(const IR& other) const {
  const auto same_var = [](const Var& a, const Var& b) { return a.name == b.name && a.size == b.size; };
  if (!std::ranges::equal(vars_, other.vars_, same_var) || symbols_ != other.symbols_) return false;
  if (nodes_.size() != other.nodes_.size() || order_.size() != other.order_.size()) return false;
  const auto counterpart = [&](NodeRef& ref) { ref = other.node_named(node(ref).name).value_or(NodeRef()); };
  std::vector<NodeRef> order = order_;
  std::ranges::for_each(order, counterpart);
  if (order != other.order_) return false;
  return std::ranges::all_of(nodes_, [&](Node node) {
    for_each_ref(node, counterpart);
    const auto found = other.node_named(node.name);
    return found && node == other.node(*found);
  });
}

// ---- scheduling -----------------------------------------------------------------------------------------------------

void IR::set_loops(NodeRef ref, std::vector<LoopSpec> loops) {
  check_loops(node(ref), loops);
  nodes_[ref.id].loops = std::move(loops);
}

void IR::set_order(std::vector<NodeRef> order) {
  std::vector<bool> done(nodes_.size());
  for (NodeRef ref : node_refs()) done[ref.id] = node(ref).is_leaf();
  for (NodeRef ref : order) {
    if (ref.id >= nodes_.size()) fail("the order names node {}, but the kernel has {}", ref.id, nodes_.size());
    if (done[ref.id]) fail("%{} cannot run {}", node(ref).name, node(ref).is_leaf() ? "on its own" : "twice");
    for (NodeRef input : node(ref).inputs) {
      if (!done[input.id]) fail("%{} cannot run before %{}, which it reads", node(ref).name, node(input).name);
    }
    done[ref.id] = true;
  }
  for (NodeRef ref : node_refs()) {
    if (!done[ref.id]) fail("%{} is missing from the order", node(ref).name);
  }
  order_ = std::move(order);
}

void IR::set_input(NodeRef ref, NodeRef from, NodeRef to) {
  const Node &old_input = node(from), &new_input = node(to);
  const auto has_var = [&](VarRef var) { return new_input.has(var); };
  if (old_input.dtype != new_input.dtype || old_input.vars.size() != new_input.vars.size() ||
      !std::ranges::all_of(old_input.vars, has_var)) {
    fail("%{} cannot take the place of %{}: {} against {}", new_input.name, old_input.name, to_string(type(to)),
         to_string(type(from)));
  }
  Node changed = node(ref);
  std::ranges::replace(changed.inputs, from, to);
  for_each_lookup(changed, [&](Lookup& lookup) {
    if (lookup.indices == from) lookup.indices = to;
  });
  if (auto* view = std::get_if<View>(&changed.action)) {
    for (Piece& piece : view->pieces) {
      if (piece.input != from) continue;
      std::vector<Expr> index;
      for (VarRef var : new_input.vars) {
        index.push_back(
            piece.index[static_cast<size_t>(std::ranges::find(old_input.vars, var) - old_input.vars.begin())]);
      }
      piece = {to, std::move(index), piece.where};
    }
  }
  remove_repeated_inputs(changed);
  check_node(changed);
  nodes_[ref.id] = std::move(changed);
}

IR IR::without(NodeRef ref) const {
  check(consumers(ref).empty() && node(ref).as<Read>() == nullptr && node(ref).as<Write>() == nullptr,
        "node {} cannot be removed", node(ref).name);
  IR result = *this;
  const auto moved = [&](NodeRef& other) {
    if (other.id > ref.id) --other.id;
  };
  std::erase(result.order_, ref);
  std::ranges::for_each(result.order_, moved);
  std::ranges::for_each(result.reads_, moved);
  std::ranges::for_each(result.writes_, moved);
  result.nodes_.erase(result.nodes_.begin() + ref.id);
  result.nodes_by_name_.erase(node(ref).name);
  for (auto& [name, named] : result.nodes_by_name_) moved(named);
  for (Node& node : result.nodes_) for_each_ref(node, moved);
  return result;
}

bool provably_within(const Expr& expr, const Expr& bound, const IR& ir, std::span<const Lookup> lookups) {
  Box box(ir.ranges());
  for (const Var& var : ir.vars()) {
    if (depends_on(expr, var.symbol())) box.add(var.symbol(), 0, var.size - 1);
  }
  for (const Lookup& lookup : lookups) box.add(lookup.symbol, 0, lookup.bound - 1);
  return box.contains({expr, bound});
}

bool reads_own_index(const IR& ir, const View& view, std::span<const VarRef> vars) {
  const Piece* const piece = view.only_piece();
  const auto is_own = [&](VarRef var, const Expr& index) { return index == Expr(ir.var(var).symbol()); };
  return piece && piece->where.empty() && std::ranges::equal(vars, piece->index, is_own);
}

}  // namespace tenon::loops
