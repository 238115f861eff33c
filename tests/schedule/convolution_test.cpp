#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loops/compiler.h"
#include "schedule/border.h"
#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;
using test::expect_schedule_agrees;
using test::scheduled;

struct Conv {
  std::string batch = "1";
  int64_t channels = 8;
  int64_t out_channels = 20;
  std::vector<int64_t> image = {9, 11};
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool has_bias = false;
  std::string dtype = "f32";
};

std::string repeated(int64_t value, size_t times) {
  return fmt::format("[{}]", fmt::join(std::vector<int64_t>(times, value), ", "));
}

// `rest` goes on from %h, and has %out.
std::string text_of(const Conv& conv, const std::string& rest = "%out: {type} = relu(%h)") {
  std::vector<int64_t> positions, kernel(conv.image.size(), conv.kernel);
  for (int64_t size : conv.image) {
    positions.push_back((size + 2 * conv.padding - conv.dilation * (conv.kernel - 1) - 1) / conv.stride + 1);
  }
  const std::string type =
      fmt::format("{}[{}, {}, {}]", conv.dtype, conv.batch, conv.out_channels, fmt::join(positions, ", "));
  std::string line = rest;
  for (size_t at = line.find("{type}"); at != line.npos; at = line.find("{type}")) line.replace(at, 6, type);
  std::string text = fmt::format("graph g(%x: {}[{}, {}, {}], %residual: {}) {{\n", conv.dtype, conv.batch,
                                 conv.channels, fmt::join(conv.image, ", "), type);
  if (conv.batch == "N") text += "  symbol N in [0, 64]\n";
  text += fmt::format("  %w: {}[{}, {}, {}] = parameter \"w\"\n", conv.dtype, conv.out_channels,
                      conv.channels / conv.groups, fmt::join(kernel, ", "));
  if (conv.has_bias) text += fmt::format("  %b: {}[{}] = parameter \"b\"\n", conv.dtype, conv.out_channels);
  const size_t rank = conv.image.size();
  text += fmt::format(
      "  %h: {} = conv(%x, %w{}) {{stride={}, padding={}, dilation={}, groups={}}}\n  {}\n  return %out\n}}\n", type,
      conv.has_bias ? ", %b" : ", none", repeated(conv.stride, rank), repeated(conv.padding, rank),
      repeated(conv.dilation, rank), conv.groups, line);
  return text;
}

TEST(ConvolutionSchedule, HasChannelsAsLanesAndABorderAroundTheImage) {
  EXPECT_EQ(scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}})).dump(), R"(for j in 64 parallel
  for p in 16
    for p1 in 16 vectorize
      %4_border: f32[j, p, p1] = view %x[0, j, p - 1, p1 - 1] where p - 1 in 14 and p1 - 1 in 14
for k1 in 2 by 32 parallel
  for j in 64
    for m1 in 3
      for k1 in 2 by 16
        for n1 in 3 unroll
          for k1 in 16 vectorize
            %w_packed: f32[k1, j, m1, n1] = view %w[k1, j, m1, n1]
  for k2 in 14
    for m2 in 1 by 14
      for j in 64
        for m1 in 3
          for n1 in 3
            for m2 in 14 unroll
              for k1 in 2 by 16 unroll
                for k1 in 16 vectorize
                  %4_window: f32[k2, m2, j, m1, n1] = view %4_border[j, k2 + m1, m2 + n1]
                  %5: f32[k1, k2, m2, j, m1, n1] = mul(%4_window, %w_packed)
                  %h: f32[k1, k2, m2] = reduce add(%5)
      for i3 in 1
        for k1 in 2 by 16 unroll
          for k1 in 16 unroll
            for m2 in 14 vectorize
              %out: f32[k1, k2, m2] = maximum(%h, %3)
              %8: f32[i3, k1, k2, m2] = write 0 (%out)
)");
}

TEST(ConvolutionSchedule, ReadsAnImageWithoutPaddingWhereItIs) {
  const LoopTree tree =
      scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}, .kernel = 1, .padding = 0}));
  const loops::Compiler compiler(tree);
  for (const auto& [ref, memory] : compiler.allocations) {
    const bool is_image = tree.ir.node(ref).has(*tree.ir.var_named("j")) && memory.scratch;  // the channels
    if (is_image) EXPECT_LE(memory.size().constant(), 64 * 64) << "no more than the weights\n" << tree.dump();
  }
}

