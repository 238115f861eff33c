// What PyTorch cannot judge of windows, pooling and resampling: sharp cases, symbolic types, refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autodiff/differentiate.h"
#include "graph/evaluate.h"
#include "graph/graph.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using Numbers = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

Tensor row_of(const Numbers& values) {
  Tensor tensor = Tensor::zeros(DType::kF64, {1, 1, static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Graph graph_of(std::string_view type, std::string_view body) {
  return parse_graph(fmt::format("graph g(%x: {}) {{ {} }}", type, body)).value();
}

std::string refusal(std::string_view type, std::string_view body) {
  const Result<Graph> parsed = parse_graph(fmt::format("graph g(%x: {}) {{ {} }}", type, body));
  return parsed.ok() ? "" : parsed.diagnostic().message;
}

std::string result_type(std::string_view type, std::string_view body) {
  const Graph graph = graph_of(type, body);
  return to_string(graph.type(graph.outputs()[0]));
}

std::vector<Numbers> max_pool(const Numbers& x, std::string_view attrs) {
  const Graph graph = graph_of(fmt::format("f64[1, 1, {}]", x.size()),
                               fmt::format("%y, %i = max_pool(%x) {{{}}} return %y, %i", attrs));
  const std::vector<Tensor> results = evaluate(graph, std::vector{row_of(x)}).value();
  return {test::values_of(results[0]), test::values_of(results[1])};
}

TEST(MaxPool, TheFirstMaximumWinsAndTheLastNan) {
  EXPECT_EQ(max_pool({2, 2, 1, 2}, "kernel=[4]"), (std::vector<Numbers>{{2}, {0}}));
  EXPECT_EQ(max_pool({1, kNan, 9, kNan}, "kernel=[4]")[1], Numbers{3});
}

TEST(MaxPool, PaddingNeverWins) {
  const auto result = max_pool({-kInf, -kInf, -kInf}, "kernel=[3], stride=[1], padding=[1]");
  EXPECT_EQ(result, (std::vector<Numbers>{{-kInf, -kInf, -kInf}, {0, 0, 1}}));
}

// A dilated window can miss every element. It is -inf, and passes no gradient on.
TEST(MaxPool, OfPaddingOnly) {
  const char* body = "%y, %i = max_pool(%x) {kernel=[2], dilation=[4], padding=[2]} return %y, %i";
  const Graph graph = graph_of("f64[1, 1, 1]", body);
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{row_of({7})}).value()[0]), Numbers{-kInf});
  const Graph gradient = differentiate(graph, graph.inputs()).value();
  EXPECT_EQ(test::values_of(evaluate(gradient, std::vector{row_of({7}), row_of({1})}).value()[0]), Numbers{0});
}

TEST(MaxPool, SymbolicSizes) {
  EXPECT_EQ(result_type("f32[N, C, H, 7]", "%y, %i = max_pool(%x) {kernel=[3, 3], stride=[2], padding=[1]} return %y"),
            "f32[N, C, (H + 1) // 2, 4]");
  EXPECT_EQ(result_type("f32[N, L]", "%y, %i = max_pool(%x) {kernel=[2], ceil_mode=true} return %y"),
            "f32[N, (L + 1) // 2]");
}

TEST(AdaptivePool, NanStaysInItsBins) {
  const Graph graph = graph_of("f64[1, 1, 5]", "%y = adaptive_avg_pool(%x) {output_size=[3]} return %y");
  const Numbers result = test::values_of(evaluate(graph, std::vector{row_of({1, 3, 5, 7, kInf})}).value()[0]);
  EXPECT_EQ(result, (Numbers{2, 5, kInf}));  // [1, 3], [3, 5, 7], [7, inf]
}

TEST(AdaptivePool, SymbolicSizes) {
  const Graph graph = graph_of("f64[1, 1, L]", "%y = adaptive_avg_pool(%x) {output_size=[2]} return %y");
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{row_of({1, 2, 6})}).value()[0]), (Numbers{1.5, 4}));
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{row_of({1, 2, 5, 6})}).value()[0]), (Numbers{1.5, 5.5}));
}

