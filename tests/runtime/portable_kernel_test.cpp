#include "runtime/portable_kernel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "backends/backend.h"
#include "backends/interpreter/portable_kernel.h"
#include "runtime/error.h"
#include "runtime/services.h"
#include "runtime/thread_pool.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_lowered.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"
#include "tests/runtime/support_portable.h"

namespace tenon::runtime {
namespace {

namespace portable = format::portable;
using format::DType;
using loops::LoopTree;
using portable::Action;
using portable::SourceKind;
using test::Arguments;
using test::CountingServices;
using test::KernelParts;
using test::load;
using test::run;
using test::tree_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- every kind of step ---------------------------------------------------------------------------------------------

// Runs a kernel on inputs and gives its only output.
template <class Out, class... In>
std::vector<Out> outcome(const LoopTree& tree, size_t count, std::initializer_list<In>... inputs) {
  const std::string bytes = portable_kernel(tree);
  const PortableKernel kernel = load(bytes);
  Arguments arguments(kernel, {});
  size_t slot = 0;
  (arguments.set(slot++, inputs), ...);
  EXPECT_EQ(run(kernel, arguments), "");
  return arguments.get<Out>(slot, count);
}

TEST(PortableKernel, Computes) {
  const LoopTree tree = tree_of(R"(
    var i = 3
    %x: f32[i] = read 0
    %half: f32[] = constant 0.5
    %y: f32[i] = mul(%x, %half)
    %big: bool[i] = gt(%y, %half)
    %z: f32[i] = where(%big, %y, %x)
    %out: f32[i] = write 0 (%z))");
  EXPECT_THAT((outcome<float, float>(tree, 3, {1, 2, -4})), ElementsAre(1, 1, -4));
}

TEST(PortableKernel, CastsAndMovesBits) {
  const LoopTree tree = tree_of(R"(
    var i = 4
    %x: f32[i] = read 0
    %y: i32[i] = bitcast(%x)
    %z: i64[i] = cast(%y)
    %out: i64[i] = write 0 (%z))");
  const float signaling = std::bit_cast<float>(0x7fa00001);
  EXPECT_THAT((outcome<int64_t, float>(tree, 4, {1, -0.0f, signaling, 0})),
              ElementsAre(0x3f800000, INT32_MIN, 0x7fa00001, 0));
  const LoopTree narrowed = tree_of(R"(
    var i = 3
    %x: f32[i] = read 0
    %y: u8[i] = cast(%x)
    %out: u8[i] = write 0 (%y))");
  EXPECT_THAT((outcome<uint8_t, float>(narrowed, 3, {257.5f, -1, NAN})), ElementsAre(1, 255, 0));
}

TEST(PortableKernel, FoldsInDouble) {
  const LoopTree tree = tree_of(R"(
    var i = 2
    var k = 3
    %x: f32[i, k] = read 0
    %s: f32[i] = reduce add(%x)
    %out: f32[i] = write 0 (%s))");
  EXPECT_THAT((outcome<float, float>(tree, 2, {0x1p25f, 1, -0x1p25f, 1, 2, 3})), ElementsAre(1, 6));
}

TEST(PortableKernel, FoldsWrapIntegers) {
  const LoopTree tree = tree_of(R"(
    var k = 3
    %x: i8[k] = read 0
    %s: i8[] = reduce mul(%x)
    %out: i8[] = write 0 (%s))");
  EXPECT_THAT((outcome<int8_t, int8_t>(tree, 1, {100, 3, 1})), ElementsAre(44));
}

TEST(PortableKernel, Scans) {
  const LoopTree tree = tree_of(R"(
    var i = 2
    var k = 3
    %x: f32[i, k] = read 0
    %s: f32[i, k] = scan add(%x) along k for i, k
    %t: f32[i, k] = scan add(%s) along i for i, k
    %out: f32[i, k] = write 0 (%t))");
  EXPECT_THAT((outcome<float, float>(tree, 6, {1, 2, 3, 10, 20, 30})), ElementsAre(1, 3, 6, 11, 33, 66));
}

TEST(PortableKernel, ViewsPiecesWithGuardsAndLookups) {
  const LoopTree tree = tree_of(R"(
    var i = 3
    var o = 7
    %x: f32[i] = read 0
    %idx: i64[o] = read 1
    %v: f32[o] = view %x[-o + 2] where -o + 2 in 3 | %x[r] where o - 3 in 3 else 9.0 with r = %idx in 3
    %out: f32[o] = write 0 (%v))");
  EXPECT_THAT((outcome<float, float, int64_t>(tree, 7, {1, 2, 3}, {0, 0, 0, 2, 2, 0, 1})),
              ElementsAre(3, 2, 1, 3, 3, 1, 9));
}

TEST(PortableKernel, ViewsThroughQuotientsAndIndices) {
  const LoopTree tree = tree_of(R"(
    var a = 3
    var b = 4
    var f = 12
    %x: i64[a, b] = read 0
    %n: i64[f] = index 100*(f % 5) + f // 5
    %v: i64[f] = view %x[f // 4, f % 4]
    %y: i64[f] = add(%v, %n)
    %out: i64[f] = write 0 (%y))");
  EXPECT_THAT((outcome<int64_t, int64_t>(tree, 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})),
              ElementsAre(0, 101, 202, 303, 404, 6, 107, 208, 309, 410, 12, 113));
}

TEST(PortableKernel, Scatters) {
  const LoopTree tree = tree_of(R"(
    var i = 4
    var j = 5
    %init: f32[i] = read 0
    %idx: i64[j] = read 1
    %vals: f32[j] = read 2
    %sum: f32[i] = scatter add(%init, %vals) at [r] where j in 4 with r = %idx in 4 for j
    %set: f32[i] = scatter set(%sum, %vals) at [r] where j - 4 in 1 with r = %idx in 4 for j
    %out: f32[i] = write 0 (%set))");
  EXPECT_THAT((outcome<float, float, int64_t, float>(tree, 4, {1, 2, 3, 4}, {0, 2, 2, 0, 3}, {10, 20, 30, 40, 50})),
              ElementsAre(51, 2, 53, 50));
}

// What each iteration makes anew is a row of the strip, and in the buffer after it.
TEST(PortableKernel, WhatIsRepeatedIsThereAfterItsLoop) {
  const LoopTree tree = tree_of(R"(
    var i = 3
    var k = 300
    %x: f32[i] = read 0
    %n: i64[k] = index k
    %m: f32[k] = cast(%n) for k
    %y: f32[i] = neg(%x) for i, k
    %p: f32[i, k] = mul(%y, %m) for i, k
    %s: f32[i] = reduce add(%p) for i, k
    %z: f32[i] = add(%s, %y) for i
    %out: f32[i] = write 0 (%z) for i)");
  EXPECT_THAT((outcome<float, float>(tree, 3, {1, 2, -4})), ElementsAre(-44851, -89702, 179404));
}

TEST(PortableKernel, StripsAreLongerAndShorterThanLoops) {
  for (const int64_t size : {1, 2, 255, 256, 257, 700}) {
    const LoopTree tree = tree_of(fmt::format(R"(
      var i = {}
      %x: f32[i] = read 0
      %y: f32[i] = neg(%x)
      %z: f32[i] = abs(%y)
      %s: f32[] = reduce add(%z)
      %v: f32[i] = view %x[{} - i]
      %d: f32[i] = add(%v, %s)
      %out: f32[i] = write 0 (%d))",
                                              size, size - 1));
    const Tensor x = loops::testing::filled(tenon::DType::kF32, {size}, [](int64_t i) { return i; });
    const std::vector<double> got = loops::testing::elements(loops::testing::run_on("interpreter", tree, {x})[0]);
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(got[static_cast<size_t>(i)], size - 1 - i + size * (size - 1) / 2) << i << " of " << size;
    }
  }
}