TEST(ConvolutionSchedule, NeverHasAllWindowsInMemory) {
  const LoopTree tree = scheduled(text_of({.channels = 64, .out_channels = 64, .image = {28, 28}}));
  const loops::Compiler compiler(tree);
  for (const auto& [ref, memory] : compiler.allocations) {
    if (memory.scratch) EXPECT_LE(memory.size().constant(), 64 * 30 * 30) << tree.ir.node(ref).name;
  }
}

TEST(ConvolutionSchedule, AgreesOnKernelsStridesPaddingAndDilation) {
  for (int64_t kernel : {1, 2, 3, 5, 7}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t padding : {int64_t{0}, kernel / 2}) {
        expect_schedule_agrees(text_of({.kernel = kernel, .stride = stride, .padding = padding}));
      }
    }
  }
  expect_schedule_agrees(text_of({.padding = 2, .dilation = 2}));
  expect_schedule_agrees(text_of({.stride = 2, .padding = 3, .dilation = 3}));
}

TEST(ConvolutionSchedule, CopiesThePixelsThatWindowsOfOneReadWhereTheySkipOthers) {
  const Conv conv{.channels = 64, .out_channels = 64, .image = {15, 15}, .kernel = 1, .stride = 2, .padding = 0};
  const std::string text = scheduled(text_of(conv)).dump();
  EXPECT_THAT(text, testing::HasSubstr("_dense: f32[j, k2, l2] = view %x[0, j, 2*k2, 2*l2]")) << text;
  for (int64_t stride : {2, 3, 5}) {
    for (int64_t width : {1, 6, 29, 70}) {
      Conv other = conv;
      other.image = {7, width};
      other.stride = stride;
      expect_schedule_agrees(text_of(other));
    }
  }
  for (int64_t n : {0, 1, 4}) {
    Conv other = conv;
    other.batch = "N";
    expect_schedule_agrees(text_of(other), n);
  }
}

// Weights that the cache does not hold are read once for each image, others once for each row of pixels.
TEST(ConvolutionSchedule, ReadsLargeWeightsOnceForEachImage) {
  Conv conv{.batch = "8", .channels = 512, .out_channels = 512, .image = {14, 14}, .kernel = 1, .padding = 0};
  const std::string large = scheduled(text_of(conv)).dump();
  EXPECT_THAT(large, testing::HasSubstr("for i in 8 parallel\n  for k1 in 16 by 32\n    for k in 14\n")) << large;
  conv.channels = 128;
  const std::string small = scheduled(text_of(conv)).dump();
  EXPECT_THAT(small, testing::HasSubstr("for i in 8 parallel\n  for k in 14\n    for k1 in 16 by 32\n")) << small;
}

TEST(ConvolutionSchedule, AgreesOnEverySizeAroundTheBlocks) {
  for (int64_t width : {1, 2, 7, 14, 15, 17, 29, 33}) {
    for (int64_t channels : {1, 15, 16, 33, 65}) {
      expect_schedule_agrees(text_of({.channels = 3, .out_channels = channels, .image = {5, width}}));
    }
  }
}

TEST(ConvolutionSchedule, AgreesWithWhatFollowsIt) {
  for (const char* batch : {"1", "2", "3"}) {
    expect_schedule_agrees(text_of({.batch = batch, .has_bias = true}));
    expect_schedule_agrees(text_of({.batch = batch, .out_channels = 40, .has_bias = true},
                                   "%sum: {type} = add(%h, %residual)\n  %out: {type} = relu(%sum)"));
  }
  expect_schedule_agrees(text_of({.has_bias = true}, "%out: {type} = gelu(%h)"));
}

TEST(ConvolutionSchedule, AgreesOnImagesThatAreComputed) {
  expect_schedule_agrees(R"(graph g(%x: f32[2, 6, 9, 9]) {
  %w: f32[24, 6, 3, 3] = parameter "w"
  %a: f32[2, 6, 9, 9] = relu(%x)
  %out: f32[2, 24, 9, 9] = conv(%a, %w, none) {padding=[1, 1]}
  return %out
}
)");
}

