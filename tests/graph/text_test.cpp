// The text form: print and parse are inverse.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = to_string(graph);
  const Result<Graph> parsed = parse_graph(text);
  ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().text() << "\n" << text;
  EXPECT_EQ(*parsed, graph) << text;
  EXPECT_EQ(to_string(*parsed), text);
}

TEST(GraphText, TwoThousandRandomGraphsRoundTrip) {
  test::Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const Graph graph = test::random_graph(random, 1 + i % 12);
    ASSERT_TRUE(verify(graph).ok()) << verify(graph).diagnostic().text() << to_string(graph);
    expect_round_trip(graph);
    if (HasFailure()) return;
  }
}

TEST(GraphText, PrintsTheCanonicalForm) {
  const char* text =
      "graph mlp(%x: f32[N, 4]) {\n"
      "  symbol N in [1, 64]\n"
      "  %w: f32[4] = parameter \"fc.weight\"\n"
      "  %mean: f32[4] = buffer \"bn.mean\"\n"
      "  %half: f32[] = constant 0.5\n"
      "  %0: f32[N, 4] = mul(%x, %w) @ \"model.py\":12:3\n"
      "  %y: f32[N, 4] = add(%0, %half)\n"
      "  %1: f32[4] = sum(%y) {dims=[0]}\n"
      "  update %mean = %1\n"
      "  return %y\n"
      "}\n";
  const Result<Graph> graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().text();
  EXPECT_EQ(to_string(*graph), text);
}

TEST(GraphText, ResultTypesMayBeLeftOut) {
  const Result<Graph> graph = parse_graph("graph g(%x: f32[3]) { %y = exp(%x) return %y }");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().text();
  EXPECT_EQ(to_string(graph->type(graph->outputs()[0])), "f32[3]");
}

TEST(GraphText, ADeclaredTypeMustBeTheInferredOne) {
  const Result<Graph> graph = parse_graph("graph g(%x: f32[3]) {\n  %y: f32[4] = exp(%x)\n  return %y\n}", "g.tg");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.diagnostic().text(), "g.tg:2:3: error: %y is declared f32[4], but it is f32[3]");
}

TEST(GraphText, ConstantsKeepEveryBit) {
  Graph graph;
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const Tensor tensor = Tensor::zeros(dtype, {5});
    const double values[] = {0.1, -0.0, HUGE_VAL, std::nan(""), 1e-40};
    for (int64_t i = 0; i < 5; ++i) Tensor(tensor).set_real(i, values[i]);
    graph.add_constant(tensor);
  }
  Tensor payload = Tensor::zeros(DType::kF32, {});
  const uint32_t bits = 0xffc00123;
  std::memcpy(payload.data(), &bits, sizeof bits);
  graph.add_constant(payload);
  graph.add_constant(Tensor::zeros(DType::kI8, {0, 3}));
  graph.add_constant(Tensor::scalar(DType::kI64, std::numeric_limits<int64_t>::min()));
  expect_round_trip(graph);
}

TEST(GraphEquality, SeesEveryPartOfTheStructure) {
  const auto parse = [](const char* body) {
    return parse_graph(fmt::format("graph g(%x: f32[3], %y: f32[3]) {{ {} }}", body)).value();
  };
  const Graph graph = parse("%a = add(%x, %y) return %a");
  EXPECT_EQ(graph, parse("%b = add(%x, %y) @ \"m.py\":1 return %b")) << "names and locations do not count";
  EXPECT_NE(graph, parse("%a = add(%y, %x) return %a"));
  EXPECT_NE(graph, parse("%a = mul(%x, %y) return %a"));
  EXPECT_NE(graph, parse("%a = add(%x, %y) return %a, %a"));
  EXPECT_NE(graph, parse("%a = add(%x, %y) update %x = %a return %a"));
  EXPECT_NE(graph, parse("symbol N in [0, 1] %a = add(%x, %y) return %a"));
  EXPECT_NE(parse("%a = sum(%x) return %a"), parse("%a = sum(%x) {keepdim=true} return %a"));
  EXPECT_NE(parse("%a: f32[] = constant 0.0 return %a"), parse("%a: f32[] = constant -0.0 return %a"));
}

}  // namespace
}  // namespace tenon
