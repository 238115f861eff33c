#include "loops/work.h"

#include <gtest/gtest.h>

#include "graph/graph.h"
#include "loops/lower.h"
#include "tests/loops/support_kernels.h"

namespace tenon::loops {
namespace {

using namespace testing;

TEST(Work, OfAMatmul) {
  const LoopTree tree(matmul(4, 5, 6));
  EXPECT_EQ(flops(tree), Expr(2 * 4 * 5 * 6));
  EXPECT_EQ(bytes(tree), Expr(4 * (4 * 5 + 5 * 6 + 4 * 6)));
}

LoopTree tree_of(std::string_view text) { return LoopTree(initial_schedule(lower(parse_graph(text).value()).value())); }

// How many elements of an input the results depend on: each is changed in turn.
int64_t elements_that_matter(const LoopTree& tree, std::vector<Tensor> inputs, size_t input) {
  const std::vector<double> before = elements(run_on("interpreter", tree, inputs)[0]);
  int64_t count = 0;
  for (int64_t i = 0; i < inputs[input].numel(); ++i) {
    const Tensor original = inputs[input];
    inputs[input] = original.copy();
    inputs[input].set_real(i, original.real(i) + 1000);
    count += elements(run_on("interpreter", tree, inputs)[0]) != before;
    inputs[input] = original;
  }
  return count;
}

Tensor floats(Sizes shape) {
  return filled(DType::kF32, std::move(shape), [](int64_t i) { return i + 1; });
}
Tensor indices(Sizes shape, std::vector<int64_t> values) {
  return filled(DType::kI64, std::move(shape), [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

constexpr int64_t kFloat = 4, kIndex = 8;

// The claim for a kernel with one input of floats, which is its first, and these bytes of everything else.
void expect_honest(const LoopTree& tree, const std::vector<Tensor>& inputs, int64_t other_bytes) {
  EXPECT_EQ(bytes(tree), Expr(elements_that_matter(tree, inputs, 0) * kFloat + other_bytes)) << tree.dump();
}

TEST(Work, OfAGatherIsTheRowsThatItTakes) {
  const LoopTree tree = tree_of(R"(graph g(%table: f32[50, 6], %i: i64[3]) {
  %y: f32[3, 6] = embedding(%table, %i)
  return %y
}
)");
  expect_honest(tree, {floats({50, 6}), indices({3}, {7, 0, 49})}, 3 * kIndex + 3 * 6 * kFloat);
}

TEST(Work, OfAGatherIsAtMostTheTable) {
  const LoopTree tree = tree_of(R"(graph g(%table: f32[2, 4], %i: i64[5]) {
  %y: f32[5, 4] = index_select(%table, %i)
  return %y
}
)");
  expect_honest(tree, {floats({2, 4}), indices({5}, {0, 1, 1, 0, 1})}, 5 * kIndex + 5 * 4 * kFloat);
}

TEST(Work, OfAGatherOfElementsIsOneForEachIndex) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[4, 30], %i: i64[4, 2]) {
  %y: f32[4, 2] = gather(%x, %i) {dim=1}
  return %y
}
)");
  expect_honest(tree, {floats({4, 30}), indices({4, 2}, {0, 29, 3, 4, 5, 6, 7, 8})}, 8 * kIndex + 8 * kFloat);
}

TEST(Work, OfASliceIsWhatItTakes) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[100, 3]) {
  %s: f32[5, 3] = slice(%x) {dim=0, start=10, end=20, step=2}
  %y: f32[5, 3] = neg(%s)
  return %y
}
)");
  expect_honest(tree, {floats({100, 3})}, 5 * 3 * kFloat);
}

TEST(Work, OfADiagonalIsOneForEachRow) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[6, 6]) {
  %y: f32[6] = diagonal(%x)
  return %y
}
)");
  expect_honest(tree, {floats({6, 6})}, 6 * kFloat);
}

TEST(Work, OfAnExpandIsWhatIsThereOnce) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[1, 3]) {
  %s: f32[40, 3] = expand(%x) {shape=[40, 3]}
  %y: f32[40, 3] = neg(%s)
  return %y
}
)");
  expect_honest(tree, {floats({1, 3})}, 40 * 3 * kFloat);
}

TEST(Work, OfAScatterIsAllThatItCopiesAndAdds) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[9], %i: i64[2], %src: f32[2]) {
  %y: f32[9] = scatter(%x, %i, %src) {dim=0, reduce="add"}
  return %y
}
)");
  const int64_t others = 2 * kIndex + 2 * kFloat + 9 * kFloat;
  expect_honest(tree, {floats({9}), indices({2}, {3, 4}), floats({2})}, others);
}

TEST(Work, OfPiecesIsTheirSumAndAtMostTheWhole) {
  const LoopTree tree = tree_of(R"(graph g(%x: f32[10]) {
  %a: f32[3] = slice(%x) {start=0, end=3}
  %b: f32[4] = slice(%x) {start=6, end=10}
  %y: f32[7] = concat(%a, %b)
  return %y
}
)");
  expect_honest(tree, {floats({10})}, 7 * kFloat);
}

TEST(Work, OfSymbolicSizesIsAnExpression) {
  const LoopTree tree = tree_of(R"(graph g(%table: f32[50, 6], %i: i64[N]) {
  %y: f32[N, 6] = embedding(%table, %i)
  return %y
}
)");
  for (const int64_t n : {3, 80}) {
    const int64_t rows = std::min<int64_t>(n, 50);
    EXPECT_EQ(symbolic::evaluate(bytes(tree), {{Symbol("N"), n}}), rows * 6 * kFloat + n * kIndex + n * 6 * kFloat);
  }
}

}  // namespace
}  // namespace tenon::loops
