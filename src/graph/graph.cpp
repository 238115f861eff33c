#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/limits.h"
#include "graph/node_symbols.h"
#include "support/cursor.h"
#include "support/interrupt.h"

namespace tenon {
namespace {

void check_data(const TensorType& type, const Tensor& data, std::string_view what, std::string_view name) {
  if (!data.defined() || data_fits(type, data)) return;
  fail("{} '{}' is {}, but its data is {}", what, name, to_string(type), to_string(type_of(data)));
}

// Inputs first, as the text form has them.
std::vector<const Leaf*> ordered_leaves(const Graph& graph) {
  std::vector<const Leaf*> leaves;
  for (const bool inputs : {true, false}) {
    for (const Leaf& leaf : graph.leaves()) {
      if ((leaf.kind == LeafKind::kInput) == inputs) leaves.push_back(&leaf);
    }
  }
  return leaves;
}

}  // namespace

std::string_view name_of(LeafKind kind) {
  constexpr std::string_view kNames[] = {"input", "parameter", "buffer", "constant"};  // by LeafKind
  return kNames[static_cast<size_t>(kind)];
}

bool is_updated(const Graph& graph, const Leaf& leaf) {
  return std::ranges::any_of(graph.updates(), [&](const Update& update) {
    const Leaf& target = *graph.leaf(update.target);
    return target.value == leaf.value || (target.data.defined() && target.data.shares_memory_with(leaf.data));
  });
}

bool is_pointwise(const Node& node) {
  return std::holds_alternative<Elementwise>(node.op->semantics.get()) && node.results.size() == 1;
}

std::vector<ValueRef> kept_values(const Graph& graph) {
  std::vector<ValueRef> values = graph.outputs();
  for (const Update& update : graph.updates()) values.push_back(update.value);
  return values;
}

std::vector<std::vector<uint32_t>> users_of(const Graph& graph) {
  std::vector<std::vector<uint32_t>> users(graph.value_count());
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    for (ValueRef operand : graph.nodes()[id].operands) {
      if (operand) users[operand.id].push_back(id);
    }
  }
  return users;
}

ValueRef Graph::add_value(TensorType type, NodeRef node, uint32_t position) {
  values_.push_back({std::move(type), node, position, {}});
  return {static_cast<uint32_t>(values_.size() - 1)};
}

ValueRef Graph::add_leaf(LeafKind kind, std::string name, TensorType type, Tensor data) {
  check_limits(type, fmt::format("{} '{}'", name_of(kind), name));
  check_data(type, data, name_of(kind), name);
  const auto position = static_cast<uint32_t>(leaves_.size());
  const bool is_input = kind == LeafKind::kInput;
  if (kind != LeafKind::kConstant && !leaves_by_name_.emplace(name, position).second) {
    fail("the graph has two leaves named '{}'", name);
  }
  const ValueRef value = add_value(std::move(type), {}, position);
  if (is_identifier(name)) values_[value.id].name = name;
  leaves_.push_back({kind, std::move(name), value, std::move(data), is_input ? input_count_ : position - input_count_});
  input_count_ += is_input ? 1 : 0;
  return value;
}

ValueRef Graph::add_input(std::string name, TensorType type) {
  if (!is_identifier(name)) fail("'{}' cannot name an input: use letters, digits, '_' and '.'", name);
  return add_leaf(LeafKind::kInput, std::move(name), std::move(type), {});
}

ValueRef Graph::add_parameter(std::string name, TensorType type, Tensor data) {
  return add_leaf(LeafKind::kParameter, std::move(name), std::move(type), std::move(data));
}

ValueRef Graph::add_buffer(std::string name, TensorType type, Tensor data) {
  return add_leaf(LeafKind::kBuffer, std::move(name), std::move(type), std::move(data));
}

ValueRef Graph::add_constant(Tensor data) {
  check(data.defined(), "a constant needs data");
  TensorType type = type_of(data);
  return add_leaf(LeafKind::kConstant, {}, std::move(type), std::move(data));
}

ValueRef Graph::copy_leaf(const Leaf& leaf, const TensorType& type) {
  return add_leaf(leaf.kind, leaf.name, type, leaf.data);
}

NodeRef Graph::add_node(const OpDef& op, std::vector<ValueRef> operands, std::vector<Attr> attrs, Location location) {
  for (ValueRef operand : operands) {
    check(!operand || owns(operand), "an operand of {} belongs to another graph", op.name.get());
  }
  check_interrupt();
  std::vector<TensorType> result_types = infer(op, view_of(*this, op, operands, attrs).types(), attrs, Facts(symbols_));
  const NodeRef ref{static_cast<uint32_t>(nodes_.size())};
  nodes_.push_back({&op, std::move(operands), std::move(attrs), {}, std::move(location)});
  std::vector<ValueRef>& results = nodes_.back().results;
  results.reserve(result_types.size());
  for (size_t i = 0; i < result_types.size(); ++i) {
    results.push_back(add_value(std::move(result_types[i]), ref, static_cast<uint32_t>(i)));
  }
  return ref;
}

