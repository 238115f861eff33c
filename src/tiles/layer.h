// A layer in its normal form: rows of channels times weights, or a window over images, with an epilogue. A node
// `tile_layer` (docs/ops.md) is one, and a product of matrices is a window of one pixel.
#pragma once

#include <array>
#include <optional>

#include "graph/graph.h"
#include "tiles/machine.h"

namespace tenon {

struct TileLayer {
  int64_t batch = 1, height = 1, width = 1;
  int64_t groups = 1, channels = 1, outputs = 1;  // channels and outputs of each group
  std::array<int64_t, 2> kernel = {1, 1}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  DType operand = DType::kBF16;
  DType output = DType::kBF16;
  bool packed = true;       // Weights are tiles. Else they are a matrix for each image.
  bool transposed = false;  // of weights that are not packed: [outputs, channels]
  bool has_vectors = false;
  bool has_residual = false;
  std::optional<float> low, high;
  double residual_scale = 1;
  int64_t residual_zero_point = 0;
  int64_t pad = 0;         // what padding consists of
  int64_t zero_point = 0;  // of results in i8
  // Of each so many rows and pixels in memory, the image has the first one: height and width count those.
  std::array<int64_t, 2> skip = {1, 1};
  std::array<int64_t, 2> stored = {1, 1};  // height and width in memory
  int64_t stored_channels = 1;             // of a pixel in memory; `channels` of the next pixels may overlap

  int64_t all_outputs() const { return groups * outputs; }
  bool is_integer() const { return is_integral(operand); }
  int64_t out_height() const { return positions(0, height); }
  int64_t out_width() const { return positions(1, width); }
  int64_t taps() const { return kernel[0] * kernel[1]; }

 private:
  int64_t positions(size_t dim, int64_t size) const {
    return (size + 2 * padding[dim] - dilation[dim] * (kernel[dim] - 1) - 1) / stride[dim] + 1;
  }
};

bool is_tile_layer(const Node& node);
// Of a node `tile_layer`. A window of one pixel that skips pixels sees an image without them.
TileLayer layer_of(const Graph& graph, const Node& node);

// Why the machine does not run the layer; empty if it does.
std::string misfit(const TileLayer& layer, const tenon_tile_machine& machine);
// The same of a node of any op.
std::string misfit(const Graph& graph, const Node& node, const tenon_tile_machine& machine);

}  // namespace tenon
