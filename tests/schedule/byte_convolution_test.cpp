// Convolutions of quantized images, as the pass `quantized` leaves them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using test::expect_schedule_agrees;
using test::scheduled;

struct ByteConv {
  std::string batch = "1";
  int64_t channels = 8;
  int64_t out_channels = 20;
  std::vector<int64_t> image = {9, 11};
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t groups = 1;
  int64_t filled = 0;  // a padding with a zero point, before the convolution's own
  std::string dtype = "u8";
  std::string weights = "i8";
};

// As the pass `quantized` writes it: sums in i32, then scale, bias, relu and the next quantization.
std::string text_of(const ByteConv& conv) {
  std::vector<int64_t> padded, out;
  for (int64_t size : conv.image) {
    padded.push_back(size + 2 * conv.filled);
    out.push_back((padded.back() + 2 * conv.padding - conv.kernel) / conv.stride + 1);
  }
  const auto image = [&](const std::string& dtype, int64_t channels, const std::vector<int64_t>& sizes) {
    return fmt::format("{}[{}, {}, {}]", dtype, conv.batch, channels, fmt::join(sizes, ", "));
  };
  const auto result = [&](const std::string& dtype) { return image(dtype, conv.out_channels, out); };
  const std::string kernel =
      fmt::format("[{}, {}, {}, {}]", conv.out_channels, conv.channels / conv.groups, conv.kernel, conv.kernel);
  std::string text = fmt::format("graph g(%x: {}) {{\n", image(conv.dtype, conv.channels, conv.image));
  if (conv.batch == "N") text += "  symbol N in [0, 64]\n";
  text += fmt::format("  %w: {}{} = parameter \"w\"\n", conv.weights, kernel);
  text += fmt::format("  %s: f32[{0}, 1, 1] = parameter \"s\"\n  %b: f32[{0}, 1, 1] = parameter \"b\"\n",
                      conv.out_channels);
  text += "  %zero: f32[] = constant 0.0\n  %most: f32[] = constant 255.0\n  %scale: f32[] = constant 0.01\n";
  if (conv.filled > 0) {
    text += fmt::format("  %p: {0} = pad(%x) {{low=[0, 0, {1}, {1}], high=[0, 0, {1}, {1}], value=7}}\n",
                        image(conv.dtype, conv.channels, padded), conv.filled);
  }
  text += fmt::format("  %xi: {} = cast(%{}) {{dtype=i32}}\n", image("i32", conv.channels, padded),
                      conv.filled > 0 ? "p" : "x");
  text += fmt::format("  %wi: i32{} = cast(%w) {{dtype=i32}}\n", kernel);
  text += fmt::format("  %h: {0} = conv(%xi, %wi, none) {{stride=[{2}, {2}], padding=[{3}, {3}], groups={1}}}\n",
                      result("i32"), conv.groups, conv.stride, conv.padding);
  text += fmt::format("  %f: {0} = cast(%h) {{dtype=f32}}\n  %scaled: {0} = mul(%f, %s)\n", result("f32"));
  text += fmt::format("  %small: {0} = mul(%scaled, %scale)\n  %biased: {0} = add(%small, %b)\n", result("f32"));
  text += fmt::format("  %round: {0} = rint(%biased)\n  %high: {0} = maximum(%round, %zero)\n", result("f32"));
  text += fmt::format("  %low: {0} = minimum(%high, %most)\n", result("f32"));
  return text + fmt::format("  %out: {} = cast(%low) {{dtype=u8}}\n  return %out\n}}\n", result("u8"));
}

const TileIntrinsic kByteDot{"dpbusd", DType::kI8, DType::kU8, DType::kI32, 1, 16, 4};

TEST(ByteConvolutionSchedule, MultipliesGroupsOfFourChannels) {
  EXPECT_EQ(scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}}), {kByteDot}).dump(),
            R"(for m in 64
  %14: f32[m] = view %s[m, 0, 0]
  %17: f32[m] = view %b[m, 0, 0]
for j in 16 by 4 parallel
  for p in 16
    for p1 in 16 tile "interleave"
      for j in 4
        %10_narrow_border: u8[j, p, p1] = view %x[0, j, p - 1, p1 - 1] where p - 1 in 14 and p1 - 1 in 14
