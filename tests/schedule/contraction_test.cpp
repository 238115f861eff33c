#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loops/compiler.h"
#include "loops/lower.h"
#include "loops/schedule.h"
#include "schedule/ahead.h"
#include "schedule/default_schedule.h"
#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;
using test::expect_schedule_agrees;
using test::scheduled;
using testing::HasSubstr;

std::string matmul(int64_t m, int64_t n, int64_t k) {
  return fmt::format(
      "graph g(%x: f32[{0}, {2}], %y: f32[{2}, {1}]) {{\n  %h: f32[{0}, {1}] = matmul(%x, %y)\n  return %h\n}}\n", m, n,
      k);
}

std::string linear(std::string_view m, int64_t n, int64_t k, std::string_view rest = "%out: f32[{m}, {n}] = relu(%h)") {
  std::string text = R"(graph g(%x: f32[{m}, {k}]) {
  symbol N in [0, 4096]
  %w: f32[{n}, {k}] = parameter "w"
  %b: f32[{n}] = parameter "b"
  %h: f32[{m}, {n}] = linear(%x, %w, %b)
  )" + std::string(rest) +
                     "\n  return %out\n}\n";
  if (m != "N") text.erase(text.find("  symbol"), text.find("  %w") - text.find("  symbol"));
  const auto replace = [&](std::string_view what, const std::string& by) {
    for (size_t at = text.find(what); at != text.npos; at = text.find(what)) text.replace(at, what.size(), by);
  };
  replace("{m}", std::string(m)), replace("{n}", std::to_string(n)), replace("{k}", std::to_string(k));
  return text;
}

// 12 panels of 64 columns would leave a quarter of 8 or 16 threads without work.
TEST(ContractionSchedule, HasAsManyPanelsAsThreadsShareEvenly) {
  const loops::IR kernel = lower(parse_graph(R"(graph g(%x: f32[1024, 768]) {
  %w: f32[768, 768] = parameter "w"
  %y: f32[1024, 768] = linear(%x, %w, none)
  return %y
}
)")
                                     .value())
                               .value();
  const auto text = [&](int64_t threads) {
    return split_ahead(default_schedule(kernel, {.threads = threads}), {1}).tree.dump();
  };
  EXPECT_THAT(text(2), ::testing::HasSubstr("for k in 12 by 64 parallel\n  for i in 170 r 4 by 6\n"));
  EXPECT_THAT(text(4), ::testing::HasSubstr("for k in 12 by 64 parallel"));
  EXPECT_THAT(text(8), ::testing::HasSubstr("for k in 16 by 48 parallel"));
  // Four parts of the rows of a panel, for threads that are done with theirs.
  EXPECT_THAT(text(16), ::testing::HasSubstr("for k in 16 by 48 parallel\n  for i in 4 by 256 parallel\n"));
}

// Each thread reads the second operand once, and not for each of its blocks of rows.
TEST(ContractionSchedule, GivesThreadsThatShareRowsAllOfTheirsAtOnce) {
  const loops::IR kernel = lower(parse_graph(R"(graph g(%x: f32[1024, 768]) {
  %w: f32[40, 768] = parameter "w"
  %y: f32[1024, 40] = linear(%x, %w, none)
  return %y
}
)")
                                     .value())
                               .value();
  const std::string text = default_schedule(kernel, {.threads = 16}).dump();
  EXPECT_THAT(text, ::testing::ContainsRegex("for i in (15 r [0-9]+|16) by [0-9]+ parallel\n  for k in ")) << text;
}

TEST(ContractionSchedule, KeepsABlockInRegistersAndAPanelInTheCache) {
  EXPECT_EQ(scheduled(matmul(512, 512, 512)).dump(), R"(for l in 8 by 64 parallel
  for j in 512
    for l in 4 by 16 unroll
      for l in 16 vectorize
        %y_packed: f32[j, l] = view %y[j, l]
  for i in 85 r 2 by 6
    for j in 256 by 2
      for j in 2 unroll
        for i in 6 unroll
          for l in 4 by 16 unroll
            for l in 16 vectorize
              %2: f32[i, l, j] = mul(%x, %y_packed)
              %h: f32[i, l] = reduce add(%2)
    for i in 6 unroll
      for l in 4 by 16 unroll
        for l in 16 vectorize
          %4: f32[i, l] = write 0 (%h)
)");
}

TEST(ContractionSchedule, FoldsAlongTheVectorForOneRow) {
  const std::string tree = scheduled(linear("1", 4096, 4096)).dump();
  EXPECT_NE(tree.find(R"(for k in 512 by 8 parallel
  for b in 256
    for k in 8 unroll
      for v in 16 vectorize
)"),
            tree.npos)
      << tree;
  const std::string small = scheduled(linear("1", 768, 768)).dump();
  EXPECT_NE(small.find("for k in 8\n    for j in 768 vectorize\n"), small.npos) << small;
}