// ---- against the reference ------------------------------------------------------------------------------------------

TEST(PortableKernel, AgreesWithTheReferenceWithAllKindsOfParts) {
  std::set<Action> actions;
  std::set<SourceKind> kinds;
  size_t lookups = 0, guards = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    const auto lowered = test::random_lowered(seed);
    if (!lowered) continue;
    std::mt19937 random(static_cast<uint32_t>(seed));
    const LoopTree tree = loops::testing::random_schedule(LoopTree(lowered->ir), 10, random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, tree.dump()));
    const std::string bytes = portable_kernel(tree);
    const KernelParts parts = test::parts_of(bytes);
    for (const portable::Step& step : parts.steps) actions.insert(step.action());
    for (const portable::Source& source : parts.sources) kinds.insert(source.kind());
    lookups += parts.lookups.size();
    guards += parts.guards.size();
    EXPECT_LT(bytes.size(), 8192 + 256 * tree.ir.nodes().size());
    const auto kernel = find_backend("interpreter").value()->compile(tree).value();
    const auto outputs = tenon::run(*kernel, tree.ir, lowered->arguments, lowered->sizes).value();
    for (size_t i = 0; i < outputs.size(); ++i) ASSERT_TRUE(test::close(outputs[i], lowered->expected[i]));
  }
  EXPECT_GE(actions.size(), 4u);
  EXPECT_EQ(kinds.size(), 3u);
  EXPECT_GT(lookups, 10u);
  EXPECT_GT(guards, 10u);
}

