#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon {
namespace {

std::vector<bool> live_values(const Graph& graph) {
  std::vector<bool> live(graph.value_count(), false);
  for (ValueRef output : graph.outputs()) live[output.id] = true;
  for (const Update& update : graph.updates()) live[update.target.id] = live[update.value.id] = true;
  for (size_t id = graph.nodes().size(); id-- > 0;) {
    const Node& node = graph.nodes()[id];
    bool needed = false;
    for (ValueRef result : node.results) needed |= live[result.id];
    if (!needed) continue;
    for (ValueRef result : node.results) live[result.id] = true;
    for (ValueRef operand : node.operands) {
      if (operand) live[operand.id] = true;
    }
  }
  return live;
}

}  // namespace

Graph eliminate_dead_code(const Graph& graph) {
  const std::vector<bool> live = live_values(graph);
  Rewriter rewriter(graph, [&](const Leaf& leaf) { return leaf.kind == LeafKind::kInput || live[leaf.value.id]; });
  for (const Node& node : graph.nodes()) {
    if (!node.results.empty() && live[node.results[0].id]) rewriter.copy(node);
  }
  return rewriter.finish();
}

}  // namespace tenon