TEST(ConvolutionSchedule, AgreesOnImagesThatArePadded) {
  for (const char* value : {"0.0", "0.5"}) {
    for (int64_t groups : {1, 8}) {
      for (int64_t padding : {0, 1}) {
        const int64_t height = (12 + 2 * padding - 3) / 2 + 1, width = (11 + 2 * padding - 3) / 2 + 1;
        expect_schedule_agrees(fmt::format(R"(graph g(%x: f32[2, 8, 11, 9]) {{
  %w: f32[40, {}, 3, 3] = parameter "w"
  %p: f32[2, 8, 12, 11] = pad(%x) {{low=[0, 0, 0, 1], high=[0, 0, 1, 1], value={}}}
  %out: f32[2, 40, {}, {}] = conv(%p, %w, none) {{padding=[{}, {}], stride=[2, 2], groups={}}}
  return %out
}}
)",
                                           8 / groups, value, height, width, padding, padding, groups));
      }
    }
  }
}

// What is added to the result is read where it is.
TEST(ConvolutionSchedule, CopiesNoResidual) {
  for (int64_t channels : {24, 128}) {  // with pixels as lanes, and with channels
    const LoopTree tree =
        scheduled(text_of({.channels = 64, .out_channels = channels, .image = {56, 56}, .kernel = 1, .padding = 0},
                          "%sum: {type} = add(%h, %residual)\n  %out: {type} = relu(%sum)"));
    const loops::Compiler compiler(tree);
    for (const auto& [ref, memory] : compiler.allocations) {
      if (memory.scratch) EXPECT_LT(memory.size().constant(), channels * 56 * 56) << tree.dump();
    }
  }
}

TEST(ConvolutionSchedule, FewPixelsGoOverAllWeights) {
  const auto outermost = [](int64_t image) {
    const LoopTree tree =
        scheduled(text_of({.channels = 256, .out_channels = 512, .image = {image, image}, .kernel = 1, .padding = 0}));
    const std::vector<loops::LoopSpec>& loops = tree.ir.node(*tree.ir.node_named("h")).loops;
    return tree.ir.var(loops[0].var).size.constant();
  };
  EXPECT_EQ(outermost(14), 512);
  EXPECT_EQ(outermost(56), 56);
}

TEST(ConvolutionSchedule, AgreesOnGroups) {
  for (int64_t groups : {2, 4}) {
    expect_schedule_agrees(
        text_of({.batch = "2", .out_channels = 40, .stride = 2, .groups = groups, .has_bias = true}));
  }
}

TEST(ConvolutionSchedule, AgreesOnOneAndThreeDimensions) {
  for (int64_t stride : {1, 2}) {
    expect_schedule_agrees(text_of({.batch = "2", .image = {37}, .stride = stride, .has_bias = true}));
    expect_schedule_agrees(text_of({.batch = "2", .image = {4, 5, 9}, .stride = stride, .has_bias = true}));
  }
}

TEST(ConvolutionSchedule, AgreesOnSizesThatAreKnownLater) {
  for (int64_t n : {0, 1, 2, 5}) expect_schedule_agrees(text_of({.batch = "N", .has_bias = true}), n);
  for (int64_t n : {1, 6, 14, 15, 31}) {
    expect_schedule_agrees(R"(graph g(%x: f32[2, 3, N, N]) {
  symbol N in [1, 64]
  %w: f32[20, 3, 3, 3] = parameter "w"
  %out: f32[2, 20, N, N] = conv(%x, %w, none) {padding=[1, 1]}
  return %out
}
)",
                           n);
  }
}