TEST(PortableKernel, IsTheSameForTheSameTree) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const loops::IR ir = test::random_ir(seed);
    EXPECT_EQ(portable_kernel(LoopTree(ir)), portable_kernel(LoopTree(loops::parse(to_string(ir)).value())));
  }
}

TEST(PortableKernel, PutTogetherAgainIsTheSame) {
  const std::string bytes = portable_kernel(LoopTree(loops::testing::row_softmax(4, 5)));
  EXPECT_EQ(test::parts_of(test::parts_of(bytes).bytes()).bytes(), test::parts_of(bytes).bytes());
}

// ---- what a caller sees ---------------------------------------------------------------------------------------------

TEST(PortableKernel, SaysWhatItTakes) {
  const LoopTree tree(loops::testing::matmul(symbolic::Symbol("M"), 3, symbolic::Symbol("N")));
  const std::string bytes = portable_kernel(tree);
  const PortableKernel kernel = load(bytes);
  const int64_t sizes[] = {5, 7};
  EXPECT_EQ(kernel.inputs(), 2u);
  EXPECT_EQ(kernel.outputs(), 1u);
  EXPECT_EQ(kernel.sizes(), 2u);
  EXPECT_EQ(kernel.argument_dtype(2), TENON_F32);
  EXPECT_EQ(kernel.argument_elements(0, sizes), 15);
  EXPECT_EQ(kernel.argument_elements(1, sizes), 21);
  EXPECT_EQ(kernel.argument_elements(2, sizes), 35);
  EXPECT_GT(kernel.scratch_bytes(sizes), 0);
  ASSERT_EQ(kernel.nodes(), tree.ir.nodes().size());
  for (size_t i = 0; i < kernel.nodes(); ++i) EXPECT_EQ(kernel.node_name(i), tree.ir.nodes()[i].name);
}

TEST(PortableKernel, SizesThatOverflowAreAnError) {
  const std::string bytes =
      portable_kernel(LoopTree(loops::testing::matmul(symbolic::Symbol("M"), 3, symbolic::Symbol("N"))));
  const PortableKernel kernel = load(bytes);
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40}, negative[] = {-1, 2};
  void* memory[3] = {};
  int64_t error[4] = {};
  EXPECT_THROW(kernel.argument_elements(2, huge), StatusError);
  EXPECT_THROW(kernel.argument_elements(0, negative), StatusError);
  EXPECT_THROW(kernel.run(memory, huge, error, tenon_default_services()), StatusError);
  EXPECT_THROW(kernel.run(memory, negative, error, tenon_default_services()), StatusError);
}

constexpr const char* kGather = R"(
    var i = 3
    var o = 2
    %x: f32[i] = read 0
    %idx: i64[o] = read 1
    %v: f32[o] = view %x[r] with r = %idx in 3
    %out: f32[o] = write 0 (%v))";

TEST(PortableKernel, TellsAnIndexOutOfRange) {
  const std::string bytes = portable_kernel(tree_of(kGather));
  const PortableKernel kernel = load(bytes);
  Arguments arguments(kernel, {});
  arguments.set<int64_t>(1, {1, 3});
  EXPECT_EQ(run(kernel, arguments), "%v: index 3 is out of range for a size of 3");
  arguments.set<int64_t>(1, {1, -1});
  EXPECT_EQ(run(kernel, arguments), "%v: index -1 is out of range for a size of 3");
}

