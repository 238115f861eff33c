#include "partition/flow.h"

#include <algorithm>

#include "graph/node_symbols.h"
#include "symbolic/typical_size.h"

namespace tenon {
namespace {

bool is_constant(const Attr& attr) {
  if (const auto* expr = std::get_if<Expr>(&attr)) return expr->is_constant();
  const auto* exprs = std::get_if<std::vector<Expr>>(&attr);
  return exprs == nullptr || is_static(*exprs);
}

bool mentions_symbols(const Graph& graph, const Node& node) {
  return !std::ranges::all_of(node.attrs, is_constant) ||
         !std::ranges::all_of(node.results, [&](ValueRef value) { return is_static(graph.type(value).shape); });
}

// Pairs of a node and a node that it needs.
std::vector<NumberLists::Entry> dependencies(const Graph& graph, const std::map<Symbol, NodeRef>& definers) {
  std::vector<NumberLists::Entry> pairs;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    for (ValueRef operand : node.operands) {
      const NodeRef producer = operand ? graph.producer(operand) : NodeRef();
      if (producer) pairs.push_back({id, producer.id});
    }
    if (definers.empty() || !mentions_symbols(graph, node)) continue;
    for (Symbol symbol : symbols_of(graph, node)) {
      const auto found = definers.find(symbol);
      if (found != definers.end() && found->second.id < id) pairs.push_back({id, found->second.id});
    }
  }
  return pairs;
}

std::vector<NumberLists::Entry> reads(const Graph& graph) {
  std::vector<NumberLists::Entry> pairs;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    for (ValueRef operand : graph.nodes()[id].operands) {
      if (operand) pairs.push_back({operand.id, id});
    }
  }
  return pairs;
}

bool shows_own_size(const Graph& graph, ValueRef value, const std::map<Symbol, NodeRef>& definers) {
  return std::ranges::any_of(graph.type(value).shape, [&](const Expr& size) {
    if (size.kind() != symbolic::Kind::kSymbol) return false;
    const auto found = definers.find(size.symbol());
    return found != definers.end() && found->second == graph.producer(value);
  });
}

double typical_bytes(const TensorType& type, const symbolic::Bindings& sizes) {
  auto bytes = static_cast<double>(size_of(type.dtype));
  for (const Expr& size : type.shape) {
    const int64_t count = size.is_constant() ? size.constant() : evaluate(size, sizes);
    bytes *= static_cast<double>(std::max<int64_t>(count, 0));
  }
  return bytes;
}

symbolic::Bindings typical_sizes(const Graph& graph) {
  symbolic::Bindings sizes;
  for (const auto& [symbol, range] : graph.ranges())
    sizes[symbol] = std::clamp(symbolic::kTypicalBatch, range.low, range.high);
  return sizes;
}

}  // namespace

NumberLists::NumberLists(size_t count, const std::vector<Entry>& entries)
    : begin_(count + 1), numbers_(entries.size()) {
  for (const Entry& entry : entries) ++begin_[entry.owner + 1];
  for (size_t i = 1; i <= count; ++i) begin_[i] += begin_[i - 1];
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (const Entry& entry : entries) numbers_[next[entry.owner]++] = entry.number;
}

Flow::Flow(const Graph& graph)
    : readers(graph.value_count(), reads(graph)),
      is_kept(graph.value_count()),
      is_on_host(graph.value_count()),
      defines_size(graph.value_count()) {
  const std::map<Symbol, NodeRef> definers = definers_of(graph);
  std::vector<NumberLists::Entry> pairs = dependencies(graph, definers);
  needs = NumberLists(graph.nodes().size(), pairs);
  for (NumberLists::Entry& pair : pairs) std::swap(pair.owner, pair.number);
  users = NumberLists(graph.nodes().size(), pairs);
  for (ValueRef output : graph.outputs()) is_kept[output.id] = is_on_host[output.id] = true;
  for (const Update& update : graph.updates()) {
    is_kept[update.value.id] = true;
    if (graph.leaf(update.target)->kind == LeafKind::kInput) is_on_host[update.value.id] = true;
  }
  const symbolic::Bindings sizes = typical_sizes(graph);
  bytes.reserve(graph.value_count());
  for (uint32_t id = 0; id < graph.value_count(); ++id) {
    bytes.push_back(typical_bytes(graph.type(ValueRef{id}), sizes));
    defines_size[id] = !definers.empty() && shows_own_size(graph, ValueRef{id}, definers);
  }
}

}  // namespace tenon