// Windows move along rows alone: pixels of a row are lanes, and the image has rows that the result lacks.
TEST(ConvolutionSchedule, AgreesOnWindowsOfAColumnOfAComputedImage) {
  for (int64_t n : {1, 6, 15, 31}) {
    expect_schedule_agrees(R"(graph g(%x: f32[8, 2, N, N]) {
  symbol N in [1, 64]
  %w: f32[8, 8, 3, 1] = parameter "w"
  %p: f32[2, 8, N, N] = permute(%x) {dims=[1, 0, 2, 3]}
  %a: f32[2, 8, N, N] = relu(%p)
  %out: f32[2, 8, N, N] = conv(%a, %w, none) {padding=[1, 0]}
  return %out
}
)",
                           n);
  }
}

TEST(ConvolutionSchedule, AgreesOnTransposedOnes) {
  for (int64_t stride : {1, 2}) {
    const int64_t size = 6 * stride + 3 - 2 - stride + (stride - 1);
    expect_schedule_agrees(fmt::format(R"(graph g(%x: f32[2, 6, 6, 6]) {{
  %w: f32[6, 20, 3, 3] = parameter "w"
  %out: f32[2, 20, {1}, {1}] = conv(%x, %w, none) {{stride=[{0}, {0}], padding=[1, 1], transposed=true, output_padding=[{2}, {2}]}}
  return %out
}}
)",
                                       stride, size, stride - 1));
  }
}

// The gradient of weights, as a training has it: images are channels, and the outermost loop is a block of pixels.
TEST(ConvolutionSchedule, AgreesWhereTheOutermostLoopIsABlockOfPixels) {
  expect_schedule_agrees(R"(graph g(%a: f32[2, 32, 8, 8], %b: f32[2, 32, 8, 8]) {
  %x: f32[32, 2, 8, 8] = permute(%a) {dims=[1, 0, 2, 3]}
  %w: f32[32, 2, 8, 8] = permute(%b) {dims=[1, 0, 2, 3]}
  %h: f32[32, 32, 3, 3] = conv(%x, %w, none) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1}
  %out: f32[32, 3, 3, 32] = permute(%h) {dims=[1, 2, 3, 0]}
  return %out
}
)");
}

TEST(ConvolutionSchedule, AgreesOnOtherDtypes) {
  for (const std::string dtype : {"f64", "bf16", "f16"}) {
    for (const int64_t padding : {0, 1}) {
      expect_schedule_agrees(text_of({.padding = padding, .has_bias = true, .dtype = dtype}));
      expect_schedule_agrees(text_of({.batch = "3", .image = {7, 7}, .stride = 2, .padding = padding, .dtype = dtype}));
      expect_schedule_agrees(text_of({.image = {14, 14}, .kernel = 1, .padding = 0, .dtype = dtype}));
    }
    expect_schedule_agrees(text_of({.groups = 2, .dtype = dtype}));
    expect_schedule_agrees(text_of({.image = {17}, .kernel = 5, .padding = 2, .dtype = dtype}));
  }
}

TEST(ConvolutionSchedule, AgreesOnGroupsOfChannels) {
  for (int64_t kernel : {1, 3, 7}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t padding : {int64_t{0}, kernel / 2}) {
        for (int64_t channels : {2, 3, 33}) {
          expect_schedule_agrees(text_of({.channels = channels,
                                          .image = {9, 19},
                                          .kernel = kernel,
                                          .stride = stride,
                                          .padding = padding,
                                          .has_bias = stride == 1,
                                          .dtype = "bf16"}));
        }
      }
    }
  }
  for (int64_t width : {1, 7, 14, 16, 33}) {
    expect_schedule_agrees(text_of({.batch = "2", .out_channels = 40, .image = {5, width}, .dtype = "bf16"},
                                   "%sum: {type} = add(%h, %residual)\n  %out: {type} = relu(%sum)"));
  }
  for (int64_t n : {0, 1, 4}) {
    expect_schedule_agrees(text_of({.batch = "N", .dtype = "bf16"}), n);
    expect_schedule_agrees(text_of({.batch = "N", .kernel = 1, .padding = 0, .dtype = "bf16"}), n);
  }
}

const TileIntrinsic kDot{"dpbf16", DType::kBF16, DType::kBF16, DType::kF32, 1, 16, 2};