TEST(ContractionSchedule, PutsWhatFollowsIntoTheBlock) {
  const LoopTree tree = scheduled(linear("128", 256, 64, "%out: f32[{m}, {n}] = gelu(%h)"));
  const loops::Compiler compiler(tree);
  for (const auto& [ref, memory] : compiler.allocations) {
    if (memory.scratch) EXPECT_LE(memory.size().constant(), 64 * 64) << tree.ir.node(ref).name;
  }
}

TEST(ContractionSchedule, AgreesOnEverySizeAroundTheBlocks) {
  for (int64_t m : {1, 2, 5, 6, 7, 13}) {
    for (int64_t n : {1, 3, 16, 17, 63, 65, 130}) expect_schedule_agrees(matmul(m, n, 9 + m % 2));
  }
  for (int64_t k : {1, 2, 3, 40}) expect_schedule_agrees(matmul(33, 70, k));
}

TEST(ContractionSchedule, AgreesWithConstantWeights) {
  for (const char* m : {"1", "2", "4", "31"}) {
    for (int64_t n : {1, 10, 64, 100}) expect_schedule_agrees(linear(m, n, 20));
  }
  expect_schedule_agrees(linear("1", 20000, 256, "%out: f32[{m}, {n}] = tanh(%h)"));
}

TEST(ContractionSchedule, AgreesOnSizesThatAreKnownLater) {
  for (int64_t n : {0, 1, 5, 6, 12, 40}) expect_schedule_agrees(linear("N", 70, 33), n);
}

TEST(ContractionSchedule, AgreesOnBatchesAndOtherDtypes) {
  for (const char* dtype : {"f32", "f64", "bf16", "f16"}) {
    expect_schedule_agrees(
        fmt::format("graph g(%x: {0}[2, 3, 9, 20], %y: {0}[2, 3, 20, 35]) {{\n  %h: {0}[2, 3, 9, 35] = matmul(%x, "
                    "%y)\n  return %h\n}}\n",
                    dtype));
  }
}

// x @ w^T, where w changes: the gradient of a layer's input.
std::string times_transposed(int64_t m, int64_t n, int64_t k) {
  return fmt::format(R"(graph g(%x: f32[{0}, {2}], %w: f32[{1}, {2}]) {{
  %t: f32[{2}, {1}] = permute(%w) {{dims=[1, 0]}}
  %h: f32[{0}, {1}] = matmul(%x, %t)
  return %h
}}
)",
                     m, n, k);
}

std::string in_dtype(std::string text, const std::string& dtype) {
  for (size_t at = text.find("f32"); at != text.npos; at = text.find("f32")) text.replace(at, 3, dtype);
  return text;
}

// No instruction multiplies f16: so lanes are those of f32, and each step widens the weights that it loads.
TEST(ContractionSchedule, PacksNarrowWeightsAsTheyAre) {
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string tree = scheduled(in_dtype(linear("128", 256, 64), dtype)).dump();
    EXPECT_THAT(tree, HasSubstr(fmt::format("%w_packed: {}[", dtype)));
    EXPECT_THAT(tree, HasSubstr("= cast(%w_packed)"));
    EXPECT_THAT(tree, HasSubstr(" in 16 vectorize")) << "vectors are those of f32";
  }
}

TEST(ContractionSchedule, AgreesOnNarrowWeights) {
  for (const char* dtype : {"f16", "bf16"}) {
    for (const char* m : {"1", "2", "4", "31"}) {
      for (int64_t n : {1, 10, 64, 100}) expect_schedule_agrees(in_dtype(linear(m, n, 20), dtype));
    }
    for (int64_t n : {0, 5, 40}) expect_schedule_agrees(in_dtype(linear("N", 70, 33), dtype), n);
    expect_schedule_agrees(in_dtype(linear("1", 40000, 256, "%out: f32[{m}, {n}] = relu(%h)"), dtype));
    expect_schedule_agrees(in_dtype(times_transposed(7, 65, 48), dtype));
  }
}

TEST(ContractionSchedule, TurnsSquaresOfWhatIsContiguousAlongTheFold) {
  const std::string tree = scheduled(times_transposed(64, 128, 64)).dump();
  EXPECT_NE(tree.find(R"(  for k in 4 by 16
    for j in 4 by 16
      for j in 16 unroll
        for k in 16 vectorize
          %w_packed)"),
            tree.npos)
      << tree;
  for (int64_t k : {1, 15, 16, 17, 33, 48}) {
    for (int64_t n : {1, 16, 17, 65, 130}) expect_schedule_agrees(times_transposed(7, n, k));
  }
}

// x^T @ y over all samples: the gradient of a layer's weights.
std::string transposed_times(int64_t samples, int64_t m, int64_t n, std::string_view dtype = "f32") {
  return fmt::format(R"(graph g(%x: {3}[{0}, {1}], %y: {3}[{0}, {2}]) {{
  %t: {3}[{1}, {0}] = permute(%x) {{dims=[1, 0]}}
  %h: {3}[{1}, {2}] = matmul(%t, %y)
  return %h
}}
)",
                     samples, m, n, dtype);
}

