#include <gtest/gtest.h>

#include <algorithm>

#include "passes/passes.h"

namespace tenon {
namespace {

// tests/passes/convolutions.txt has the pass, which takes parameters as frozen.
TEST(Convolutions, OfParametersThatAreNotFrozenAreProducts) {
  const Graph graph = parse_graph(R"(graph g(%x: f64[2, 16, 4]) {
  %w: f64[16, 16, 3] = parameter "w"
  %y = conv(%x, %w, none)
  return %y
}
)")
                          .value();
  EXPECT_EQ(rewrite_convolutions(graph, true), graph);
  const Graph product = rewrite_convolutions(graph, false);
  EXPECT_EQ(std::ranges::count(product.nodes(), &op_named("conv"), &Node::op), 0);
  EXPECT_EQ(std::ranges::count(product.nodes(), &op_named("contract"), &Node::op), 1);
}

}  // namespace
}  // namespace tenon
