// Inside of tiles: convolutions over one or two dimensions as windows over images. One dimension is the width.
#pragma once

#include <array>
#include <string>

#include "graph/builder.h"
#include "tiles/machine.h"

namespace tenon {

struct ConvWindow {
  std::array<int64_t, 2> image, kernel, stride, padding, dilation;
  int64_t batch, channels, outputs, groups;
  bool runs = false;  // Rows of the window are runs of channels.

  bool is_pixel() const {
    constexpr std::array<int64_t, 2> kOnes = {1, 1}, kZeros = {0, 0};
    return kernel == kOnes && stride == kOnes && padding == kZeros;
  }
  std::vector<int64_t> shape(const Shape& result) const;  // of a result by channel
};

// Why a node `conv` of known sizes is no window of the machine; empty if it is one.
std::string no_window(const OpView& conv, const tenon_tile_machine& machine);
// `x` and `weights` are the operands, or what they were before padding and casts.
ConvWindow window_of(const OpView& conv, const TensorType& x, const TensorType& weights);

// Attributes of a `tile_layer`: image, outputs, shape, and the window unless it is one pixel.
NamedAttrs window_attrs(const ConvWindow& window, const Shape& result);

// [batch, channels, ...] as [batch, ..., channels], and back.
Value by_channel(Builder& b, Value x);
Value by_image(Builder& b, Value y);
// Weights of a convolution with a window of two dimensions.
Value window_weights(Builder& b, Value weights);

// Few channels would leave most of the array idle. A row of the window is one run of channels then, in an image that
// has its padding. The CPU adds it: not to what a layer computes, which would have to leave the device for that.
struct WindowOperands {
  ConvWindow window;
  Value x, weights;  // x by channel
};
WindowOperands with_runs(Builder& b, WindowOperands operands, double pad, const tenon_tile_machine& machine);

}  // namespace tenon