TEST(ConvolutionSchedule, MultipliesGroupsOfChannels) {
  EXPECT_EQ(scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}, .dtype = "bf16"}), {kDot}).dump(),
            R"(for j in 32 by 2 parallel
  for p in 16
    for p1 in 16 tile "interleave"
      for j in 2
        %4_border: bf16[j, p, p1] = view %x[0, j, p - 1, p1 - 1] where p - 1 in 14 and p1 - 1 in 14
for k1 in 2 by 32 parallel
  for j in 32 by 2
    for m1 in 3
      for n1 in 3
        for k1 in 2 by 16
          for k1 in 16 tile "interleave"
            for j in 2
              %w_packed: bf16[k1, j, m1, n1] = view %w[k1, j, m1, n1]
  for k2 in 14
    for m2 in 1 by 14
      for j in 32 by 2
        for m1 in 3
          for n1 in 3
            for m2 in 14 unroll
              for k1 in 2 by 16 unroll
                for k1 in 16 tile "dpbf16"
                  for j in 2
                    %4_window: bf16[k2, m2, j, m1, n1] = view %4_border[j, k2 + m1, m2 + n1]
                    %6: f32[k1, j, m1, n1] = cast(%w_packed)
                    %5: f32[k2, m2, j, m1, n1] = cast(%4_window)
                    %7: f32[k1, k2, m2, j, m1, n1] = mul(%5, %6)
                    %8: f32[k1, k2, m2] = reduce add(%7)
      for i3 in 1
        for k1 in 2 by 16 unroll
          for k1 in 16 unroll
            for m2 in 14 vectorize
              %h: bf16[k1, k2, m2] = cast(%8)
              %10: f32[k1, k2, m2] = cast(%h)
              %11: f32[k1, k2, m2] = maximum(%10, %3)
              %out: bf16[k1, k2, m2] = cast(%11)
              %13: bf16[i3, k1, k2, m2] = write 0 (%out)
)");
}

// The stride is in the copy of the image: a product of matrices reads nothing else.
TEST(ConvolutionSchedule, CopiesThePixelsThatAreUsed) {
  const LoopTree tree = scheduled(text_of({.channels = 64,
                                           .out_channels = 64,
                                           .image = {28, 28},
                                           .kernel = 1,
                                           .stride = 2,
                                           .padding = 0,
                                           .dtype = "bf16"}),
                                  {kDot});
  const loops::Compiler compiler(tree);
  EXPECT_THAT(tree.dump(), testing::HasSubstr("dpbf16"));
  for (const auto& [ref, memory] : compiler.allocations) {
    if (memory.scratch) EXPECT_LE(memory.size().constant(), 64 * 14 * 14) << tree.ir.node(ref).name;
  }
}

// No instruction multiplies f16: so channels are lanes, as in f32.
TEST(ConvolutionSchedule, WidensANarrowImageOnceAndNarrowWeightsInEachStep) {
  const LoopTree tree = scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}, .dtype = "f16"}));
  const std::string text = tree.dump();
  EXPECT_THAT(text, testing::HasSubstr("_wide: f32[j, p, p1] = cast(%4_border)"));
  EXPECT_THAT(text, testing::HasSubstr("%w_packed: f16[k1, j, m1, n1] = view %w[k1, j, m1, n1]"));
}

// A row of 7 or 14 pixels fills no vector, in one image or in several.
TEST(ConvolutionSchedule, ChannelsAreLanesOfSmallImagesInABatch) {
  for (const std::string batch : {"1", "8"}) {
    for (const std::string dtype : {"f32", "f16", "bf16"}) {
      const Conv conv{.batch = batch,
                      .channels = 256,
                      .out_channels = 128,
                      .image = {7, 7},
                      .kernel = 1,
                      .padding = 0,
                      .dtype = dtype};
      const std::string text = scheduled(text_of(conv), {kDot}).dump();
      EXPECT_THAT(text, testing::HasSubstr("in 7 unroll")) << "pixels are not lanes";
      EXPECT_EQ(text.find("dpbf16") != text.npos, dtype == "bf16") << text;
    }
  }
}

// ---- windows --------------------------------------------------------------------------------------------------------

