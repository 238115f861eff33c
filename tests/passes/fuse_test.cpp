#include "passes/fuse.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

std::vector<std::string> ops_of(const Graph& graph, const FusedGroup& group) {
  std::vector<std::string> ops;
  for (NodeRef ref : group.nodes) ops.emplace_back(graph.node(ref).op->name.get());
  return ops;
}

using Names = std::vector<std::string>;

TEST(Fuse, AConvolutionReadsItsImageThroughPadding) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[1, 4, 8, 8]) {
  %w: f32[4, 1, 3, 3] = parameter "w"
  %p: f32[1, 4, 9, 9] = pad(%x) {low=[0, 0, 0, 0], high=[0, 0, 1, 1]}
  %h: f32[1, 4, 4, 4] = conv(%p, %w, none) {stride=[2, 2], groups=4}
  return %h
}
)")
                          .value();
  const std::vector<FusedGroup> groups = fuse(graph);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(ops_of(graph, groups[0]), (Names{"pad", "conv"}));
}

TEST(Fuse, PaddedWeightsArePaddedOnce) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[1, 4, 8, 8]) {
  %w: f32[4, 4, 2, 2] = parameter "w"
  %p: f32[4, 4, 3, 3] = pad(%w) {low=[0, 0, 0, 0], high=[0, 0, 1, 1]}
  %h: f32[1, 4, 6, 6] = conv(%x, %p, none)
  return %h
}
)")
                          .value();
  EXPECT_EQ(fuse(graph).size(), 2);
}

}  // namespace
}  // namespace tenon
