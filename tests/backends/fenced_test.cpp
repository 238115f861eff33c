// Kernels whose accesses are close to the ends of their arrays, between fences: see support_fenced.h.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <cmath>
#include <limits>

#include "backends/bound.h"
#include "tests/backends/support_fenced.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using namespace loops;
using namespace loops::testing;

Tensor counted(DType dtype, Sizes shape) {
  return filled(dtype, std::move(shape), [](int64_t i) { return i % 100 + 1; });
}

// On the fenced backend, and what the interpreter says.
void expect_right(const LoopTree& tree, const std::vector<Tensor>& inputs, const symbolic::Bindings& sizes = {}) {
  SCOPED_TRACE(tree.dump());
  const auto backend = test::fenced_cpu();
  const auto interpreter = find_backend("interpreter").value();
  const auto got = run(*backend->compile(tree).value(), tree.ir, inputs, sizes);
  const auto wanted = run(*interpreter->compile(tree).value(), tree.ir, inputs, sizes);
  ASSERT_EQ(got.ok(), wanted.ok()) << (got.ok() ? wanted : got).diagnostic().text();
  if (!wanted.ok()) return;
  for (size_t i = 0; i < wanted->size(); ++i) EXPECT_EQ(elements((*got)[i]), elements((*wanted)[i])) << "output " << i;
}

LoopTree tree_of(std::string_view text) { return LoopTree(parse(text).value()); }

// The fences are there: a size that the kernel was promised not to get takes it past the end, or before the start.
TEST(Fenced, WhatGoesOutOfBoundsFails) {
  for (const char* index : {"i", "N - 1 - i"}) {
    const LoopTree tree = tree_of(fmt::format(R"(tenon loops 1
kernel k {{
  symbol N in [10, 20]
  var i = 10
  var r = N
  %x: f32[r] = read 0
  %y: f32[i] = view %x[{}] for i vectorize
  %out: f32[i] = write 0 (%y) for i vectorize
}}
)",
                                              index));
    const auto kernel = test::fenced_cpu()->compile(tree).value();
    const Tensor x = counted(DType::kF32, {4}), y = Tensor::zeros(DType::kF32, {10});
    ::testing::TestPartResultArray failures;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
      kernel->run(std::vector<void*>{x.data(), y.data()}, std::vector<int64_t>{4});
    }
    ASSERT_EQ(failures.size(), 1);
    EXPECT_THAT(failures.GetTestPartResult(0).message(), HasSubstr("of %x, 16 bytes"));
  }
}

// Lanes beyond a tail have indices of 0 and divisors of 0, and fail nowhere; those of the tail do.
TEST(Fenced, OnlyLanesThatAreThereFail) {
  for (const int64_t count : {1, 5, 16, 21}) {
    const LoopTree tree = tree_of(fmt::format(R"(tenon loops 1
kernel k {{
  symbol N in [0, 8]
  var i = {}
  var r = N
  %x: i64[r] = read 0
  %at: i64[i] = read 1
  %y: i64[i] = view %x[a] with a = %at in N for i vectorize
  %q: i64[i] = floor_div(%y, %at) for i vectorize
  %out: i64[i] = write 0 (%q) for i vectorize
}}
)",
                                              count));
    const Tensor at = filled(DType::kI64, {count}, [](int64_t) { return 3; });
    expect_right(tree, {counted(DType::kI64, {5}), at});
    expect_right(tree, {counted(DType::kI64, {0}), at});
    for (const int64_t bad : {-1, 0, 5}) {
      Tensor wrong = at.copy();
      wrong.set_integer(count - 1, bad);
      expect_right(tree, {counted(DType::kI64, {5}), wrong});
    }
  }
}

