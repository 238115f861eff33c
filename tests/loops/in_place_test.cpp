#include "loops/in_place.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/backend.h"
#include "graph/builder.h"
#include "loops/lower.h"

namespace tenon::loops {
namespace {

using Pairs = std::vector<InPlacePair>;

Pairs pairs_of(std::string_view text) {
  return in_place_pairs(LoopTree(parse(fmt::format("tenon loops 1\nkernel k {{\n{}\n}}", text)).value()));
}

// ---- where it may ---------------------------------------------------------------------------------------------------

TEST(InPlace, WhatIsReadAsItIsWritten) {
  EXPECT_EQ(pairs_of(R"(
    var m = 4
    var n = 8
    %x: f32[m, n] = read 0
    %y: f32[m, n] = read 1
    %b: f32[n] = read 2
    %s: f32[m, n] = sub(%x, %y)
    %t: f32[m, n] = mul(%s, %b)
    %out: f32[m, n] = write 0 (%t)
  )"),
            (Pairs{{0, 0}, {1, 0}}));
}

TEST(InPlace, ReadTwiceInOneIterationAndOnlyThenWritten) {
  EXPECT_EQ(pairs_of(R"(
    var n = N
    %x: f32[n] = read 0
    %a: f32[n] = mul(%x, %x) for n by 16 parallel, n vectorize
    %b: f32[n] = add(%a, %x) for n by 16 parallel, n vectorize
    %out: f32[n] = write 0 (%b) for n by 16 parallel, n vectorize
  )"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, EachOfSeveralOutputsInItsOwnInput) {
  EXPECT_EQ(pairs_of(R"(
    var n = 32
    %p: f32[n] = read 0
    %m: f32[n] = read 1
    %g: f32[n] = read 2
    %moved: f32[n] = add(%m, %g)
    %next: f32[n] = sub(%p, %moved)
    %out0: f32[n] = write 0 (%moved)
    %out1: f32[n] = write 1 (%next)
    order %moved, %next, %out0, %out1
  )"),
            (Pairs{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}}));
}

TEST(InPlace, ARowThatIsReadInEarlierLoopsOfItsIteration) {
  EXPECT_EQ(pairs_of(R"(
    var m = 4
    var n = 8
    %x: f32[m, n] = read 0
    %most: f32[m] = reduce maximum(%x) for m, n
    %d: f32[m, n] = sub(%x, %most) for m, n
    %out: f32[m, n] = write 0 (%d) for m, n
  )"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, TheSameElementsInAnotherShape) {
  EXPECT_EQ(pairs_of(R"(
    var m = 4
    var n = 8
    var i = 32
    %x: f32[m, n] = read 0
    %v: f32[i] = view %x[i // 8, i % 8] else 0.0
    %out: f32[i] = write 0 (%v)
  )"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, ElementsSomeOfWhichAreNotRead) {
  EXPECT_EQ(pairs_of(R"(
    var i = 32
    var j = 4
    %x: f32[i] = read 0
    %y: f32[j] = read 1
    %v: f32[i] = view %y[i - 3] where i - 3 in 4 | %x[i] else 0.0
    %out: f32[i] = write 0 (%v)
  )"),
            (Pairs{{0, 0}}));
}

// ---- where it may not -----------------------------------------------------------------------------------------------

TEST(InPlace, NotWhatIsTransposed) {
  EXPECT_EQ(pairs_of(R"(
    var m = 8
    var n = 8
    %x: f32[m, n] = read 0
    %out: f32[n, m] = write 0 (%x)
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatIsReversedAsWell) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    %x: f32[n] = read 0
    %v: f32[n] = view %x[7 - n] else 0.0
    %s: f32[n] = add(%x, %v)
    %out: f32[n] = write 0 (%s)
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatIsFolded) {
  EXPECT_EQ(pairs_of(R"(
    var m = 8
    var k = 8
    %x: f32[m, k] = read 0
    %s: f32[m] = reduce add(%x)
    %t: f32[m, k] = mul(%s, %x) for k, m
    %out: f32[m, k] = write 0 (%t) for k, m
  )"),
            (Pairs{{0, 0}}));  // all of it is read before anything is written
  EXPECT_EQ(pairs_of(R"(
    var m = 8
    var n = 8
    var k = 8
    %a: f32[m, k] = read 0
    %b: f32[k, n] = read 1
    %p: f32[m, n, k] = mul(%a, %b)
    %c: f32[m, n] = reduce add(%p)
    %out: f32[m, n] = write 0 (%c)
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatALaterLoopReads) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    %x: f32[n] = read 0
    %a: f32[n] = mul(%x, %x)
    %out: f32[n] = write 0 (%a)
    %s: f32[] = reduce add(%x) for new n
    %sum: f32[] = write 1 (%s)
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatTheSameIterationReadsAfterwards) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    %x: f32[n] = read 0
    %y: f32[n] = read 1
    %a: f32[n] = neg(%x)
    %b: f32[n] = add(%x, %y)
    %out0: f32[n] = write 0 (%a)
    %out1: f32[n] = write 1 (%b)
    order %a, %out0, %b, %out1
  )"),
            (Pairs{{0, 1}, {1, 1}}));
}

// A sum takes up its products where it is: after the write.
TEST(InPlace, NotAFactorOfASumThatComesAfterwards) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    %x: f32[n] = read 0
    %y: f32[n] = read 1
    %p: f32[n] = mul(%x, %y)
    %c: f32[n] = neg(%x)
    %out0: f32[n] = write 0 (%c)
    %s: f32[] = reduce add(%p)
    %out1: f32[] = write 1 (%s)
    order %p, %c, %out0, %s, %out1
  )"),
            Pairs{});
}

// In each iteration over k all of x is read, and written at the end of it.
TEST(InPlace, NotWhatIsReadAgainInALoopAroundBoth) {
  EXPECT_EQ(pairs_of(R"(
    var k = 3
    var n = 8
    %x: f32[n] = read 0
    %a: f32[n] = neg(%x) for k, n
    %out: f32[n] = write 0 (%a) for k, n
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatIsGatheredNorIndices) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    %x: i64[n] = read 0
    %i: i64[n] = read 1
    %v: i64[n] = view %x[r] else 0 with r = %i in 8
    %out: i64[n] = write 0 (%v)
  )"),
            Pairs{});
}