TEST(Windows, AreChecked) {
  EXPECT_EQ(refusal("f32[]", "%y = windows(%x) {dim=0, size=1} return %y"),
            "windows: a scalar has no dimension to slide along");
  EXPECT_EQ(refusal("f32[3]", "%y = windows(%x) {dim=0, size=2, dilation=3} return %y"),
            "windows: a window that spans 4 does not fit into 3");
  EXPECT_EQ(refusal("f32[3]", "%y = windows(%x) {dim=0, size=0} return %y"), "windows: size must be at least 1, got 0");
  EXPECT_EQ(refusal("f32[3, 2]", "%y = fold(%x) {dim=0, length=5} return %y"),
            "fold: 3 windows are given where length 5 has 4");
  EXPECT_EQ(refusal("f32[3, N]", "%y = fold(%x) {dim=0, length=5} return %y"),
            "fold: the size N of the windows must be a constant");
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal("f32[1, 2]", "%y, %i = max_pool(%x) {kernel=[3]} return %y"),
            "max_pool: dimension 1 of size 2 with padding 0 is too small for a window that spans 3");
  EXPECT_EQ(refusal("f32[1, 5]", "%y = avg_pool(%x) {kernel=[2], padding=[2]} return %y"),
            "avg_pool: padding 2 is more than half of a window that spans 2");
  EXPECT_EQ(refusal("f32[1, 5]", "%y = avg_pool(%x) {kernel=[2], divisor_override=0} return %y"),
            "avg_pool: divisor_override must not be 0");
  EXPECT_EQ(refusal("f32[5]", "%y, %i = max_pool(%x) {kernel=[2, 2]} return %y"),
            "max_pool: x [5] has fewer dimensions than the kernel");
  EXPECT_EQ(refusal("f32[2, 0]", "%y = adaptive_avg_pool(%x) {output_size=[2]} return %y"),
            "adaptive_avg_pool: cannot resize the empty dimensions of f32[2, 0]");
  EXPECT_EQ(refusal("f32[7, 4]", "%y = col2im(%x) {output_size=[3, 3], kernel=[2, 2]} return %y"),
            "col2im: 7 rows are no multiple of 4, the elements of a window");
  EXPECT_EQ(refusal("f32[8, 5]", "%y = col2im(%x) {output_size=[3, 3], kernel=[2, 2]} return %y"),
            "col2im: 5 windows are given where the image [2, 3, 3] has 4");
}

TEST(Upsample, SymbolicSizes) {
  EXPECT_EQ(result_type("f32[N, 3, H, W]", "%y = upsample_linear(%x) {output_size=[2*H, 64]} return %y"),
            "f32[N, 3, 2*H, 64]");
  const Graph graph = graph_of("f64[1, 1, L]", "%y = upsample_nearest(%x) {output_size=[2*L]} return %y");
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{row_of({1, 2})}).value()[0]), (Numbers{1, 1, 2, 2}));
}

// A dimension whose size turns out the same in the run is copied, as it is when that is known before.
TEST(Upsample, OfTheSameSize) {
  const Graph graph = graph_of("f64[1, 1, L]", "%y = upsample_linear(%x) {output_size=[3], scales=[1.3]} return %y");
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{row_of({1, 2, 4})}).value()[0]), (Numbers{1, 2, 4}));
}

TEST(Upsample, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal("f32[1, 2]", "%y = upsample_nearest(%x) {output_size=[4], scales=[2.0, 2.0]} return %y"),
            "upsample_nearest: output_size and scales have 1 and 2 numbers");
  EXPECT_EQ(refusal("f32[1, 2]", "%y = upsample_nearest(%x) {output_size=[4], scales=[0.0]} return %y"),
            "upsample_nearest: scales must be positive, got 0");
  EXPECT_EQ(refusal("f32[1, 0]", "%y = upsample_linear(%x) {output_size=[4]} return %y"),
            "upsample_linear: cannot resize the empty dimensions of f32[1, 0]");
}

TEST(PixelShuffle, SymbolicSizes) {
  EXPECT_EQ(result_type("f32[N, 4*C, H, W]", "%y = pixel_shuffle(%x) {factor=2} return %y"), "f32[N, C, 2*H, 2*W]");
  EXPECT_EQ(result_type("f32[N, C, 2*H, 2*W]", "%y = pixel_unshuffle(%x) {factor=2} return %y"), "f32[N, 4*C, H, W]");
  EXPECT_EQ(refusal("f32[3, 2, 2]", "%y = pixel_shuffle(%x) {factor=2} return %y"),
            "pixel_shuffle: size 3 is no multiple of 4");
}

}  // namespace
}  // namespace tenon