for m in 2 by 32 parallel
  for j in 16 by 4
    for i1 in 3
      for j1 in 3
        for m in 2 by 16
          for m in 16 tile "interleave"
            for j in 4
              %w_packed: i8[m, j, i1, j1] = view %w[m, j, i1, j1]
  for m2 in 14
    for i3 in 1 by 14
      for j in 16 by 4
        for i1 in 3
          for j1 in 3
            for i3 in 14 unroll
              for m in 2 by 16 unroll
                for m in 16 tile "dpbusd"
                  for j in 4
                    %10_narrow_window: u8[m2, i3, j, i1, j1] = view %10_narrow_border[j, i1 + m2, i3 + j1]
                    %wi: i32[m, j, i1, j1] = cast(%w_packed)
                    %10_wide: i32[m2, i3, j, i1, j1] = cast(%10_narrow_window)
                    %11: i32[m, m2, i3, j, i1, j1] = mul(%10_wide, %wi)
                    %h: i32[m, m2, i3] = reduce add(%11)
      for k3 in 1
        for m in 2 by 16 unroll
          for m in 16 unroll
            for i3 in 14 vectorize
              %f: f32[m, m2, i3] = cast(%h)
              %scaled: f32[m, m2, i3] = mul(%f, %14)
              %small: f32[m, m2, i3] = mul(%scaled, %6)
              %biased: f32[m, m2, i3] = add(%small, %17)
              %round: f32[m, m2, i3] = rint(%biased)
              %high: f32[m, m2, i3] = maximum(%round, %4)
              %low: f32[m, m2, i3] = minimum(%high, %5)
              %out: u8[m, m2, i3] = cast(%low)
              %23: u8[k3, m, m2, i3] = write 0 (%out)
)");
}

TEST(ByteConvolutionSchedule, WidensNoWindowsWithoutAnInstruction) {
  const std::string text = scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}})).dump();
  EXPECT_THAT(text, testing::HasSubstr("_border: i32[j, p, p1] = view %")) << text;
}

TEST(ByteConvolutionSchedule, MultipliesWindowsOfSignedBytesAsUnsignedOnes) {
  const std::string text =
      scheduled(text_of({.channels = 64, .out_channels = 64, .image = {14, 14}, .dtype = "i8"}), {kByteDot}).dump();
  EXPECT_THAT(text, ::testing::HasSubstr("tile \"dpbusd\"")) << text;
  EXPECT_THAT(text, ::testing::HasSubstr("where p - 1 in 14 and p1 - 1 in 14 else 128")) << text;
}

TEST(ByteConvolutionSchedule, AgreesOnSignedBytes) {
  expect_schedule_agrees(text_of({.channels = 64, .out_channels = 40, .image = {14, 14}, .dtype = "i8"}));
  expect_schedule_agrees(text_of({.channels = 10, .out_channels = 40, .image = {9, 20}, .stride = 2, .dtype = "i8"}));
  expect_schedule_agrees(text_of({.batch = "3", .channels = 12, .out_channels = 33, .image = {8, 8}, .dtype = "i8"}));
  expect_schedule_agrees(text_of({.channels = 16, .out_channels = 33, .kernel = 1, .padding = 0, .dtype = "i8"}));
  expect_schedule_agrees(text_of({.channels = 16, .out_channels = 32, .filled = 2, .dtype = "i8"}));
}

TEST(ByteConvolutionSchedule, Agrees) {
  for (int64_t kernel : {1, 3, 7}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t padding : {int64_t{0}, kernel / 2}) {
        for (int64_t channels : {2, 3, 33}) {
          expect_schedule_agrees(text_of(
              {.channels = channels, .image = {9, 19}, .kernel = kernel, .stride = stride, .padding = padding}));
        }
      }
    }
  }
  for (int64_t width : {1, 7, 14, 16, 33}) {
    expect_schedule_agrees(text_of({.batch = "2", .out_channels = 40, .image = {5, width}}));
  }
  for (int64_t n : {0, 1, 4}) {
    expect_schedule_agrees(text_of({.batch = "N"}), n);
    expect_schedule_agrees(text_of({.batch = "N", .kernel = 1, .padding = 0}), n);
  }
}

