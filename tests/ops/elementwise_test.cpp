// What PyTorch cannot judge of the elementwise ops: where it is undefined, inexact or inconsistent, and what Tenon
// refuses. Everything else the table tests (see op_table_test.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autodiff/differentiate.h"
#include "graph/builder.h"
#include "graph/evaluate.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

std::vector<Value> scalars(Builder& b, DType dtype, const std::vector<double>& numbers) {
  std::vector<Value> values;
  for (double number : numbers) values.push_back(b.scalar(number, dtype));
  return values;
}

std::vector<Value> integers(Builder& b, const std::vector<int64_t>& numbers, DType dtype = DType::kI64) {
  std::vector<Value> values;
  for (int64_t number : numbers) values.push_back(b.integer(number, dtype));
  return values;
}

Result<Tensor> try_evaluate(Graph graph, Value value) {
  graph.set_outputs({value.ref()});
  return attempt([&] { return evaluate(graph, std::span<const Tensor>()).value()[0]; });
}

// An op applied to scalars.
double real_of(std::string_view op, const std::vector<double>& x, NamedAttrs attrs = {}, DType dtype = DType::kF64) {
  Graph graph;
  Builder b(graph);
  const Value y = b.op(op, scalars(b, dtype, x), std::move(attrs));
  return try_evaluate(std::move(graph), y).value().real(0);
}

Result<Tensor> integer_result(std::string_view op, const std::vector<int64_t>& x, DType dtype = DType::kI64) {
  Graph graph;
  Builder b(graph);
  const Value y = b.op(op, integers(b, x, dtype));
  return try_evaluate(std::move(graph), y);
}

int64_t integer_of(std::string_view op, const std::vector<int64_t>& x, DType dtype = DType::kI64) {
  return integer_result(op, x, dtype).value().integer(0);
}

std::string refusal(const std::string& graph) {
  const Result<Graph> parsed = parse_graph(graph);
  return parsed.ok() ? "" : parsed.diagnostic().message;
}

TEST(Division, OfIntegersByZeroNamesTheDividend) {
  for (const char* op : {"floor_div", "trunc_div", "fmod", "remainder"}) {
    const Result<Tensor> result = integer_result(op, {7, 0});
    ASSERT_FALSE(result.ok()) << op;
    EXPECT_EQ(result.diagnostic().message, "integer division of 7 by zero");
  }
}

TEST(Division, OfTheSmallestIntegerByMinusOneWraps) {
  EXPECT_EQ(integer_of("floor_div", {kSmallest, -1}), kSmallest);
  EXPECT_EQ(integer_of("trunc_div", {kSmallest, -1}), kSmallest);
  EXPECT_EQ(integer_of("trunc_div", {-128, -1}, DType::kI8), -128);
  EXPECT_EQ(integer_of("fmod", {kSmallest, -1}), 0);
  EXPECT_EQ(integer_of("remainder", {kSmallest, -1}), 0);
}

TEST(Division, RestOfSpecialValues) {
  EXPECT_EQ(real_of("fmod", {-5, kInf}), -5);
  EXPECT_EQ(real_of("remainder", {-5, kInf}), kInf);
  EXPECT_EQ(real_of("remainder", {5, kInf}), 5);
  EXPECT_EQ(real_of("fmod", {1e300, 1e-310}), std::fmod(1e300, 1e-310));
  for (const char* op : {"fmod", "remainder"}) {
    EXPECT_TRUE(std::isnan(real_of(op, {kInf, 2}))) << op;
    EXPECT_TRUE(std::isnan(real_of(op, {2, 0}))) << op;
    EXPECT_TRUE(std::isnan(real_of(op, {std::nan(""), 1}))) << op;
    EXPECT_TRUE(std::signbit(real_of(op, {-0.0, 3}))) << op;
  }
}

TEST(Cast, OfAFloatThatFitsNoIntegerIsTheSmallestWrapped) {
  for (double x : {std::nan(""), kInf, -kInf, 1e19, -1e19}) {
    EXPECT_EQ(real_of("cast", {x}, {{"dtype", DType::kI64}}), -0x1p63) << x;
    EXPECT_EQ(real_of("cast", {x}, {{"dtype", DType::kI32}}), 0) << x;
    EXPECT_EQ(real_of("cast", {x}, {{"dtype", DType::kBool}}), 1) << x;
  }
  EXPECT_EQ(real_of("cast", {-1.5}, {{"dtype", DType::kU8}}), 255);
}

