// Inside of tiles: how a layer is cut into blocks that fit the machine's memories.
//
//     for image, for block of output rows:            activations of the block, two blocks in turn
//       for set of output tiles:                      accumulators of the set, two sets in turn
//         for chunk of channels:                      activations of the chunk, two chunks in turn
//           for output tile of the set, for step (channel tile, tap) of the chunk:    one multiplication
//
// Multiplications are taken in groups; the weights of a group are loaded while the group before it is computed. Where
// one chunk has all channels, a block's activations are loaded once for all of its sets.
#pragma once

#include <optional>

#include "tiles/layer.h"

namespace tenon {

struct TileBlocks {
  int64_t rows;          // output rows of a block
  int64_t set_tiles;     // output tiles of a set
  int64_t chunk_tiles;   // channel tiles of a chunk
  bool whole_image;      // The activations of an image are loaded at once, for all of its blocks.
  int64_t group_steps;   // multiplications of a group at most
  int64_t x_lines;       // of one buffer of activations
  int64_t x_buffers;     // 1 or 2
  int64_t weight_lines;  // of one of two buffers of weights
  int64_t vector_lines;  // of one of two buffers of vectors and residuals
  int64_t accumulators;  // rows of one of two sets
  double cycles;         // estimated
};

// Lines of one channel tile of a pixel, of a tile of weights, and of a residual's row.
int64_t pixel_lines(const TileLayer& layer, const tenon_tile_machine& machine);
int64_t weight_tile_lines(const TileLayer& layer, const tenon_tile_machine& machine);
int64_t residual_lines(const TileLayer& layer, const tenon_tile_machine& machine);
int64_t vector_tile_lines(const tenon_tile_machine& machine);  // biases and scales

// Input rows that output rows [first, last) read, within the image. Empty if they read padding only.
struct RowRange {
  int64_t first, last;
};
RowRange input_rows(const TileLayer& layer, int64_t first, int64_t last);

// The blocks with the least estimated time; none if nothing fits.
std::optional<TileBlocks> choose_blocks(const TileLayer& layer, const tenon_tile_machine& machine);

}  // namespace tenon
