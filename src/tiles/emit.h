// Inside of tiles: one layer as actions.
#pragma once

#include <vector>

#include "tiles/layer.h"

namespace tenon {

// Where an operand or result of a layer lies: a buffer of the launch or TENON_SCRATCH, and bytes from its start.
struct TilePlace {
  uint32_t buffer = 0;
  int64_t offset = 0;
};

struct LayerPlaces {
  TilePlace x, weights, vectors, residual, result;
};

// Adds the actions of a layer. `is_first` and `is_last` of the stream: layers between them wait for each other, because
// the memories of a machine are divided anew for each layer. The machine must fit the layer.
void emit_layer(const TileLayer& layer, const tenon_tile_machine& machine, const LayerPlaces& places, uint32_t node,
                bool is_first, bool is_last, std::vector<tenon_tile_action>& actions);

}  // namespace tenon
