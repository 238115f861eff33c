// The cases that are exact on every backend. tests/python/test_loops_cases.py has the same in Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backends/backend.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "loops/schedule.h"
#include "named/tensor.h"
#include "tests/graph/support_values.h"

namespace tenon::test {
namespace {

using loops::LoopTree;
using loops::TreeRef;
using named::Symbol;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// The elements of a function of the position.
template <class Fn>
Tensor filled(Sizes shape, Fn fn, DType dtype = DType::kF32) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, static_cast<double>(fn(i)));
  return tensor;
}

Tensor vector_of(const std::vector<double>& values) {
  return filled({static_cast<int64_t>(values.size())}, [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

Tensor counted(Sizes shape) {
  return filled(std::move(shape), [](int64_t i) { return i; });
}

Tensor ones(Sizes shape) {
  return filled(std::move(shape), [](int64_t) { return 1; });
}

TreeRef loop_over(const LoopTree& tree, std::string_view node, std::string_view var, int64_t step = 1) {
  for (TreeRef loop : tree.path(tree.find(*tree.ir.node_named(node)))) {
    if (tree.ir.var(tree.loop(loop).var).name == var && tree.loop(loop).step == step) return loop;
  }
  ADD_FAILURE() << "no loop over " << var << " by " << step << " in\n" << tree.dump();
  return {};
}

loops::NodeRef reduction_of(const LoopTree& tree) {
  for (loops::NodeRef ref : tree.ir.order()) {
    if (tree.ir.node(ref).as<loops::Reduce>()) return ref;
  }
  return {};
}

class ExactCases : public testing::TestWithParam<std::string> {
 protected:
  Tensor run(const named::Tensor& tensor) const { return tensor.backend(GetParam()).data(); }
  std::vector<double> values(const named::Tensor& tensor) const { return values_of(run(tensor)); }

  Symbol m{"m"}, k{"k"}, n{"n"}, o{"o"};
};

// ---- schedules ------------------------------------------------------------------------------------------------------

class Matmul : public ExactCases {
 protected:
  Matmul() {
    const Tensor x = filled({16, 16}, [](int64_t i) { return 3 * i; });
    const Tensor y = filled({16, 16}, [](int64_t i) { return 100 - 2 * i; });
    c = (named::Tensor(x, {m, k}) * named::Tensor(y, {k, n})).sum(k);
    for (int64_t i = 0; i < 256; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 16; ++j) sum += x.real(i / 16 * 16 + j) * y.real(j * 16 + i % 16);
      expected.push_back(sum);
    }
  }

  LoopTree split_by_10() const {
    const LoopTree tree = c.loop_tree();
    const std::string fold = tree.ir.node(reduction_of(tree)).name;
    return split(tree, loop_over(tree, fold, "k"), 10).value();
  }

  named::Tensor c = named::Tensor(named::Symbols());
  std::vector<double> expected;
};

TEST_P(Matmul, Plain) { EXPECT_THAT(values(c), ElementsAreArray(expected)); }

TEST_P(Matmul, WithKSplitBy10) {
  const LoopTree tree = split_by_10();
  const LoopTree::Loop& outer = tree.loop(loop_over(tree, tree.ir.node(reduction_of(tree)).name, "k", 10));
  EXPECT_EQ(outer.size, Expr(1));
  EXPECT_EQ(outer.tail, Expr(6));
  EXPECT_THAT(values(c.set(tree)), ElementsAreArray(expected));
}

TEST_P(Matmul, WithKSplitBy10AndSwapped) {
  const LoopTree tree = split_by_10();
  const std::string fold = tree.ir.node(reduction_of(tree)).name;
  const LoopTree swapped = swap_loops(tree, loop_over(tree, fold, "k", 10), loop_over(tree, fold, "m")).value();
  EXPECT_EQ(swapped.depth(loop_over(swapped, fold, "k", 10)), 0);
  EXPECT_THAT(values(c.set(swapped)), ElementsAreArray(expected));
}

TEST_P(ExactCases, NegateUnderNestedSplits) {
  const Tensor x = filled({405}, [](int64_t i) { return i - 7; });
  const named::Tensor c = -named::Tensor(x, m);
  LoopTree tree = c.loop_tree();
  for (int64_t size : {39, 9, 2}) {
    const TreeRef innermost = tree.path(tree.find(tree.ir.order()[0])).back();
    tree = split(tree, innermost, size).value();
  }
  std::vector<std::pair<Expr, Expr>> shape;
  for (TreeRef loop : tree.path(tree.find(tree.ir.order()[0]))) {
    shape.emplace_back(tree.loop(loop).size, tree.loop(loop).tail);
  }
  using Pair = std::pair<Expr, Expr>;
  EXPECT_THAT(shape, ElementsAre(Pair(10, 15), Pair(4, 3), Pair(4, 1), Pair(2, 0)));
  std::vector<double> expected;
  for (int64_t i = 0; i < 405; ++i) expected.push_back(static_cast<double>(7 - i));
  EXPECT_THAT(values(c.set(tree)), ElementsAreArray(expected));
}

TEST_P(ExactCases, SumThroughSplitNode) {
  const named::Tensor c = named::Tensor(filled({256}, [](int64_t i) { return 3 * i; }), m).sum();
  const LoopTree whole = c.loop_tree();
  const loops::NodeRef fold = reduction_of(whole);
  const std::string name = whole.ir.node(fold).name;
  const LoopTree tree = split(whole, loop_over(whole, name, "m"), 10).value();
  const LoopTree parts = split_node(tree, fold, loop_over(tree, name, "m", 10)).value();
  EXPECT_GT(parts.ir.order().size(), tree.ir.order().size());
  EXPECT_THAT(values(c.set(parts)), ElementsAre(97920));
}

// ---- windows --------------------------------------------------------------------------------------------------------

TEST_P(ExactCases, StridedConvolutionInfersItsInput) {
  named::Tensor x(m), w(k);
  const named::Tensor c = (x[{2 * o + k}] * w).sum(k).with_sizes({{o, 8}});
  w.bind(ones({3}));
  EXPECT_EQ(c.size(m), Expr(17));
  x.bind(counted({17}));
  EXPECT_THAT(values(c), ElementsAre(3, 9, 15, 21, 27, 33, 39, 45));
}

TEST_P(ExactCases, StridedConvolutionInfersItsOutput) {
  for (int64_t size : {17, 18}) {
    const named::Tensor x(counted({size}), m), w(ones({3}), k);
    const named::Tensor c = (x[{2 * o + k}] * w).sum(k);
    EXPECT_EQ(c.shape(), Shape{8});
    EXPECT_THAT(values(c), ElementsAre(3, 9, 15, 21, 27, 33, 39, 45));
  }
}

TEST_P(ExactCases, SizesThatComeWithTheData) {
  const named::Tensor x(m), w(k);
  const named::Tensor c = (x.pad(m, 1, 1)[{2 * o + k}] * w).sum(k);
  c.backend(GetParam());
  EXPECT_THAT(values_of(c.data({{x, counted({5})}, {w, ones({3})}})), ElementsAre(1, 6, 7));
  EXPECT_THAT(values_of(c.data({{x, counted({6})}, {w, ones({2})}})), ElementsAre(0, 3, 7, 5));
}

TEST_P(ExactCases, Dilation) {
  const named::Tensor x(counted({9}), m), w(ones({3}), k);
  EXPECT_THAT(values((x[{o + 2 * k}] * w).sum(k)), ElementsAre(6, 9, 12, 15, 18));
}

TEST_P(ExactCases, PaddedConvolution) {
  const named::Tensor x(ones({5}), m), w(ones({3}), k);
  EXPECT_THAT(values((x.pad(m, 1, 1)[{o + k}] * w).sum(k)), ElementsAre(2, 3, 3, 3, 2));
  const named::Tensor same = (x.at({o + k - 1}) * w).sum(k).with_sizes({{o, 5}});
  EXPECT_THAT(values(same), ElementsAre(2, 3, 3, 3, 2));
}

TEST_P(ExactCases, Convolution2d) {
  const Tensor input = filled({4, 64, 8, 8}, [](int64_t i) { return i * 37 % 17 - 8; });
  const Tensor weight = filled({64, 64, 3, 3}, [](int64_t i) { return i * 29 % 13 - 6; });
  const Symbol b("b"), c("c"), h("h"), w("w"), kh("kh"), kw("kw"), y("y"), x("x");
  const named::Tensor padded = named::Tensor(input, {b, c, h, w}).pad(h, 1, 1).pad(w, 1, 1);
  const named::Tensor windows = padded[{b, c, y + kh, x + kw}];
  const named::Tensor out = (windows * named::Tensor(weight, {m, c, kh, kw})).sum({c, kh, kw}).transpose({b, m, y, x});

  Graph graph("conv");
  Builder builder(graph);
  const Value image = builder.value(graph.add_input("x", type_of(input)));
  const Value kernel = builder.value(graph.add_input("w", type_of(weight)));
  const std::vector<int64_t> padding = {1, 1};
  graph.set_outputs({builder.op("conv", {image, kernel, Value()}, {{"padding", padding}}).ref()});
  const Tensor expected = evaluate(graph, std::vector{input, weight}).value()[0];
  EXPECT_THAT(values(out), ElementsAreArray(values_of(expected)));
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

TEST_P(ExactCases, Pad2d) {
  const named::Tensor x(filled({2, 2}, [](int64_t i) { return i + 1; }), {m, n});
  const Tensor padded = run(x.pad(m, 1, 1).pad(n, 1, 1));
  EXPECT_EQ(padded.shape(), (Sizes{4, 4}));
  EXPECT_THAT(values_of(padded), ElementsAre(0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0));
}

TEST_P(ExactCases, ConcatOfThree) {
  const named::Tensor a(vector_of({1, 2}), m), b(vector_of({3, 4}), m), c(vector_of({5, 6}), m);
  EXPECT_THAT(values(concat({a, b, c}, m)), ElementsAre(1, 2, 3, 4, 5, 6));
  const named::Tensor longer(vector_of({3, 4, 5}), n);
  EXPECT_THAT(values(named::concat({{a, m}, {longer, n}, {c, m}}, o)), ElementsAre(1, 2, 3, 4, 5, 5, 6));
}

TEST_P(ExactCases, TransposedFlatten) {
  const named::Tensor x(counted({2, 3}), {m, n});
  EXPECT_THAT(values(x.flatten({n, m}, o)), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(values(x.transpose({n, m})), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_P(ExactCases, RowMajorThenColumnMajorFlatten) {
  const named::Tensor x(counted({8, 8}), {m, n});
  std::vector<int> rows(64), columns;
  std::iota(rows.begin(), rows.end(), 0);
  for (int i = 0; i < 64; ++i) columns.push_back(i % 8 * 8 + i / 8);
  EXPECT_THAT(values(x.flatten({m, n}, o)), ElementsAreArray(rows));
  EXPECT_THAT(values(x.flatten({n, m}, o)), ElementsAreArray(columns));
}

TEST_P(ExactCases, SliceReverseAndSplitDim) {
  const named::Tensor x(counted({6}), m);
  EXPECT_THAT(values(x[{o + 2}].with_sizes({{o, 3}})), ElementsAre(2, 3, 4));
  EXPECT_THAT(values(x[{3 * o + 1}]), ElementsAre(1, 4));
  EXPECT_THAT(values(x[{x.size(m) - 1 - o}]), ElementsAre(5, 4, 3, 2, 1, 0));
  const Tensor split = run(x.split(m, {n, k}, 2).transpose({k, n}));
  EXPECT_EQ(split.shape(), (Sizes{2, 3}));
  EXPECT_THAT(values_of(split), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST_P(ExactCases, Gather) {
  const named::Tensor x(counted({4, 2}), {m, n});
  Tensor indices = Tensor::zeros(DType::kI64, {3});
  for (int64_t i : {0, 1, 2}) indices.set_integer(i, 3 - i);
  EXPECT_THAT(values(x[{named::Tensor(indices, o), n}]), ElementsAre(6, 7, 4, 5, 2, 3));
}

// ---- values ---------------------------------------------------------------------------------------------------------

TEST_P(ExactCases, ExpOfPad) {
  const named::Tensor x(vector_of({1, 2}), m);
  EXPECT_TRUE(close(run(exp(x.pad(m, 1, 1))), vector_of({1, std::exp(1.0), std::exp(2.0), 1})));
}

TEST_P(ExactCases, ArithmeticOnAPaddedView) {
  const named::Tensor padded = named::Tensor(vector_of({1, 2}), m).pad(m, 1, 1);
  EXPECT_THAT(values(5 * padded), ElementsAre(0, 5, 10, 0));
  EXPECT_THAT(values(padded * padded), ElementsAre(0, 1, 4, 0));
}

TEST_P(ExactCases, EqualLookingGraphsAreTold) {
  const named::Tensor a(vector_of({1, 2}), m), b(vector_of({10, 20}), m), x(vector_of({100, 200}), m);
  EXPECT_THAT(values(a + b), ElementsAre(11, 22));
  EXPECT_THAT(values(x + x), ElementsAre(200, 400));
  EXPECT_THAT(values(b + x), ElementsAre(110, 220));
}

TEST_P(ExactCases, AbsAndLog) {
  const named::Tensor x(vector_of({-.5, -1.5, -2.5}), m);
  EXPECT_THAT(values(abs(x)), ElementsAre(.5, 1.5, 2.5));
  EXPECT_TRUE(close(run(log(abs(x))), vector_of({std::log(.5), std::log(1.5), std::log(2.5)})));
}

TEST_P(ExactCases, Softmax) {
  const named::Tensor x(counted({4}), m);
  const named::Tensor e = exp(x - x.max());
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += std::exp(i - 3);
  EXPECT_TRUE(close(run(e / e.sum()), filled({4}, [&](int64_t i) { return std::exp(i - 3) / sum; })));
}

// An f32 counts only to 2^24.
TEST_P(ExactCases, LongDimensionStaysExact) {
  constexpr int64_t kSize = (int64_t{1} << 24) + 3;
  const named::Tensor counts = index(m).with_sizes({{m, kSize}});
  EXPECT_EQ(run(counts.sum()).integer(0), kSize * (kSize - 1) / 2);
  Tensor x = Tensor::zeros(DType::kI32, {kSize});
  for (int64_t i = 0; i < kSize; ++i) x.set_integer(i, i);
  const Tensor last = run(named::Tensor(x, n)[{(1 << 22) * o + 2}]);
  EXPECT_THAT(values_of(last), ElementsAre(2, (1 << 22) + 2, (1 << 23) + 2, 3 * (1 << 22) + 2, (1 << 24) + 2));
}

TEST_P(ExactCases, TwoSizesOfOneSymbol) {
  const named::Tensor a(vector_of({1, 2, 3}), m), b(counted({4, 2}), {m, n});
  try {
    run(a + b);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("m has the size 3 from dimension 0 of the data f32[3] over [m], and the size 4 "
                                        "from dimension 0 of the data f32[4, 2] over [m, n]"));
  }
}

// Those that run on a CPU. A look for other hardware would start threads before the tests of threads.
std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (const auto& backend : backends()) {
    if (backend->hardware_requirement() == kCpu && backend->is_available()) names.push_back(backend->name());
  }
  return names;
}

const auto kBackendName = [](const testing::TestParamInfo<std::string>& info) { return info.param; };
INSTANTIATE_TEST_SUITE_P(Backends, ExactCases, testing::ValuesIn(available_backends()), kBackendName);
INSTANTIATE_TEST_SUITE_P(Backends, Matmul, testing::ValuesIn(available_backends()), kBackendName);

}  // namespace
}  // namespace tenon::test