TEST(PortableKernel, TellsADivisionByZero) {
  const std::string bytes = portable_kernel(tree_of(R"(
    var i = 3
    %x: i64[i] = read 0
    %y: i64[i] = read 1
    %q: i64[i] = floor_div(%x, %y)
    %out: i64[i] = write 0 (%q))"));
  const PortableKernel kernel = load(bytes);
  Arguments arguments(kernel, {});
  arguments.set<int64_t>(0, {7, INT64_MIN, -8});
  arguments.set<int64_t>(1, {2, -1, 0});
  EXPECT_EQ(run(kernel, arguments), "%q: integer division of -8 by zero");
  arguments.set<int64_t>(1, {2, -1, 3});
  EXPECT_EQ(run(kernel, arguments), "");
  EXPECT_THAT((arguments.get<int64_t>(2, 3)), ElementsAre(3, INT64_MIN, -3));
}

TEST(PortableKernel, EveryAllocationMayFail) {
  const std::string bytes = portable_kernel(LoopTree(loops::testing::row_softmax(4, 5)));
  const PortableKernel kernel = load(bytes);
  const Arguments arguments(kernel, {});
  for (int64_t nth = 0;; ++nth) {
    ASSERT_LT(nth, 100);
    CountingServices services;
    services.fail_at = nth;
    int64_t error[4] = {};
    const int64_t kind = kernel.run(arguments.pointers.data(), nullptr, error, &services);
    if (services.allocations <= nth) {
      EXPECT_EQ(kind, 0);
      EXPECT_GT(nth, 3);
      return;
    }
    EXPECT_EQ(kind, kTenonOutOfMemory);
    EXPECT_THAT(kernel.describe(error), HasSubstr("out of memory: %"));
  }
}

TEST(PortableKernel, StopsAfterItsSteps) {
  const std::string bytes = portable_kernel(LoopTree(loops::testing::negate(symbolic::Symbol("N"))));
  const PortableKernel kernel = load(bytes);
  const Arguments arguments(kernel, {100});
  EXPECT_EQ(run(kernel, arguments, {100}, 10), "the kernel takes more than 10 steps");
  EXPECT_EQ(run(kernel, arguments, {100}, 200), "");
}

// ---- threads --------------------------------------------------------------------------------------------------------

TEST(PortableKernel, ManyThreadsRunOne) {
  const std::string bytes = portable_kernel(LoopTree(loops::testing::negate(symbolic::Symbol("N"))));
  const PortableKernel kernel = load(bytes);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t round = 0; round < 200; ++round) {
        const int64_t size = 1 + (thread + round) % 5;
        const std::vector<float> x(static_cast<size_t>(size), static_cast<float>(thread));
        std::vector<float> y(x.size());
        void* const memory[] = {const_cast<float*>(x.data()), y.data()};
        int64_t error[4] = {};
        if (kernel.run(memory, &size, error, tenon_default_services()) != 0) ++wrong;
        for (const float each : y) wrong += each != -static_cast<float>(thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Scratch of a parallel loop's iteration is each thread's own.
TEST(PortableKernel, ParallelLoopsRunOnThreads) {
  const tenon::ThreadCount four(4);
  const LoopTree tree = tree_of(R"(
    var i = 64
    var k = 300
    %x: f32[i, k] = read 0
    %y: f32[i, k] = neg(%x) for i parallel, k
    %s: f32[i] = reduce add(%y) for i parallel, k
    %t: f32[i] = scatter add(%s, %s) at [i] for i parallel
    %out: f32[i] = write 0 (%t) for i)");
  const Tensor x = loops::testing::filled(tenon::DType::kF32, {64, 300}, [](int64_t i) { return i / 300; });
  for (int round = 0; round < 20; ++round) {
    const std::vector<double> got = loops::testing::elements(loops::testing::run_on("interpreter", tree, {x})[0]);
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(got[i], -600.0 * static_cast<double>(i));
  }
}

TEST(PortableKernel, TheFirstErrorOfThreadsTells) {
  const tenon::ThreadCount four(4);
  const LoopTree tree = tree_of(R"(
    var i = 3
    var o = 500
    %x: f32[i] = read 0
    %idx: i64[o] = read 1
    %v: f32[o] = view %x[r] with r = %idx in 3 for o parallel
    %out: f32[o] = write 0 (%v) for o)");
  const Tensor x = Tensor::zeros(tenon::DType::kF32, {3});
  const Tensor idx = loops::testing::filled(tenon::DType::kI64, {500}, [](int64_t i) { return i == 77 ? 9 : 0; });
  const auto kernel = find_backend("interpreter").value()->compile(tree).value();
  const auto ran = tenon::run(*kernel, tree.ir, std::vector{x, idx});
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.diagnostic().message, "%v: index 9 is out of range for a size of 3");
}

}  // namespace
}  // namespace tenon::runtime
