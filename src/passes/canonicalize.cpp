#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon {

Graph canonicalize(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) rewriter.copy(node);
  return rewriter.finish();
}

}  // namespace tenon
