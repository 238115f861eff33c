#include "graph/dead_code.h"

#include <algorithm>
#include <set>

#include "graph/node_symbols.h"
#include "graph/rewrite.h"

namespace tenon {
namespace {

// What a program needs, found from its end to its beginning: values, and the symbols that stand in their types and
// attributes. A node that defines such a symbol is needed too, even if nobody reads its results.
class Liveness {
 public:
  explicit Liveness(const Graph& graph)
      : graph_(graph), defined_by_(graph.nodes().size()), live_(graph.value_count(), false) {
    for (const auto& [symbol, node] : definers_of(graph)) defined_by_[node.id].push_back(symbol);
    for (ValueRef output : graph.outputs()) need(output);
    for (const Update& update : graph.updates()) need(update.target), need(update.value);
    for (size_t id = graph.nodes().size(); id-- > 0;) visit({static_cast<uint32_t>(id)});
  }

  bool operator[](ValueRef value) const { return live_[value.id]; }

 private:
  void need(ValueRef value) {
    if (live_[value.id]) return;
    live_[value.id] = true;
    add_symbols(graph_.type(value), symbols_);
  }

  bool defines_needed_symbol(NodeRef node) const {
    return std::ranges::any_of(defined_by_[node.id], [&](Symbol symbol) { return symbols_.contains(symbol); });
  }

  void visit(NodeRef ref) {
    const Node& node = graph_.node(ref);
    const bool read = std::ranges::any_of(node.results, [&](ValueRef result) { return live_[result.id]; });
    if (!read && !defines_needed_symbol(ref)) return;
    for (ValueRef result : node.results) need(result);
    for (ValueRef operand : node.operands) {
      if (operand) need(operand);
    }
    for (const Attr& attr : node.attrs) add_symbols(attr, symbols_);
  }

  const Graph& graph_;
  std::vector<std::vector<Symbol>> defined_by_;  // each node
  std::vector<bool> live_;
  std::set<Symbol> symbols_;
};

}  // namespace

Graph eliminate_dead_code(const Graph& graph) {
  const Liveness live(graph);
  Rewriter rewriter(graph, [&](const Leaf& leaf) { return leaf.kind == LeafKind::kInput || live[leaf.value]; });
  for (const Node& node : graph.nodes()) {
    if (!node.results.empty() && live[node.results[0]]) rewriter.copy(node);
  }
  return rewriter.finish();
}

}  // namespace tenon
