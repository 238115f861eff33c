// What PyTorch cannot judge of contractions, convolution and attention: NaN and infinities, symbolic types, refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autodiff/differentiate.h"
#include "graph/evaluate.h"
#include "graph/graph.h"
#include "passes/passes.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using Numbers = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor tensor_of(Sizes shape, const Numbers& values) {
  Tensor tensor = Tensor::zeros(DType::kF64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Numbers run(std::string_view text, const std::vector<Tensor>& inputs) {
  return test::values_of(evaluate(parse_graph(text).value(), inputs).value()[0]);
}

std::string refusal(std::string_view text) {
  const Result<Graph> parsed = parse_graph(text);
  return parsed.ok() ? "" : parsed.diagnostic().message;
}

std::string result_type(std::string_view text) {
  const Graph graph = parse_graph(text).value();
  return to_string(graph.type(graph.outputs()[0]));
}

TEST(Contract, InfinityTimesZeroIsNan) {
  const char* text = "graph g(%a: f64[2], %b: f64[2]) { %y = contract(%a, %b) {spec=\"k,k->\"} return %y }";
  EXPECT_EQ(run(text, {tensor_of({2}, {kInf, 1}), tensor_of({2}, {1, 1})}), Numbers{kInf});
  EXPECT_TRUE(std::isnan(run(text, {tensor_of({2}, {kInf, 1}), tensor_of({2}, {0, 1})})[0]));
}

TEST(Contract, SpecsAreChecked) {
  const auto with_spec = [](std::string_view spec) {
    return refusal(fmt::format(
        "graph g(%a: f32[2, 3], %b: f32[3, 4]) {{ %y = contract(%a, %b) {{spec=\"{}\"}} return %y }}", spec));
  };
  EXPECT_EQ(with_spec("ik,kj->ij"), "");
  EXPECT_EQ(with_spec("ik,kj"), "contract: spec \"ik,kj\" must look like \"ik,kj->ij\"");
  EXPECT_EQ(with_spec("ik,k1->i"), "contract: '1' in spec \"ik,k1->i\" is not a letter");
  EXPECT_EQ(with_spec("ii,kj->ij"), "contract: 'i' appears twice in \"ii\" of spec \"ii,kj->ij\"");
  EXPECT_EQ(with_spec("ik,j->ij"), "contract: \"j\" does not name the dimensions of f32[3, 4]");
  EXPECT_EQ(with_spec("ik,ij->j"), "contract: 'i' stands for size 2 and for size 3");
  EXPECT_EQ(with_spec("ik,kj->ix"), "contract: 'x' of the result is a dimension of neither operand");
}

TEST(Matmul, AStretchedBatchIsNotCopied) {
  const Graph graph = decompose(
      parse_graph("graph g(%a: f32[B, 1, 2, 3], %b: f32[4, 3, 5]) { %y = matmul(%a, %b) return %y }").value());
  EXPECT_EQ(to_string(graph.type(graph.outputs()[0])), "f32[B, 4, 2, 5]");
  for (const Node& node : graph.nodes()) EXPECT_NE(node.op->name.get(), "expand");
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal("graph g(%a: f32[2, 3], %b: f32[4, 5]) { %y = matmul(%a, %b) return %y }"),
            "matmul: cannot multiply f32[2, 3] by f32[4, 5]: inner sizes 3 and 4 differ");
  EXPECT_EQ(refusal("graph g(%a: f32[], %b: f32[4]) { %y = matmul(%a, %b) return %y }"),
            "matmul: operands need at least one dimension, got f32[]");
  EXPECT_EQ(refusal("graph g(%a: f32[4], %b: f64[4]) { %y = matmul(%a, %b) return %y }"),
            "matmul: operands must have one dtype, got f32[4] and f64[4]");
}

TEST(Addmm, BetaZeroDoesNotReadTheInput) {
  const char* text = "graph g(%x: f64[1], %a: f64[1, 1], %b: f64[1, 1]) { %y = addmm(%x, %a, %b) {beta=0} return %y }";
  EXPECT_EQ(run(text, {tensor_of({1}, {kInf}), tensor_of({1, 1}, {2}), tensor_of({1, 1}, {3})}), Numbers{6});
}

TEST(Conv, SymbolicSizes) {
  EXPECT_EQ(result_type("graph g(%x: f32[N, 3, H, 32], %w: f32[8, 3, 3, 3]) {"
                        " %y = conv(%x, %w, none) {stride=[2], padding=[1]} return %y }"),
            "f32[N, 8, (H + 1) // 2, 16]");
  EXPECT_EQ(result_type("graph g(%x: f32[N, 4, L], %w: f32[4, 2, 4]) {"
                        " %y = conv(%x, %w, none) {stride=[2], padding=[1], transposed=true, groups=2} return %y }"),
            "f32[N, 4, 2*L]");
}