TEST(ByteConvolutionSchedule, AgreesOnPaddingWithAZeroPoint) {
  for (int64_t kernel : {1, 3}) {
    for (int64_t channels : {3, 8}) {
      expect_schedule_agrees(text_of(
          ByteConv{.batch = "2", .channels = channels, .kernel = kernel, .stride = 2, .padding = 0, .filled = 1}));
      expect_schedule_agrees(text_of({.channels = channels, .kernel = kernel, .filled = 2}));
    }
  }
}

// The only long loop over the weights is over the lanes of the instruction that packs them.
TEST(ByteConvolutionSchedule, AgreesOnWeightsOfOneBlock) {
  for (const char* dtype : {"i8", "u8"}) {
    for (int64_t filled : {0, 1}) {
      expect_schedule_agrees(text_of({.batch = "2",
                                      .channels = 4,
                                      .out_channels = 16,
                                      .image = {7, 17},
                                      .kernel = 1,
                                      .stride = 3,
                                      .padding = 0,
                                      .filled = filled,
                                      .dtype = dtype}));
    }
  }
}

TEST(ByteConvolutionSchedule, AgreesOnGroupsAndOtherSigns) {
  for (int64_t groups : {2, 4, 8}) {
    expect_schedule_agrees(text_of({.batch = "2", .out_channels = 40, .stride = 2, .groups = groups}));
  }
  for (const char* dtype : {"i8", "u8"}) {
    for (const char* weights : {"i8", "u8"}) {
      expect_schedule_agrees(text_of({.channels = 5, .dtype = dtype, .weights = weights}));
      expect_schedule_agrees(text_of({.kernel = 1, .padding = 0, .dtype = dtype, .weights = weights}));
    }
  }
}

// ---- one channel at a time ----

ByteConv depthwise(ByteConv conv) {
  conv.out_channels = conv.groups = conv.channels;
  return conv;
}

TEST(ByteWindowSchedule, MultipliesGroupsOfTaps) {
  const std::string text = scheduled(text_of(depthwise({.image = {14, 14}})), {kByteDot}).dump();
  EXPECT_THAT(text, testing::HasSubstr("_border: u8[j, p, p1] = view %x[0, j, p - 1, p1 - 1]")) << text;
  EXPECT_THAT(text, testing::HasSubstr("tile \"dpbusd\"")) << text;
  EXPECT_THAT(text, testing::HasSubstr("where t in 3\n")) << text;
}

TEST(ByteWindowSchedule, Agrees) {
  for (int64_t kernel : {2, 3, 4, 5, 7}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t padding : {int64_t{0}, kernel / 2}) {
        expect_schedule_agrees(text_of(
            depthwise({.channels = 3, .image = {9, 19}, .kernel = kernel, .stride = stride, .padding = padding})));
      }
    }
  }
  for (int64_t width : {1, 2, 7, 14, 16, 17, 33, 70}) {
    expect_schedule_agrees(text_of(depthwise({.batch = "2", .channels = 3, .image = {5, width}})));
    expect_schedule_agrees(text_of(depthwise({.channels = 3, .image = {5, width}, .stride = 2})));
  }
  for (int64_t n : {0, 1, 4}) expect_schedule_agrees(text_of(depthwise({.batch = "N", .channels = 3})), n);
}

TEST(ByteWindowSchedule, AgreesOnPaddingWithAZeroPoint) {
  for (int64_t stride : {1, 2}) {
    for (int64_t padding : {0, 1}) {
      expect_schedule_agrees(text_of(depthwise({.channels = 3, .stride = stride, .padding = padding, .filled = 1})));
    }
  }
}

TEST(ByteWindowSchedule, AgreesOnOtherSigns) {
  for (const char* dtype : {"i8", "u8"}) {
    for (const char* weights : {"i8", "u8"})
      expect_schedule_agrees(text_of(depthwise({.channels = 5, .dtype = dtype, .weights = weights})));
  }
}

}  // namespace
}  // namespace tenon
