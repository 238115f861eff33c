#include "graph/rewrite.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Rewriter, RefusesAReplacementOfAnotherType) {
  const Graph graph = parse_graph("graph g(%x: f32[3]) { %y = sum(%x) return %y }").value();
  Rewriter rewriter(graph);
  EXPECT_THROW(rewriter.replace(graph.nodes()[0], {rewriter.map(graph.inputs()[0])}), InternalError);
}

}  // namespace
}  // namespace tenon