// Each gradient has exactly the type of its operand, whatever the symbols are.
TEST(Conv, GradientsOfSymbolicSizes) {
  const Graph graph = parse_graph(
                          "graph g(%x: f32[N, 4, L], %w: f32[6, 2, K], %b: f32[6]) {"
                          " %y = conv(%x, %w, %b) {stride=[3], padding=[1], dilation=[2], groups=2} return %y }")
                          .value();
  const Graph gradients = differentiate(graph, graph.inputs()).value();
  ASSERT_TRUE(verify(gradients).ok());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(gradients.type(gradients.outputs()[i]), graph.type(graph.inputs()[i]));
  }
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const auto conv = [](std::string_view x, std::string_view weight, std::string_view attrs) {
    return refusal(
        fmt::format("graph g(%x: {}, %w: {}) {{ %y = conv(%x, %w, none) {{{}}} return %y }}", x, weight, attrs));
  };
  EXPECT_EQ(conv("f32[1, 3, 8]", "f32[4, 2, 3]", "groups=1"),
            "conv: x f32[1, 3, 8] has 3 channels, but the weight f32[4, 2, 3] with 1 groups takes 2");
  EXPECT_EQ(conv("f32[1, 4, 8]", "f32[3, 2, 3]", "groups=2"), "conv: 3 channels do not divide into 2 groups");
  EXPECT_EQ(conv("f32[1, 2, 2]", "f32[3, 2, 3]", "dilation=[2], padding=[1]"),
            "conv: spatial dimension 0 of size 2 with padding 1 is too small for a kernel that spans 5");
  EXPECT_EQ(conv("f32[1, 2, 8]", "f32[3, 2, 3]", "stride=[0]"), "conv: stride must be at least 1, got 0");
  EXPECT_EQ(conv("f32[1, 2, 8]", "f32[3, 2, 3]", "padding=[1, 1]"),
            "conv: padding has 2 numbers for 1 spatial dimensions");
  EXPECT_EQ(conv("f32[2, 8]", "f32[3, 2, 3]", "groups=1"),
            "conv: x must be [N, C, spatial...] with one to three spatial dimensions, got f32[2, 8]");
}

// A row that attends to nothing is zero and has no gradient, whether a bool mask or infinities say so.
TEST(Attention, OfAMaskedRow) {
  const char* text =
      "graph g(%q: f64[2, 1], %k: f64[2, 1], %v: f64[2, 1], %m: f64[2, 2]) {"
      " %y = scaled_dot_product_attention(%q, %k, %v, %m) return %y }";
  const Graph graph = parse_graph(text).value();
  const std::vector<Tensor> inputs = {tensor_of({2, 1}, {1, 2}), tensor_of({2, 1}, {3, 4}), tensor_of({2, 1}, {5, 6}),
                                      tensor_of({2, 2}, {-kInf, -kInf, 0, -kInf})};
  EXPECT_EQ(test::values_of(evaluate(graph, inputs).value()[0]), (Numbers{0, 5}));
  const Graph gradients = differentiate(graph, graph.inputs()).value();
  std::vector<Tensor> arguments = inputs;
  arguments.push_back(tensor_of({2, 1}, {1, 1}));
  const std::vector<Tensor> results = evaluate(gradients, arguments).value();
  EXPECT_EQ(test::values_of(results[0]), (Numbers{0, 0}));
  EXPECT_EQ(test::values_of(results[2]), (Numbers{1, 0}));
}

TEST(Attention, SymbolicSizes) {
  EXPECT_EQ(
      result_type("graph g(%q: f16[B, 8, L, E], %k: f16[B, 2, S, E], %v: f16[B, 2, S, D]) {"
                  " %y = scaled_dot_product_attention(%q, %k, %v, none) {causal=true, enable_gqa=true} return %y }"),
      "f16[B, 8, L, D]");
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const auto attention = [](std::string_view key, std::string_view mask, std::string_view attrs) {
    return refusal(
        fmt::format("graph g(%q: f32[4, 2, 3], %k: {0}, %m: {1}) {{"
                    " %y = scaled_dot_product_attention(%q, %k, %k, %m) {{{2}}} return %y }}",
                    key, mask, attrs));
  };
  const std::string name = "scaled_dot_product_attention: ";
  EXPECT_EQ(attention("f32[4, 5, 3]", "bool[2, 5]", "causal=true"), name + "a mask and causal cannot both be given");
  EXPECT_EQ(attention("f32[4, 5, 3]", "i32[2, 5]", "causal=false").substr(0, name.size() + 14),
            name + "operand 'mask'");
  EXPECT_EQ(attention("f32[4, 5, 2]", "bool[2, 5]", "causal=false"),
            name + "query f32[4, 2, 3] and key f32[4, 5, 2] differ in features");
  EXPECT_EQ(attention("f32[3, 5, 3]", "bool[2, 5]", "enable_gqa=true"),
            name + "4 query heads do not divide among 3 key heads");
  EXPECT_EQ(attention("f32[4, 5, 3]", "bool[3, 5]", "causal=false").substr(0, name.size() + 16),
            name + "cannot broadcast");
}

}  // namespace
}  // namespace tenon
