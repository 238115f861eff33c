// What the op table's samples do not reach: errors, empty sizes that only the run reveals, and sharp cases of
// gradients.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/differentiate.h"
#include "graph/evaluate.h"
#include "graph/graph.h"
#include "passes/passes.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using Numbers = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor vector_of(const Numbers& values, DType dtype = DType::kF64) {
  Tensor tensor = Tensor::zeros(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Graph graph_of(std::string_view type, std::string_view body) {
  return parse_graph(fmt::format("graph g(%x: {}) {{ {} }}", type, body)).value();
}

std::string error_of(std::string_view type, std::string_view body) {
  const auto graph = parse_graph(fmt::format("graph g(%x: {}) {{ {} }}", type, body));
  EXPECT_FALSE(graph.ok());
  return graph.ok() ? "" : graph.diagnostic().message;
}

// The gradient of the sum of the first result.
Numbers gradient_of(std::string_view body, const Numbers& x, size_t results) {
  const Graph graph = graph_of(fmt::format("f64[{}]", x.size()), body);
  const Graph gradient = differentiate(graph, graph.inputs()).value();
  std::vector<Tensor> arguments = {vector_of(x)};
  arguments.push_back(vector_of(Numbers(results, 1.0)));
  return test::values_of(evaluate(gradient, arguments).value()[0]);
}

TEST(Reduction, EmptyExtentsHaveNoExtreme) {
  for (const std::string op : {"amax", "amin"}) {
    EXPECT_EQ(error_of("f32[2, 0]", fmt::format("%y = {}(%x) {{dims=[1]}} return %y", op)),
              op + ": dimension 1 of [2, 0] has no elements to choose from");
  }
  EXPECT_EQ(error_of("f32[0]", "%y = argmax(%x) return %y"),
            "argmax: dimension 0 of [0] has no elements to choose from");
  EXPECT_EQ(error_of("f32[0]", "%y = norm(%x) {p=inf} return %y"),
            "norm: dimension 0 of [0] has no elements to choose from");
  EXPECT_EQ(error_of("i32[2]", "%y = amax(%x) {allow_empty=true} return %y"),
            "amax: i32 has no infinity to give for no elements");
}

TEST(Reduction, AnExtentMayTurnOutEmptyInTheRun) {
  const Graph strict = graph_of("f64[N]", "%y = amax(%x) return %y");
  EXPECT_EQ(test::values_of(evaluate(strict, std::vector{vector_of({3, 4})}).value()[0]), Numbers{4});
  const auto failed = evaluate(strict, std::vector{vector_of({})});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "dimension 0 of [0] has no elements to choose from");
  const Graph lenient = graph_of("f64[N]", "%y = amax(%x) {allow_empty=true} return %y");
  EXPECT_EQ(test::values_of(evaluate(lenient, std::vector{vector_of({})}).value()[0]), Numbers{-HUGE_VAL});
}

TEST(Reduction, CompositesTakeSizesThatTurnOutEmpty) {
  for (const std::string body :
       {"%y = logsumexp(%x) return %y", "%y = softmax(%x) {dim=0} return %y", "%y = mean(%x) return %y"}) {
    const Graph expanded = decompose(graph_of("f64[N]", body));
    EXPECT_TRUE(evaluate(expanded, std::vector{vector_of({})}).ok()) << body;
  }
}

TEST(Reduction, DimensionsAreChecked) {
  EXPECT_EQ(error_of("f32[2, 3]", "%y = sum(%x) {dims=[2]} return %y"),
            "sum: dimension 2 is out of range for rank 2: it must be in [-2, 1]");
  EXPECT_EQ(error_of("f32[2, 3]", "%y = sum(%x) {dims=[1, -1]} return %y"), "sum: dimension 1 appears twice");
  EXPECT_EQ(error_of("f32[2, 3]", "%y = norm(%x) {p=nan} return %y"), "norm: the order of the norm is NaN");
}

TEST(Reduction, ProductsHaveGradientsAtZeros) {
  EXPECT_EQ(gradient_of("%y = prod(%x) {keepdim=true} return %y", {2, 0, 3}, 1), (Numbers{0, 6, 0}));
  EXPECT_EQ(gradient_of("%y = prod(%x) {keepdim=true} return %y", {0, 5, 0}, 1), (Numbers{0, 0, 0}));
}

TEST(Reduction, TheDivisorOfAVarianceIsNeverNegative) {
  for (const std::string correction : {"2.0", "3.0"}) {
    const Graph graph = graph_of("f64[N]", fmt::format("%y = var(%x) {{correction={}}} return %y", correction));
    EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({1, 2})}).value()[0]), Numbers{HUGE_VAL});
    EXPECT_TRUE(std::isnan(test::values_of(evaluate(graph, std::vector{vector_of({1, 1})}).value()[0])[0]));
  }
}

