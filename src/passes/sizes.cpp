#include "passes/sizes.h"

#include <algorithm>

namespace tenon {
namespace {

std::set<Symbol> symbols_of_inputs(const Graph& graph) {
  std::set<Symbol> symbols;
  for (ValueRef input : graph.inputs()) {
    for (const Expr& size : graph.type(input).shape) {
      for (Symbol symbol : symbols_of(size)) symbols.insert(symbol);
    }
  }
  return symbols;
}

std::vector<Expr> sizes_found_by(const Graph& graph, const Node& node) {
  std::vector<Expr> sizes;
  for (size_t i = 0; i < node.attrs.size(); ++i) {
    if (node.op->attrs[i].kind == AttrKind::kSymbol) sizes.push_back(std::get<Expr>(node.attrs[i]));
  }
  if (node.op->name.get() != "external") return sizes;
  for (ValueRef result : node.results) std::ranges::copy(graph.type(result).shape, std::back_inserter(sizes));
  return sizes;
}

}  // namespace

std::set<Symbol> symbols_of(const Graph& graph, const Node& node) {
  std::set<Symbol> symbols;
  const auto add = [&](const Expr& expr) {
    for (Symbol symbol : symbols_of(expr)) symbols.insert(symbol);
  };
  for (ValueRef result : node.results) std::ranges::for_each(graph.type(result).shape, add);
  for (const Attr& attr : node.attrs) {
    if (const auto* expr = std::get_if<Expr>(&attr)) add(*expr);
    if (const auto* exprs = std::get_if<std::vector<Expr>>(&attr)) std::ranges::for_each(*exprs, add);
  }
  return symbols;
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