// NaN wins from any lane, and beyond a tail there is none.
TEST(Fenced, FoldsOfMaximaSeeNaNInEachPlace) {
  for (const int64_t count : {1, 7, 16, 37, 150}) {
    for (const char* op : {"maximum", "minimum"}) {
      const LoopTree tree = tree_of(fmt::format(R"(tenon loops 1
kernel k {{
  var i = {}
  %x: f32[i] = read 0
  %m: f32[] = reduce {}(%x) for i vectorize
  %out: f32[] = write 0 (%m)
}}
)",
                                                count, op));
      const auto kernel = test::fenced_cpu()->compile(tree).value();
      const double far = op == std::string_view("maximum") ? -7 : 7;
      Tensor x = filled(DType::kF32, {count}, [&](int64_t) { return far; });
      EXPECT_EQ(elements(run(*kernel, tree.ir, {{x}}).value()[0])[0], far);
      for (int64_t place = 0; place < count; ++place) {
        x.set_real(place, std::numeric_limits<double>::quiet_NaN());
        EXPECT_TRUE(std::isnan(elements(run(*kernel, tree.ir, {{x}}).value()[0])[0])) << op << " " << place;
        x.set_real(place, far);
      }
    }
  }
}

// A variable whose size is below 0 has no elements.
TEST(Fenced, AFoldOfNothingReadsNothing) {
  const LoopTree tree = tree_of(R"(tenon loops 1
kernel k {
  symbol N in [0, 64]
  var i = N
  var k = N - 3
  %x: f32[i] = read 0
  %v: f32[k] = view %x[k + 3] for k vectorize
  %m: f32[] = reduce maximum(%v) for k vectorize
  %out: f32[] = write 0 (%m)
}
)");
  for (const int64_t n : {0, 1, 2, 3, 4, 40}) expect_right(tree, {counted(DType::kF32, {n})});
}

// Nor does it need memory, and nothing lies within a bound below 0.
TEST(Fenced, SizesBelowNothingAreNothing) {
  const LoopTree kept = tree_of(R"(tenon loops 1
kernel k {
  symbol N in [0, 64]
  var i = N
  var k = N - 3
  %x: f32[i] = read 0
  %v: f32[k] = view %x[k + 3] for k vectorize
  %y: f32[k] = neg(%v) for new k vectorize
  %m: f32[] = reduce maximum(%y) for new k vectorize
  %out: f32[] = write 0 (%m)
}
)");
  const LoopTree guarded = tree_of(R"(tenon loops 1
kernel k {
  symbol N in [0, 64]
  var i = N
  var j = 8
  %x: f32[i] = read 0
  %y: f32[j] = view %x[j] where j in N and j in N - 3 else 2.0 for j vectorize
  %out: f32[j] = write 0 (%y) for j vectorize
}
)");
  const LoopTree looked_up = tree_of(R"(tenon loops 1
kernel k {
  symbol N in [0, 64]
  var i = N
  var k = N - 3
  var j = 8
  %x: f32[i] = read 0
  %at: i64[j] = read 1
  %v: f32[k] = view %x[k + 3] for k
  %y: f32[j] = view %v[a] with a = %at in N - 3 for j vectorize
  %out: f32[j] = write 0 (%y) for j vectorize
}
)");
  const LoopTree squared = tree_of(R"(tenon loops 1
kernel k {
  symbol N in [0, 64]
  var i = N
  var k = N - 3
  var l = N - 5
  %x: f32[i] = read 0
  %v: f32[i, k, l] = view %x[i] for i, k, l vectorize
  %s: f32[k, l] = reduce add(%v) for i, k, l vectorize
  %m: f32[] = reduce maximum(%s) for k, l vectorize
  %out: f32[] = write 0 (%m)
}
)");
  for (const int64_t n : {0, 1, 2, 3, 4, 40}) {
    expect_right(squared, {counted(DType::kF32, {n})});
    expect_right(kept, {counted(DType::kF32, {n})});
    expect_right(guarded, {counted(DType::kF32, {n})});
    expect_right(looked_up, {counted(DType::kF32, {n}), Tensor::zeros(DType::kI64, {8})});
  }
}