TEST(InPlace, NotWhatIsScattered) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    var o = 8
    %x: f32[n] = read 0
    %y: f32[o] = read 1
    %i: i64[o] = read 2
    %s: f32[n] = scatter add(%x, %y) at [r] with r = %i in 8 for o
    %out: f32[n] = write 0 (%s)
  )"),
            Pairs{});
}

TEST(InPlace, NotAnotherDTypeOrSize) {
  EXPECT_EQ(pairs_of(R"(
    var n = 8
    var m = 4
    %x: f32[n] = read 0
    %y: f32[m] = read 1
    %c: i32[n] = cast(%x)
    %d: f32[m, n] = mul(%x, %y)
    %out0: i32[n] = write 0 (%c)
    %out1: f32[m, n] = write 1 (%d)
  )"),
            Pairs{});
}

// ---- kernels as they are scheduled ----------------------------------------------------------------------------------

struct Scheduled {
  std::vector<double> apart;
  std::vector<double> in_place;
};

// The first output of a kernel of one or more [6, 40] inputs, computed apart from its first input and in its place.
Scheduled run_both_ways(const std::string& backend, const std::function<Value(Builder&, std::vector<Value>)>& make,
                        size_t inputs) {
  Graph graph("k");
  Builder builder(graph);
  std::vector<Value> values;
  for (size_t i = 0; i < inputs; ++i) {
    values.push_back(builder.value(graph.add_input(fmt::format("x{}", i), {DType::kF32, Shape{6, 40}})));
  }
  graph.set_outputs({make(builder, values).ref()});
  const auto compiler = find_backend(backend).value();
  const LoopTree tree = compiler->schedule(lower(graph).value());
  const Pairs pairs = in_place_pairs(tree);
  EXPECT_TRUE(std::ranges::find(pairs, InPlacePair{0, 0}) != pairs.end()) << tree.dump();
  const std::unique_ptr<Compiled> kernel = compiler->compile_impl(tree);
  const auto run = [&](bool is_in_place) {
    std::vector<std::vector<float>> data(inputs + 1, std::vector<float>(240));
    for (size_t i = 0; i < inputs; ++i) {
      for (size_t k = 0; k < 240; ++k) data[i][k] = static_cast<float>(std::sin(static_cast<double>(k * (i + 1))));
    }
    std::vector<void*> memory;
    for (auto& each : data) memory.push_back(each.data());
    if (is_in_place) memory.back() = memory.front();
    kernel->run(memory);
    const auto& out = is_in_place ? data.front() : data.back();
    return std::vector<double>(out.begin(), out.end());
  };
  return {run(false), run(true)};
}

class InPlaceBackends : public testing::TestWithParam<const char*> {};

TEST_P(InPlaceBackends, ComputeTheSame) {
  const auto step =
      run_both_ways(GetParam(), [](Builder&, std::vector<Value> x) { return x[0] - (x[1] + x[0] * 0.01) * 0.1; }, 2);
  EXPECT_EQ(step.apart, step.in_place);
  const auto normalized = run_both_ways(
      GetParam(), [](Builder& b, std::vector<Value> x) { return x[0] / (b.sum(x[0] * x[0], {1}, true) + 1.0); }, 1);
  EXPECT_EQ(normalized.apart, normalized.in_place);
}

INSTANTIATE_TEST_SUITE_P(All, InPlaceBackends, testing::Values("cpu", "cpp", "interpreter"));

}  // namespace
}  // namespace tenon::loops