TEST(ContractionSchedule, PacksRowsThatAreContiguous) {
  const std::string tree = scheduled(transposed_times(1024, 256, 256)).dump();
  EXPECT_NE(tree.find(R"(by 6 parallel
  for i in 1024
    for j in 6 vectorize
      %x_packed)"),
            tree.npos)
      << tree;
  const std::string few = scheduled(transposed_times(64, 256, 256)).dump();
  EXPECT_EQ(few.find("%x_packed"), few.npos) << few;
  // Sums of so many f32 round too much for an exact comparison.
  for (int64_t m : {1, 2, 6, 7, 13, 64}) expect_schedule_agrees(transposed_times(256, m, 130, "f64"));
  expect_schedule_agrees(R"(graph g(%x: f64[2, 130, 20], %y: f64[2, 130, 70]) {
  %h: f64[20, 70] = contract(%x, %y) {spec="abi,abj->ij"}
  return %h
}
)");
  expect_schedule_agrees(R"(graph g(%x: f64[3, 260, 20], %y: f64[3, 260, 70]) {
  %h: f64[3, 20, 70] = contract(%x, %y) {spec="bai,baj->bij"}
  return %h
}
)");
}

TEST(ContractionSchedule, AgreesWhereOperandsAreComputed) {
  expect_schedule_agrees(R"(graph g(%x: f32[40, 24], %y: f32[40, 50]) {
  %a: f32[40, 24] = relu(%x)
  %t: f32[24, 40] = permute(%a) {dims=[1, 0]}
  %b: f32[40, 50] = exp(%y)
  %h: f32[24, 50] = matmul(%t, %b)
  return %h
}
)");
  // One array is both operands: what computes the rows has the variable of the columns.
  expect_schedule_agrees(R"(graph g(%i: f32[6], %w: f32[6, 6]) {
  %s: f32[6, 6] = sigmoid(%w)
  %q: f32[6, 1] = reshape(%i) {shape=[6, 1]}
  %e: f32[6, 6] = expand(%q) {shape=[6, 6]}
  %c: f32[6, 6] = cos(%e)
  %a: f32[6, 6] = mul(%c, %s)
  %h: f32[6, 6] = contract(%a, %w) {spec="aK,CK->aC"}
  return %h
}
)");
}

TEST(AheadOfTime, LaysWeightsOutAsTheyAreRead) {
  const LoopTree tree = scheduled(linear("128", 100, 40));
  const AheadOfTime ahead = split_ahead(tree, {1, 2});
  ASSERT_EQ(ahead.preparations.size(), 1u);
  EXPECT_EQ(ahead.preparations[0].inputs, std::vector<int64_t>{1});
  const loops::IR& kernel = ahead.preparations[0].kernel;
  const TensorType type = kernel.type(kernel.writes()[0]);
  EXPECT_EQ(to_string(type), "f32[2, 40, 4, 16]");
  ASSERT_EQ(ahead.inputs.size(), 3u);
  EXPECT_EQ(ahead.inputs[0].slot, 0);
  EXPECT_EQ(ahead.inputs[1].slot, 2);
  EXPECT_EQ(ahead.inputs[2].preparation, 0);
}

TEST(AheadOfTime, LeavesWhatIsLookedUpToTheRun) {
  const LoopTree tree = scheduled(R"(graph g(%table: f32[8], %at: i64[N]) {
    %0: f32[8] = exp(%table)
    %1: f32[N] = index(%0, %at)
    return %1
  })");
  EXPECT_TRUE(split_ahead(tree, {0}).preparations.empty());
}

TEST(AheadOfTime, KeepsTheSlotsOfOutputs) {
  const LoopTree tree = scheduled(R"(graph g(%x: f32[5, 6]) {
    %0: f32[5] = sum(%x) {dims=[1]}
    %1: f32[5, 6] = softmax(%x) {dim=1}
    %2: f32[5, 6] = exp(%x)
    return %1, %2, %0
  })");
  const LoopTree split = split_ahead(tree, {}).tree;
  const auto written = [](const loops::IR& ir, size_t slot) -> const OpDef* {
    const auto* compute = ir.node(ir.node(ir.writes()[slot]).inputs[0]).as<loops::Compute>();
    return compute != nullptr ? compute->op : nullptr;
  };
  for (size_t slot = 0; slot < 3; ++slot) EXPECT_EQ(written(split.ir, slot), written(tree.ir, slot));
}

TEST(AheadOfTime, LeavesATreeWithoutConstantsAsItIs) {
  const LoopTree tree = scheduled(matmul(64, 64, 64));
  EXPECT_EQ(split_ahead(tree, {}).tree.dump(), tree.dump());
}

}  // namespace
}  // namespace tenon
