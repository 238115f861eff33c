#include "fusion/fuse.h"

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

// The arguments of an optimizer are part of the product that is the gradient.
TEST(Fuse, AContractionComputesWhatOnlyItsEpilogueNeeds) {
  const Graph graph = parse_graph(R"(graph g(%a: f32[64, 32], %b: f32[32, 48], %v: f32[64, 48]) {
  %decay: f32[] = constant 0.9
  %p: f32[64, 48] = contract(%a, %b) {spec="ik,kj->ij"}
  %w: f32[64, 48] = mul(%v, %decay)
  %s: f32[64, 48] = add(%w, %p)
  return %s
}
)")
                          .value();
  const std::vector<FusedGroup> groups = fuse(graph);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(ops_of(graph, groups[0]), (Names{"contract", "mul", "add"}));
}

TEST(Fuse, AContractionReadsWhatIsAlsoItsOperand) {
  const Graph graph = parse_graph(R"(graph g(%a: f32[32, 32], %b: f32[32, 32]) {
  %w: f32[32, 32] = neg(%a)
  %p: f32[32, 32] = contract(%w, %b) {spec="ik,kj->ij"}
  %s: f32[32, 32] = add(%w, %p)
  return %s
}
)")
                          .value();
  EXPECT_EQ(fuse(graph).size(), 2);
}

// %t and %u follow from %h, which is one value in place of two.
TEST(Fuse, ValuesThatFollowFromFewerAreComputedAgain) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 32], %w: f32[32, 48], %v: f32[48, 32]) {
  %h: f32[64, 48] = contract(%x, %w) {spec="ik,kj->ij"}
  %t: f32[64, 48] = tanh(%h)
  %u: f32[64, 48] = mul(%h, %t)
  %y: f32[64, 32] = contract(%u, %v) {spec="ik,kj->ij"}
  %d: f32[64, 48] = contract(%y, %v) {spec="ij,kj->ik"}
  %e: f32[64, 48] = mul(%d, %t)
  %f: f32[64, 48] = mul(%e, %u)
  return %f
}
)")
                          .value();
  const std::vector<FusedGroup> groups = fuse(graph);
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].outputs.size(), 2);  // %h, and %u for the product
  EXPECT_EQ(ops_of(graph, groups[2]), (Names{"tanh", "mul", "contract", "mul", "mul"}));
  EXPECT_EQ(groups[2].inputs.size(), 3);
}

TEST(Fuse, OneValueIsReadRatherThanComputedAgain) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[64, 32], %w: f32[32, 48], %v: f32[48, 32]) {
  %h: f32[64, 48] = contract(%x, %w) {spec="ik,kj->ij"}
  %t: f32[64, 48] = tanh(%h)
  %y: f32[64, 32] = contract(%t, %v) {spec="ik,kj->ij"}
  %d: f32[64, 48] = contract(%y, %v) {spec="ij,kj->ik"}
  %e: f32[64, 48] = mul(%d, %t)
  return %e
}
)")
                          .value();
  const std::vector<FusedGroup> groups = fuse(graph);
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].outputs.size(), 1);
  EXPECT_EQ(ops_of(graph, groups[2]), (Names{"contract", "mul"}));
}

}  // namespace
}  // namespace tenon