// Sums of columns stay in registers, beside a sum of all, only where the loop knows its vectors by number.
TEST(Fenced, SumsOfColumnsBesideASumOfRows) {
  for (const int64_t columns : {1, 16, 21, 64, 69, 80, 96, 128, 133, 400}) {
    for (const int64_t block : {16, 48, 64, 128}) {
      const LoopTree tree = tree_of(fmt::format(R"(tenon loops 1
kernel k {{
  var i = 3
  var j = {0}
  %x: f32[i, j] = read 0
  %all: f32[] = reduce add(%x) for i, j by {1} unroll, j vectorize
  %each: f32[j] = reduce add(%x) for i, j by {1} unroll, j vectorize
  %out: f32[] = write 0 (%all)
  %outs: f32[j] = write 1 (%each) for j
}}
)",
                                                columns, block));
      expect_right(tree, {counted(DType::kF32, {3, columns})});
    }
  }
}

// A constant is known when the kernel is compiled: what a caller passes in its place is not looked at.
TEST(Fenced, ABoundKernelReadsNothingInPlaceOfAConstant) {
  const LoopTree tree = tree_of(R"(tenon loops 1
kernel k {
  var i = 40
  %x: f32[i] = read 0
  %w: f32[i] = read 1
  %y: f32[i] = mul(%x, %w) for i vectorize
  %out: f32[i] = write 0 (%y) for i vectorize
}
)");
  const Tensor x = counted(DType::kF32, {40}), y = Tensor::zeros(DType::kF32, {40});
  const auto backend = find_backend("cpu").value();
  const Tensor columns = counted(DType::kF32, {40, 2});
  const Tensor strided = Tensor::borrow(DType::kF32, {40}, {2}, columns.data(), columns.owner());
  const auto kernel = compile_bound(*backend, tree, {{1, strided}});
  kernel->run(std::vector<void*>{x.data(), nullptr, y.data()});
  EXPECT_EQ(elements(y)[39], 40 * 79);
  EXPECT_THROW(compile_bound(*backend, tree, {{1, Tensor()}}), Error);
  EXPECT_THROW(compile_bound(*backend, tree, {{1, counted(DType::kF32, {41})}}), Error);
}

// Every kind of node, in any schedule.
class FencedShards : public ::testing::TestWithParam<int> {};

TEST_P(FencedShards, RandomKernels) {
  constexpr uint64_t kKernels = 60;
  const auto first = static_cast<uint64_t>(GetParam()) * kKernels;
  std::vector<LoopTree> trees;
  std::vector<const LoopTree*> pointers;
  for (uint64_t seed = first; seed < first + kKernels; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    LoopTree tree = random_schedule(LoopTree(test::random_ir_around_vectors(seed)), 25, random);
    for (uint32_t id = 0; id < tree.size(); ++id) {
      Result<LoopTree> marked = annotate(tree, {id}, {seed % 3 == 0 ? Mark::kUnroll : Mark::kVectorize});
      if (marked.ok() && random() % 2 == 0) tree = std::move(marked).value();
    }
    trees.push_back(std::move(tree));
  }
  for (const LoopTree& tree : trees) pointers.push_back(&tree);
  const char* const cpus[] = {"native", "x86-64-v3", "x86-64-v2"};
  const auto kernels = test::compile_fenced(pointers, {.cpu = cpus[GetParam() % 3], .use_cache = false});
  const auto interpreter = find_backend("interpreter").value();
  for (size_t i = 0; i < trees.size(); ++i) {
    SCOPED_TRACE(fmt::format("seed {}\n{}{}", first + i, to_string(trees[i].ir), trees[i].dump()));
    const std::vector<Tensor> inputs = test::inputs_for(trees[i].ir, first + i);
    const auto got = run(*kernels[i], trees[i].ir, inputs).value();
    const auto wanted = run(*interpreter->compile(trees[i]).value(), trees[i].ir, inputs).value();
    for (size_t slot = 0; slot < wanted.size(); ++slot) {
      EXPECT_EQ(test::values_of(got[slot]), test::values_of(wanted[slot])) << "output " << slot;
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, FencedShards, ::testing::Range(0, 6));

}  // namespace
}  // namespace tenon
