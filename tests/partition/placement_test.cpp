#include "partition/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partition/support_claims.h"

namespace tenon {
namespace {

Claim only(const Graph& graph, NodeRef node, std::string_view op) {
  const std::string_view own = graph.node(node).op->name.get();
  return {.accepted = own == op, .reason = fmt::format("no {} here", own)};
}

Placement placement_of(const char* text) {
  Graph graph = parse_graph(text).value();
  const Claimant npu{"npu", [](const Graph& g, NodeRef node) { return only(g, node, "relu"); }};
  const Claimant dsp{"dsp", [](const Graph& g, NodeRef node) { return only(g, node, "exp"); }};
  Partition parts = partition(graph, test::with_host({npu, dsp}));
  return {std::move(graph), std::move(parts)};
}

constexpr const char* kModel = R"(graph g(%x: f32[4]) {
  %a = relu(%x)
  %b = tanh(%a)
  %c = exp(%b)
  %d = relu(%c)
  %e = tanh(%d)
  return %e
})";

TEST(Placement, SaysForEachNodeWhoRunsItAndWhyOthersDoNot) {
  const Placement placement = placement_of(kModel);
  const std::vector<PlacedNode> nodes = placed_nodes(placement);
  ASSERT_EQ(nodes.size(), 5U);
  EXPECT_EQ(nodes[0].device, "npu");
  EXPECT_TRUE(nodes[0].declined.empty());
  EXPECT_EQ(nodes[1].name, "%b");
  EXPECT_EQ(nodes[1].device, "cpu");
  ASSERT_EQ(nodes[1].declined.size(), 2U);
  EXPECT_EQ(nodes[1].declined[0].device, "npu");
  EXPECT_EQ(nodes[1].declined[0].reason, "no tanh here");
  EXPECT_EQ(nodes[1].declined[1].device, "dsp");
  EXPECT_EQ(nodes[2].device, "dsp");
  ASSERT_EQ(nodes[2].declined.size(), 1U);
  EXPECT_EQ(nodes[2].declined[0].reason, "no exp here");
  for (size_t i = 1; i < nodes.size(); ++i) EXPECT_EQ(nodes[i].segment, nodes[i - 1].segment + 1);
}

TEST(Placement, TheSummaryGroupsReasons) {
  EXPECT_EQ(summary_of(placement_of(kModel)),
            "npu runs 2 of 5 nodes, in 2 segments\n"
            "dsp runs 1 of 5 nodes, in 1 segment\n"
            "cpu runs 2 of 5 nodes, in 2 segments\n"
            "npu declined 3 nodes\n"
            "  2 no tanh here: tanh %b, tanh %e\n"
            "  1 no exp here: exp %c\n"
            "dsp declined 2 nodes\n"
            "  2 no tanh here: tanh %b, tanh %e\n");
}

TEST(Placement, TheSummaryOfManyNodesIsShort) {
  std::string text = "graph g(%x: f32[4]) {\n  %v0 = tanh(%x)\n";
  for (int i = 1; i < 100; ++i) text += fmt::format("  %v{} = tanh(%v{})\n", i, i - 1);
  const Placement placement = placement_of((text + "  return %v99\n}").c_str());
  EXPECT_THAT(summary_of(placement),
              testing::HasSubstr("npu declined 100 nodes\n"
                                 "  100 no tanh here: tanh %v0, tanh %v1, tanh %v2, tanh %v3, tanh %v4, ...\n"));
}

}  // namespace
}  // namespace tenon
