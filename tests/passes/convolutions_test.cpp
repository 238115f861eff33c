#include <gtest/gtest.h>

#include <algorithm>

#include "graph/evaluate.h"
#include "passes/passes.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

size_t count(const Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->name.get() == op; }));
}

Graph conv(std::string_view x, std::string_view w, std::string_view attrs, std::string_view weight = "input") {
  const std::string leaf = weight == "input" ? "" : fmt::format("  %w: {} = {} \"w\"\n", w, weight);
  const std::string input = weight == "input" ? fmt::format(", %w: {}", w) : "";
  return parse_graph(fmt::format("graph g(%x: {}{}) {{\n{}  %y = conv(%x, %w, none) {{{}}}\n  return %y\n}}\n", x,
                                 input, leaf, attrs))
      .value();
}

void expect_same_results(const Graph& graph, const Graph& other) {
  test::Random random(1);
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
  const Tensor expected = evaluate(graph, inputs).value()[0], actual = evaluate(other, inputs).value()[0];
  ASSERT_EQ(actual.shape(), expected.shape());
  for (int64_t i = 0; i < expected.numel(); ++i) EXPECT_NEAR(actual.real(i), expected.real(i), 1e-12) << "at " << i;
}

TEST(Convolutions, OfSmallImagesAreProducts) {
  for (const char* attrs : {"", "padding=[1]", "stride=[2], padding=[1]", "dilation=[2], padding=[2]",
                            "transposed=true", "transposed=true, padding=[1]", "transposed=true, dilation=[2]"}) {
    SCOPED_TRACE(attrs);
    const Graph graph = conv("f64[2, 16, 4]", "f64[16, 16, 3]", attrs);
    const Graph product = rewrite_convolutions(graph, true);
    EXPECT_EQ(count(product, "conv"), 0);
    EXPECT_EQ(count(product, "contract"), 1);
    expect_same_results(graph, product);
  }
}

TEST(Convolutions, InTwoDimensions) {
  const Graph graph = conv("f64[2, 8, 4, 3]", "f64[16, 8, 3, 2]", "padding=[1, 0], stride=[2, 1]");
  const Graph product = rewrite_convolutions(graph, true);
  EXPECT_EQ(count(product, "conv"), 0);
  expect_same_results(graph, product);
}

TEST(Convolutions, OfLargeImagesStay) {
  const Graph graph = conv("f64[2, 3, 32, 32]", "f64[4, 3, 3, 3]", "padding=[1]");
  EXPECT_EQ(rewrite_convolutions(graph, true), graph);
}

TEST(Convolutions, TransposedOnesWithAStrideGetTheirZeros) {
  for (const char* attrs :
       {"stride=[2], transposed=true", "stride=[3], padding=[1], transposed=true, output_padding=[2]",
        "stride=[2], dilation=[2], transposed=true, output_padding=[1]", "stride=[2], groups=2, transposed=true"}) {
    SCOPED_TRACE(attrs);
    const Graph graph = conv("f64[2, 4, 40]", "f64[4, 2, 3]", attrs);
    const Graph other = rewrite_convolutions(graph, true);
    EXPECT_FALSE(other == graph);
    expect_same_results(graph, other);
  }
}

TEST(Convolutions, WeightsThatStayAsTheyAreArePacked) {
  const Graph graph = conv("f64[2, 16, 4]", "f64[16, 16, 3]", "", "parameter");
  EXPECT_EQ(rewrite_convolutions(graph, true), graph);
  EXPECT_EQ(count(rewrite_convolutions(graph, false), "conv"), 0);
}

}  // namespace
}  // namespace tenon