TEST(WindowSchedule, FoldsAWindowInRegistersOverOneChannelWithItsBorder) {
  EXPECT_EQ(scheduled(text_of({.channels = 32, .out_channels = 32, .image = {28, 28}, .groups = 32})).dump(),
            R"(for j in 32 parallel
  for p in 30
    for p1 in 30 vectorize
      %4_border: f32[j, p, p1] = view %x[0, j, p - 1, p1 - 1] where p - 1 in 28 and p1 - 1 in 28
  for m1 in 3
    for n1 in 3 vectorize
      %5: f32[j, m1, n1] = view %w[j, 0, m1, n1]
  for j2 in 4 by 7
    for l2 in 1 r 12 by 16
      for m1 in 3 unroll
        for n1 in 3 unroll
          for j2 in 7 unroll
            for l2 in 16 vectorize
              %4_window: f32[j, j2, l2, m1, n1] = view %4_border[j, j2 + m1, l2 + n1]
              %6: f32[j, j2, l2, m1, n1] = mul(%4_window, %5)
              %h: f32[j, j2, l2] = reduce add(%6)
      for n2 in 1
        for j2 in 7 unroll
          for l2 in 16 vectorize
            %out: f32[j, j2, l2] = maximum(%h, %3)
            %9: f32[n2, j, j2, l2] = write 0 (%out)
)");
}

TEST(WindowSchedule, AgreesOnDepthwiseConvolutions) {
  for (int64_t kernel : {2, 3, 5, 7}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t width : {7, 8, 14, 15, 17, 33, 40}) {
        expect_schedule_agrees(text_of({.channels = 3,
                                        .out_channels = 3,
                                        .image = {9, width},
                                        .kernel = kernel,
                                        .stride = stride,
                                        .padding = kernel / 2,
                                        .groups = 3,
                                        .has_bias = stride == 2}));
      }
    }
  }
  expect_schedule_agrees(
      text_of({.batch = "3", .channels = 4, .out_channels = 4, .padding = 2, .dilation = 2, .groups = 4}));
  for (int64_t n : {0, 1, 4}) {
    expect_schedule_agrees(text_of({.batch = "N", .channels = 4, .out_channels = 4, .groups = 4, .has_bias = true}), n);
  }
}

TEST(WindowSchedule, AgreesOnOtherDtypes) {
  for (const std::string dtype : {"f64", "bf16", "f16"}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t padding : {0, 1}) {
        expect_schedule_agrees(text_of({.channels = 4,
                                        .out_channels = 4,
                                        .image = {9, 33},
                                        .stride = stride,
                                        .padding = padding,
                                        .groups = 4,
                                        .has_bias = true,
                                        .dtype = dtype}));
      }
    }
  }
}

TEST(WindowSchedule, WidensANarrowImageOnce) {
  const std::string text =
      scheduled(text_of({.channels = 32, .out_channels = 32, .image = {28, 28}, .groups = 32, .dtype = "bf16"})).dump();
  EXPECT_THAT(text, testing::HasSubstr("_wide: f32[j, p, p1] = cast(%4_border)"));
}

TEST(WindowSchedule, AgreesOnSeveralResultsOfAChannel) {
  expect_schedule_agrees(text_of({.batch = "2", .channels = 4, .out_channels = 12, .groups = 4, .has_bias = true}));
}

TEST(WindowSchedule, AgreesOnPooling) {
  for (int64_t width : {6, 16, 35}) {
    const int64_t half = (width + 1) / 2;
    expect_schedule_agrees(fmt::format(R"(graph g(%x: f32[2, 3, {0}, {0}]) {{
  %m: f32[2, 3, {1}, {1}], %i: i64[2, 3, {1}, {1}] = max_pool(%x) {{kernel=[3, 3], stride=[2, 2], padding=[1, 1]}}
  %out: f32[2, 3, {1}, {1}] = relu(%m)
  return %out
}}
)",
                                       width, half));
    expect_schedule_agrees(fmt::format(R"(graph g(%x: f32[2, 3, {0}, {0}]) {{
  %out: f32[2, 3, {1}, {1}] = avg_pool(%x) {{kernel=[3, 3], stride=[2, 2], padding=[1, 1], count_include_pad=false}}
  return %out
}}
)",
                                       width, half));
  }
}

}  // namespace
}  // namespace tenon