void Graph::add_update(ValueRef target, ValueRef value) {
  check(owns(target) && owns(value), "an update refers to a value of another graph");
  const Leaf* updated = leaf(target);
  if (!updated || (updated->kind != LeafKind::kBuffer && updated->kind != LeafKind::kInput)) {
    fail("only a buffer or an input can be updated");
  }
  if (type(target) != type(value)) {
    fail("'{}' is {} and cannot be updated with {}", updated->name, to_string(type(target)), to_string(type(value)));
  }
  const auto same_target = [&](const Update& update) { return update.target == target; };
  if (std::ranges::any_of(updates_, same_target)) fail("'{}' is updated twice", updated->name);
  updates_.push_back({target, value});
}

void Graph::set_outputs(std::vector<ValueRef> outputs) {
  for (ValueRef output : outputs) check(owns(output), "an output belongs to another graph");
  outputs_ = std::move(outputs);
}

void Graph::declare_symbol(Symbol symbol, symbolic::Interval range) {
  if (range.low > range.high) fail("symbol {} has the empty range [{}, {}]", symbol.name(), range.low, range.high);
  if (!nodes_.empty()) fail("symbol {} must be declared before the first node", symbol.name());
  if (!symbols_.emplace(symbol, range).second) fail("symbol {} is declared twice", symbol.name());
}

void Graph::bind(std::string_view name, Tensor data) {
  const auto found = leaves_by_name_.find(name);
  if (found == leaves_by_name_.end()) fail("the graph has no parameter or buffer '{}'", name);
  Leaf& leaf = leaves_[found->second];
  if (leaf.kind == LeafKind::kInput) fail("'{}' is an input; give it when you evaluate", name);
  check_data(type(leaf.value), data, name_of(leaf.kind), name);
  leaf.data = std::move(data);
}

std::vector<ValueRef> Graph::inputs() const {
  std::vector<ValueRef> inputs;
  for (const Leaf& leaf : leaves_) {
    if (leaf.kind == LeafKind::kInput) inputs.push_back(leaf.value);
  }
  return inputs;
}

symbolic::Ranges Graph::ranges() const {
  std::set<Symbol> symbols;
  for (const ValueInfo& value : values_) add_symbols(value.type, symbols);
  for (const Node& node : nodes_) {
    for (const Attr& attr : node.attrs) add_symbols(attr, symbols);
  }
  symbolic::Ranges ranges = symbols_;
  for (const Symbol& symbol : symbols) ranges.emplace(symbol, symbolic::Interval::at_least(0));
  return ranges;
}

const Leaf* Graph::leaf(ValueRef value) const {
  const ValueInfo& info = values_[value.id];
  return info.node ? nullptr : &leaves_[info.position];
}

const Leaf* Graph::leaf_named(std::string_view name) const {
  const auto found = leaves_by_name_.find(name);
  return found == leaves_by_name_.end() ? nullptr : &leaves_[found->second];
}

bool Graph::same_value(ValueRef mine, const Graph& other, ValueRef theirs) const {
  if (!mine || !theirs) return !mine && !theirs;
  const ValueInfo& a = values_[mine.id];
  const ValueInfo& b = other.values_[theirs.id];
  if (a.node != b.node || a.type != b.type) return false;
  if (a.node) return a.position == b.position;
  const Leaf& left = leaves_[a.position];
  const Leaf& right = other.leaves_[b.position];
  return left.kind == right.kind && left.ordinal == right.ordinal;
}

bool Graph::same_node(const Node& mine, const Graph& other, const Node& theirs) const {
  const auto same = [&](ValueRef a, ValueRef b) { return same_value(a, other, b); };
  return mine.op == theirs.op && std::ranges::equal(mine.operands, theirs.operands, same) &&
         std::ranges::equal(mine.attrs, theirs.attrs, equal) && std::ranges::equal(mine.results, theirs.results, same);
}

bool Graph::operator==(const Graph& other) const {
  const auto same = [&](ValueRef a, ValueRef b) { return same_value(a, other, b); };
  const auto same_leaf = [&](const Leaf* a, const Leaf* b) {
    if (a->name != b->name || !same(a->value, b->value)) return false;
    return a->kind != LeafKind::kConstant || identical(a->data, b->data);
  };
  const auto same_update = [&](const Update& a, const Update& b) {
    return same(a.target, b.target) && same(a.value, b.value);
  };
  return name_ == other.name_ && symbols_ == other.symbols_ &&
         std::ranges::equal(ordered_leaves(*this), ordered_leaves(other), same_leaf) &&
         std::ranges::equal(nodes_, other.nodes_,
                            [&](const Node& a, const Node& b) { return same_node(a, other, b); }) &&
         std::ranges::equal(outputs_, other.outputs_, same) &&
         std::ranges::equal(updates_, other.updates_, same_update);
}

OpView view_of(const Graph& graph, const OpDef& op, std::span<const ValueRef> operands, std::span<const Attr> attrs) {
  std::vector<const TensorType*> types;
  types.reserve(operands.size());
  for (ValueRef operand : operands) types.push_back(operand ? &graph.type(operand) : nullptr);
  return OpView(op, std::move(types), attrs);
}

}  // namespace tenon
