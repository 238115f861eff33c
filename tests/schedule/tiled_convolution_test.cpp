#include <fmt/format.h>
#include <gmock/gmock.h>

#include "backends/cpu/cpu.h"
#include "codegen/codegen.h"
#include "loops/lower.h"
#include "schedule/ahead.h"
#include "schedule/default_schedule.h"
#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TileIntrinsic kTile{"amx-bf16", DType::kBF16, DType::kBF16, DType::kF32, 16, 16, 32};

std::string conv(int64_t channels, int64_t out_channels, int64_t side, int64_t kernel, int64_t stride,
                 std::string_view dtype = "bf16") {
  const int64_t padding = kernel / 2, out = (side + 2 * padding - kernel) / stride + 1;
  return fmt::format(
      "graph g(%x: {5}[1, {0}, {2}, {2}]) {{\n"
      "  %w: {5}[{1}, {0}, {3}, {3}] = parameter \"w\"\n"
      "  %h: {5}[1, {1}, {7}, {7}] = conv(%x, %w, none) {{stride=[{4}, {4}], padding=[{6}, {6}]}}\n"
      "  return %h\n}}\n",
      channels, out_channels, side, kernel, stride, dtype, padding, out);
}

TEST(TiledConvolutionSchedule, ReadsWindowsFromACopyOfTheImage) {
  EXPECT_EQ(test::scheduled(conv(32, 64, 40, 3, 1), {kTile}).dump(), R"(for p in 43 parallel
  for r in 16 by 2
    for q in 2 r 10 by 16
      for q in 16 tile "interleave"
        for r in 2
          %2_tiles: bf16[p, r, q] = view %x[0, r, p - 1, q - 1] where p - 1 in 40 and q - 1 in 40
for m in 2 by 32 parallel
  for r in 1 by 32
    for i1 in 3
      for j1 in 3
        for m in 2 by 16
          for m in 16
            for r in 32 vectorize
              %w_tiles: bf16[m, r, i1, j1] = view %w[m, r, i1, j1]
  for m1 in 40
    for i2 in 1 r 8 by 32
      for r in 1 by 32
        for i1 in 3
          for j1 in 3
            for m in 2 by 16 unroll
              for i2 in 2 by 16 unroll
                for m in 16 tile "amx-bf16"
                  for r in 16 by 2
                    for i2 in 16
                      for r in 2
                        %12: f32[m, r, i1, j1] = cast(%w_tiles)
                        %2_window: bf16[m1, i2, r, i1, j1] = view %2_tiles[i1 + m1, r, i2 + j1]
                        %13: f32[m1, i2, r, i1, j1] = cast(%2_window)
                        %14: f32[m, m1, i2, r, i1, j1] = mul(%12, %13)
                        %15: f32[m, m1, i2] = reduce add(%14)
      for k2 in 1
        for m in 2 by 16
          for m in 16
            for i2 in 2 by 16 unroll
              for i2 in 16 vectorize
                %h: bf16[m, m1, i2] = cast(%15)
                %8: bf16[k2, m, m1, i2] = write 0 (%h)
)");
}

TEST(TiledConvolutionSchedule, MakesOneRowOfASmallImage) {
  const std::string text = test::scheduled(conv(32, 64, 14, 3, 1), {kTile}).dump();
  EXPECT_THAT(text, HasSubstr("[i1 + (j1 + n) // 16, r, (j1 + n) % 16]")) << text;
  EXPECT_THAT(text, HasSubstr("for n in 7 by 32")) << text;
}

TEST(TiledConvolutionSchedule, HasPhasesOfTheImageWhereWindowsSkipPixels) {
  const std::string text = test::scheduled(conv(32, 64, 64, 3, 2), {kTile}).dump();
  EXPECT_THAT(text, HasSubstr("view %x[0, r, a + 2*p - 1, b + 2*q - 1]")) << text;
  EXPECT_THAT(text, HasSubstr("[m1 + i1 // 2, i1 % 2, r, j1 % 2, i2 + j1 // 2]")) << text;
}

TEST(TiledConvolutionSchedule, CountsRowsOfTheWindowAsChannelsIfThereAreFew) {
  const std::string text = test::scheduled(conv(3, 64, 40, 7, 2), {kTile}).dump();
  EXPECT_THAT(text, HasSubstr("r % 3")) << text;
  EXPECT_THAT(text, HasSubstr("where r in 21")) << text;
}

TEST(TiledConvolutionSchedule, LeavesWhatFillsNoTile) {
  for (const std::string& text : {conv(2, 64, 40, 1, 1), conv(64, 2, 40, 3, 1), conv(32, 64, 40, 3, 1, "f16")}) {
    EXPECT_THAT(test::scheduled(text, {kTile}).dump(), Not(HasSubstr("amx-bf16"))) << text;
  }
}

// Sums of single numbers would be right as well, and a thousand times as slow.
TEST(TiledConvolutionSchedule, ReachesTilesWithWeightsOfAnyNumberOfChannels) {
  for (int64_t out_channels : {16, 24, 40, 64}) {
    for (const auto& [channels, side, kernel, stride] :
         {std::tuple(96, 56, 1, 1), std::tuple(64, 14, 3, 1), std::tuple(48, 30, 3, 2), std::tuple(3, 64, 3, 2)}) {
      const loops::IR kernel_ir =
          lower(parse_graph(conv(channels, out_channels, side, kernel, stride)).value()).value();
      const loops::LoopTree tree = split_ahead(default_schedule(kernel_ir, machine_of("sapphirerapids")), {1}).tree;
      const codegen::KernelSource source{&tree, "kernel"};
      const std::string text = codegen::emit_llvm({&source, 1}, codegen::find_target("sapphirerapids"));
      EXPECT_THAT(text, HasSubstr("@llvm.x86.tdpbf16ps(")) << tree.dump();
      EXPECT_THAT(text, Not(HasSubstr("@llvm.fma."))) << tree.dump();
    }
  }
}

}  // namespace
}  // namespace tenon