TEST(Reduction, EqualExtremesShareTheGradient) {
  EXPECT_EQ(gradient_of("%y = amax(%x) {keepdim=true} return %y", {4, 1, 4, 4}, 1),
            (Numbers{1.0 / 3, 0, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(gradient_of("%y, %i = max_dim(%x) {dim=0, keepdim=true} return %y", {1, 4, 4}, 1), (Numbers{0, 1, 0}));
}

TEST(Reduction, KinksHaveTheGradientZero) {
  EXPECT_EQ(gradient_of("%y = std(%x) {keepdim=true} return %y", {2, 2, 2}, 1), (Numbers{0, 0, 0}));
  for (const std::string p : {"1.0", "1.5", "2.0", "3.0", "inf"}) {
    EXPECT_EQ(gradient_of(fmt::format("%y = norm(%x) {{p={}, keepdim=true}} return %y", p), {0, 0}, 1), (Numbers{0, 0}))
        << p;
  }
}

TEST(Reduction, SearchesPreferTheFirstAndNan) {
  const Graph graph = graph_of("f64[N]", "%y = argmax(%x) %z = argmin(%x) return %y, %z");
  const auto found = [&](const Numbers& x) {
    const auto results = evaluate(graph, std::vector{vector_of(x)}).value();
    return std::pair(results[0].integer(0), results[1].integer(0));
  };
  EXPECT_EQ(found({1, 3, 3, 1}), std::pair(int64_t{1}, int64_t{0}));
  EXPECT_EQ(found({1, kNan, 5, kNan}), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(found({0, -0.0}), std::pair(int64_t{0}, int64_t{0}));
}

TEST(Scan, ProductsHaveGradientsAtZeros) {
  // y = x0, x0 x1, x0 x1 x2, x0 x1 x2 x3
  EXPECT_EQ(gradient_of("%y = cumprod(%x) {dim=0} return %y", {2, 3, 0, 5}, 4), (Numbers{4, 2, 36, 0}));
  EXPECT_EQ(gradient_of("%y = cumprod(%x) {dim=0} return %y", {2, 0, 3, 0}, 4), (Numbers{1, 8, 0, 0}));
}

TEST(Scan, RunningExtremesNameTheLatestOfEquals) {
  const Graph graph = graph_of("f64[N]", "%y, %i = cummax(%x) {dim=0} return %y, %i");
  const auto results = evaluate(graph, std::vector{vector_of({1, 1, 0, kNan, 2, kNan})}).value();
  EXPECT_EQ(test::values_of(results[1]), (Numbers{0, 1, 1, 3, 3, 5}));
  EXPECT_EQ(gradient_of("%y, %i = cummax(%x) {dim=0} return %y", {1, 3, 2, 3}, 4), (Numbers{1, 2, 0, 1}));
}

TEST(Normalization, ParametersAreChecked) {
  const auto error = [](std::string_view text) { return parse_graph(text).diagnostic().message; };
  EXPECT_EQ(
      error(
          "graph g(%x: f32[2, 4], %w: f32[3]) { %y, %m, %r = layer_norm(%x, %w, none) {normalized_rank=1} return %y }"),
      "layer_norm: weight must have shape [4], got [3]");
  EXPECT_EQ(
      error(
          "graph g(%x: f32[2, 4], %w: f16[4]) { %y, %m, %r = layer_norm(%x, %w, none) {normalized_rank=1} return %y }"),
      "layer_norm: weight must have the operand's dtype f32, got f16");
  EXPECT_EQ(error("graph g(%x: f32[2, 4]) { %y, %m, %r = layer_norm(%x, none, none) {normalized_rank=3} return %y }"),
            "layer_norm: normalized_rank must be in [1, 2] for f32[2, 4], got 3");
  EXPECT_EQ(error("graph g(%x: f32[2, C, 3]) { %y, %m, %r = group_norm(%x, none, none) {groups=2} return %y }"),
            "group_norm: C channels are not known to divide into 2 groups");
  EXPECT_EQ(error("graph g(%x: f32[4]) { %y, %m, %r, %v = batch_norm(%x, none, none) return %y }"),
            "batch_norm: the operand must have a batch and a channel dimension, got f32[4]");
}

TEST(Sort, EqualValuesKeepTheirOrderAndNanIsLargest) {
  const Graph graph = graph_of("f64[N]", "%a, %i = sort(%x) %b, %j = sort(%x) {descending=true} return %i, %j");
  const auto results = evaluate(graph, std::vector{vector_of({2, kNan, 1, 2, -0.0, 0})}).value();
  EXPECT_EQ(test::values_of(results[0]), (Numbers{4, 5, 2, 0, 3, 1}));
  EXPECT_EQ(test::values_of(results[1]), (Numbers{1, 0, 3, 2, 4, 5}));
}

TEST(Sort, KMustBeKnownToFit) {
  EXPECT_EQ(error_of("f32[3]", "%y, %i = topk(%x) {k=4} return %y"),
            "topk: k = 4 is not known to be in [0, 3] for dimension -1 of f32[3]");
  EXPECT_EQ(error_of("f32[N]", "%y, %i = topk(%x) {k=2} return %y"),
            "topk: k = 2 is not known to be in [0, N] for dimension -1 of f32[N]");
  const Graph graph = graph_of("f64[N]", "symbol N in [2, 9] %y, %i = topk(%x) {k=2} return %y");
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({1, 3, 2})}).value()[0]), (Numbers{3, 2}));
}

TEST(Nonzero, CountsInTheRun) {
  const Graph graph = graph_of("f64[N]", "%i: i64[K, 1] = nonzero(%x) {count=K} %s = sum(%i) {dims=[1]} return %s");
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({0, 1, kNan, 0, 2})}).value()[0]),
            (Numbers{1, 2, 4}));
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({0})}).value()[0]), Numbers{});
  EXPECT_EQ(error_of("f32[N]", "%i = nonzero(%x) {count=K + 1} return %i"),
            "nonzero: attribute 'count' must be of kind symbol, got K + 1");
  const auto wrong =
      evaluate(graph_of("f64[N]", "%i = nonzero(%x) {count=3} return %i"), std::vector{vector_of({1, 0})});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.diagnostic().message, "1 elements are not zero, where 3 are expected");
}

}  // namespace
}  // namespace tenon
