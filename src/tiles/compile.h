// The compiler for tile machines: a segment of layers becomes actions (tenon_tile_action) that a plug-in only encodes.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "tiles/machine.h"

namespace tenon {

struct TileCode {
  std::vector<tenon_tile_action> actions;
  int64_t scratch_bytes = 0;                  // of the device's memory, for values between layers
  std::vector<int64_t> scratch_offsets = {};  // by value of the segment: where in scratch; -1: it has a buffer
};

// All nodes are `tile_layer`s that fit the machine. Buffers are the values that are not temporaries, in order.
Result<TileCode> compile_tiles(const Graph& segment, const tenon_tile_machine& machine);

}  // namespace tenon
