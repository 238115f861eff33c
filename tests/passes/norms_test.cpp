#include <gtest/gtest.h>

#include <algorithm>

#include "graph/evaluate.h"
#include "passes/passes.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

constexpr std::string_view kModel = R"(graph g(%x: f32[2, 4, 5, 5]) {
  %w: f32[6, 2, 3, 3] = parameter "w"
  %b: f32[6] = parameter "b"
  %gamma: f32[6] = parameter "gamma"
  %beta: f32[6] = parameter "beta"
  %mean: f32[6] = buffer "mean"
  %var: f32[6] = buffer "var"
  %h: f32[2, 6, 5, 5] = conv(%x, %w, %b) {padding=[1, 1], groups=2}
  %y: f32[2, 6, 5, 5] = batch_norm_inference(%h, %gamma, %beta, %mean, %var) {eps=0.1}
  %out: f32[2, 6, 5, 5] = relu(%y)
  return %out
}
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kModel);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

bool has_norm(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return node.op->name.get() == "batch_norm_inference"; });
}

Graph folded(std::string_view text) { return fold_norms(parse_graph(text).value()); }

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.numel(), expected.numel());
  for (int64_t i = 0; i < expected.numel(); ++i) EXPECT_NEAR(actual.real(i), expected.real(i), 1e-4) << "at " << i;
}

void expect_same_results(std::string_view text) {
  Graph graph = parse_graph(text).value();
  test::Random random(1);
  for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
    if (leaf.kind == LeafKind::kInput) continue;
    graph.bind(leaf.name, test::random_tensor(graph.type(leaf.value), {}, {0.1, 2}, random));
  }
  const std::vector<Tensor> inputs = {test::random_tensor(graph.type(graph.inputs()[0]), {}, {-2, 2}, random)};
  const Graph rewritten = fold_norms(graph);
  EXPECT_FALSE(has_norm(rewritten));
  expect_close(evaluate(rewritten, inputs).value()[0], evaluate(graph, inputs).value()[0]);
}

TEST(FoldNorms, ScalesTheWeightsOfAConvolution) {
  EXPECT_EQ(to_string(run_passes(folded(kModel), std::vector<std::string>{"canonicalize", "dce"}).value()),
            R"(graph g(%x: f32[2, 4, 5, 5]) {
  %w: f32[6, 2, 3, 3] = parameter "w"
  %b: f32[6] = parameter "b"
  %gamma: f32[6] = parameter "gamma"
  %beta: f32[6] = parameter "beta"
  %mean: f32[6] = buffer "mean"
  %var: f32[6] = buffer "var"
  %0: f32[] = constant 0.1
  %1: f32[6] = add(%var, %0)
  %2: f32[6] = rsqrt(%1)
  %3: f32[6] = mul(%2, %gamma)
  %4: f32[6] = sub(%b, %mean)
  %5: f32[6] = mul(%4, %3)
  %6: f32[6] = add(%5, %beta)
  %7: f32[6, 1, 1, 1] = reshape(%3) {shape=[6, 1, 1, 1]}
  %8: f32[6, 2, 3, 3] = mul(%w, %7)
  %y: f32[2, 6, 5, 5] = conv(%x, %8, %6) {padding=[1, 1], groups=2}
  %out: f32[2, 6, 5, 5] = relu(%y)
  return %out
}
)");
}

TEST(FoldNorms, KeepsTheResults) {
  expect_same_results(kModel);
  expect_same_results(with("%w, %b)", "%w, none)"));
  expect_same_results(with("%gamma, %beta,", "none, none,"));
  expect_same_results(with("%gamma, %beta,", "none, %beta,"));
}

TEST(FoldNorms, LeavesWhatItCannotScale) {
  EXPECT_TRUE(has_norm(folded(with("return %out", "return %out, %h")))) << "others need the convolution";
  EXPECT_TRUE(has_norm(folded(with("%out: f32[2, 6, 5, 5] = relu(%y)", "%out: f32[2, 6, 5, 5] = add(%y, %h)"))));
  EXPECT_TRUE(has_norm(folded(with("return %out\n", "update %mean = %beta\n  return %out\n"))));
  EXPECT_TRUE(has_norm(folded(R"(graph g(%x: f32[2, 4, 5], %w: f32[6, 4, 3]) {
  %mean: f32[6] = buffer "mean"
  %var: f32[6] = buffer "var"
  %h: f32[2, 6, 3] = conv(%x, %w, none)
  %out: f32[2, 6, 3] = batch_norm_inference(%h, none, none, %mean, %var)
  return %out
}
)"))) << "weights that are not known";
  EXPECT_TRUE(has_norm(folded(R"(graph g(%x: f32[2, 4, 5]) {
  %w: f32[4, 6, 3] = parameter "w"
  %mean: f32[6] = buffer "mean"
  %var: f32[6] = buffer "var"
  %h: f32[2, 6, 7] = conv(%x, %w, none) {transposed=true}
  %out: f32[2, 6, 7] = batch_norm_inference(%h, none, none, %mean, %var)
  return %out
}
)"))) << "of a transposed convolution, channels are another dimension of the weights";
}

TEST(FoldNorms, LeavesNarrowWeights) {
  std::string text(kModel);
  for (size_t at = text.find("f32"); at != std::string::npos; at = text.find("f32")) text.replace(at, 3, "f16");
  EXPECT_TRUE(has_norm(folded(text))) << "their products would be rounded";
}

}  // namespace
}  // namespace tenon
