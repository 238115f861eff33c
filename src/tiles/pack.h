// Inside of tiles: operands in the form that a tile machine reads, as nodes of a graph.
#pragma once

#include "graph/builder.h"
#include "tiles/machine.h"

namespace tenon {

// [outputs, channels, height, width] in tiles: [tiles, channel tiles, height, width, k, n]. Each group has tiles of its
// own; channels are those of a group.
Value packed_weights(Builder& b, Value weights, const tenon_tile_machine& machine, int64_t groups = 1);

// [tiles, 2, columns] of a bias and a scale for each output, in f32. Each is a vector in f32, one number, or empty.
Value packed_vectors(Builder& b, int64_t outputs, Value bias, Value scale, const tenon_tile_machine& machine,
                     int64_t groups = 1);

}  // namespace tenon
