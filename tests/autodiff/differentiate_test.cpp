#include "autodiff/differentiate.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

Tensor vector_of(std::vector<double> values) {
  Tensor tensor = Tensor::zeros(DType::kF64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Result<Graph> gradient(const Graph& graph, const char* leaf) {
  return differentiate(graph, std::vector{graph.leaf_named(leaf)->value});
}

using Values = std::vector<double>;

TEST(Differentiate, SumsAtFanOut) {
  const Graph graph = parse_graph("graph g(%x: f64[2]) { %a = mul(%x, %x) %b = add(%a, %x) return %b }").value();
  const Graph gradients = gradient(graph, "x").value();
  const auto result = evaluate(gradients, std::vector{vector_of({3, -1}), vector_of({1, 10})});
  EXPECT_EQ(test::values_of(result.value()[0]), (Values{7, -10}));  // 2x + 1
}

TEST(Differentiate, AValueThatNothingNeedsHasGradientZero) {
  const Graph graph = parse_graph("graph g(%x: f64[2], %y: f64[2]) { %a = neg(%x) return %a }").value();
  const auto result =
      evaluate(gradient(graph, "y").value(), std::vector{vector_of({1, 2}), vector_of({3, 4}), vector_of({1, 1})});
  EXPECT_EQ(test::values_of(result.value()[0]), (Values{0, 0}));
}

TEST(Differentiate, ThroughWhatHasNoGradientIsAnErrorThatNamesTheOpAndThePlace) {
  const Graph graph =
      parse_graph("graph g(%x: f64[2]) { %t = trigamma(%x) %y = trigamma(%t) @ \"m.py\":3 return %y }").value();
  const Result<Graph> result = gradient(graph, "x");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().text(),
            "m.py:3: error: trigamma is not differentiable, and a gradient is asked through it");
}

TEST(Differentiate, IntegersHaveNoGradient) {
  const Graph graph = parse_graph("graph g(%x: i64[2]) { return %x }").value();
  EXPECT_EQ(gradient(graph, "x").diagnostic().message, "a value of dtype i64 has no gradient");
}

TEST(Differentiate, LeavesUpdatesOut) {
  const Graph graph =
      parse_graph("graph g(%x: f64[2]) { %m: f64[2] = buffer \"m\" %y = mul(%x, %m) update %m = %y return %y }")
          .value();
  EXPECT_TRUE(gradient(graph, "x").value().updates().empty());
}

TEST(Differentiate, CanBeAppliedAgain) {
  const Graph graph = parse_graph("graph g(%x: f64[1]) { %a = mul(%x, %x) %b = mul(%a, %x) return %b }").value();
  const Graph second = gradient(gradient(graph, "x").value(), "x").value();
  EXPECT_NE(second.leaf_named("grad_grad_0"), nullptr);
  const auto result = evaluate(second, std::vector{vector_of({2}), vector_of({1}), vector_of({1})});
  EXPECT_EQ(test::values_of(result.value()[0]), (Values{12}));  // 6x
}

}  // namespace
}  // namespace tenon