TEST(SpecialFunctions, AreExactInDouble) {
  EXPECT_DOUBLE_EQ(real_of("erfinv", {0.5}), 0.47693627620446987338);
  EXPECT_DOUBLE_EQ(real_of("erfinv", {-0.999999}), -3.4589107372754987775);
  EXPECT_DOUBLE_EQ(real_of("erfinv", {1e-12}), 8.8622692545275799582e-13);
  EXPECT_DOUBLE_EQ(real_of("digamma", {1}), -0.57721566490153286061);
  EXPECT_DOUBLE_EQ(real_of("digamma", {0.1}), -10.423754940411076232);
  EXPECT_DOUBLE_EQ(real_of("digamma", {-1.5}), 0.70315664064524318723);
  EXPECT_DOUBLE_EQ(real_of("trigamma", {1}), 1.6449340668482264365);
  EXPECT_DOUBLE_EQ(real_of("trigamma", {-1.5}), 9.3792466449891237539);
  EXPECT_EQ(real_of("trigamma", {-2}), kInf);
  EXPECT_EQ(real_of("trigamma", {kInf}), 0);
  EXPECT_DOUBLE_EQ(real_of("lgamma", {-1.5}), 0.86004701537648101451);
}

TEST(Activations, OfInfinity) {
  for (const char* approximate : {"none", "tanh"}) {
    EXPECT_EQ(real_of("gelu", {kInf}, {{"approximate", std::string(approximate)}}), kInf);
  }
}

// A threshold that is never reached must not let exp overflow.
TEST(Activations, SoftplusWithoutAThreshold) { EXPECT_EQ(real_of("softplus", {1000}, {{"threshold", 1e9}}), 1000); }

// The exponential of the branch that is not taken would overflow here.
TEST(Activations, SecondDerivativeOfEluIsFinite) {
  Graph graph = parse_graph("graph g(%x: f64[]) { %y = elu(%x) return %y }").value();
  const std::vector<ValueRef> x = graph.inputs();
  const Graph first = differentiate(graph, x).value();
  const Graph second = differentiate(first, std::vector{first.inputs()[0]}).value();
  const std::vector<Tensor> inputs(3, Tensor::scalar(DType::kF64, 1000.0));
  EXPECT_EQ(evaluate(second, inputs).value()[0].real(0), 0);
}

TEST(Activations, HalvesOfASymbolicSize) {
  const Graph graph = parse_graph("graph g(%x: f32[3, 2*N]) { %y = glu(%x) return %y }").value();
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "f32[3, N]");
  EXPECT_THAT(refusal("graph g(%x: f32[N]) { %y = glu(%x) return %y }"),
              HasSubstr("size N, which is not known to be even"));
}

TEST(Activations, OneWeightForEachOfSymbolicallyManyChannels) {
  Graph graph = parse_graph("graph g(%x: f32[B, C, 2], %w: f32[C]) { %y = prelu(%x, %w) return %y }").value();
  const Graph gradients = differentiate(graph, graph.inputs()).value();
  EXPECT_EQ(to_string(gradients.type(gradients.outputs()[1])), "f32[C]");
  EXPECT_THAT(refusal("graph g(%x: f32[B, 4], %w: f32[3]) { %y = prelu(%x, %w) return %y }"),
              HasSubstr("3 weights for 4 channels of x, f32[B, 4]"));
}

struct Refusal {
  const char* graph;
  const char* reason;
};

TEST(Elementwise, RefusesWithTheValues) {
  const Refusal refusals[] = {
      {"graph g(%x: i32[2]) { %y = round(%x) {decimals=1} return %y }",
       "integers (i32) round to 0 decimals only, got 1"},
      {"graph g(%x: f32[2]) { %y = bitcast(%x) {dtype=i64} return %y }", "f32 and i64 differ in width"},
      {"graph g(%x: u8[2]) { %y = bitcast(%x) {dtype=bool} return %y }", "the bits of u8 may not be a bool"},
      {"graph g(%x: f32[2]) { %y = clamp(%x, none, none) return %y }", "one of 'lo' and 'hi' must be given"},
      {"graph g(%x: f32[2], %m: bool[2], %v: f32[2]) { %y = masked_fill(%x, %m, %v) return %y }", "rank 0, got f32[2]"},
      {"graph g(%x: f32[2]) { %y = hardtanh(%x) {min_val=2.0} return %y }", "min_val 2 is above max_val 1"},
      {"graph g(%x: f32[2]) { %y = gelu(%x) {approximate=\"erf\"} return %y }", "\"none\" or \"tanh\", got \"erf\""},
      {"graph g(%x: f32[2]) { %y = celu(%x) {alpha=0.0} return %y }", "alpha must not be 0"},
      {"graph g(%x: f32[]) { %y = glu(%x) return %y }", "rank 0 cannot be halved"},
      {"graph g(%x: f32[2], %w: f32[1, 1]) { %y = prelu(%x, %w) return %y }", "rank 0 or 1, got f32[1, 1]"},
      {"graph g(%x: bool[2]) { %y = sub(%x, %x) return %y }", "operand 'x' has dtype bool"},
      {"graph g(%x: f32[2]) { %y = bitwise_not(%x) return %y }", "operand 'x' has dtype f32"},
  };
  for (const auto& [graph, reason] : refusals) EXPECT_THAT(refusal(graph), HasSubstr(reason)) << graph;
}

}  // namespace
}  // namespace tenon
