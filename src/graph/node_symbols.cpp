#include "graph/node_symbols.h"

#include <algorithm>

namespace tenon {
namespace {

void add_symbols(const Expr& expr, std::set<Symbol>& symbols) {
  if (expr.is_constant()) return;
  for (Symbol symbol : symbols_of(expr)) symbols.insert(symbol);
}

std::set<Symbol> symbols_of_inputs(const Graph& graph) {
  std::set<Symbol> symbols;
  for (ValueRef input : graph.inputs()) add_symbols(graph.type(input), symbols);
  return symbols;
}

std::vector<Expr> sizes_found_by(const Graph& graph, const Node& node) {
  std::vector<Expr> sizes;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    if (node.op->attrs[i].kind == AttrKind::kSymbol) sizes.push_back(std::get<Expr>(node.attrs[i]));
  }
  const Role role = role_of(*node.op);
  if (role != Role::kExternal && role != Role::kSegment) return sizes;
  for (ValueRef result : node.results) std::ranges::copy(graph.type(result).shape, std::back_inserter(sizes));
  return sizes;
}

}  // namespace

void add_symbols(const TensorType& type, std::set<Symbol>& symbols) {
  for (const Expr& size : type.shape) add_symbols(size, symbols);
}

void add_symbols(const Attr& attr, std::set<Symbol>& symbols) {
  for_each_expr(attr, [&](const Expr& expr) { add_symbols(expr, symbols); });
}

std::set<Symbol> symbols_of(const Graph& graph, const Node& node) {
  std::set<Symbol> symbols;
  for (ValueRef result : node.results) add_symbols(graph.type(result), symbols);
  for (const Attr& attr : node.attrs) add_symbols(attr, symbols);
  return symbols;
}

void declare_symbols(Graph& graph, const Graph& from, const std::set<Symbol>& symbols) {
  for (Symbol symbol : symbols) {
    const auto known = from.symbols().find(symbol);
    if (known != from.symbols().end()) graph.declare_symbol(symbol, known->second);
  }
}

std::map<Symbol, NodeRef> definers_of(const Graph& graph) {
  const std::set<Symbol> given = symbols_of_inputs(graph);
  std::map<Symbol, NodeRef> definers;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) {
    for (const Expr& size : sizes_found_by(graph, graph.nodes()[id])) {
      const bool is_symbol = size.kind() == symbolic::Kind::kSymbol;
      if (is_symbol && !given.contains(size.symbol())) definers.emplace(size.symbol(), NodeRef{id});
    }
  }
  return definers;
}

}  // namespace tenon
