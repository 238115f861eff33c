// Where the data of a tile action comes from and goes to, as elements of the segment's tensors: for tools that explain
// a step of a machine.
#pragma once

#include <optional>
#include <string>

#include "tiles/compile.h"

namespace tenon {

// An element of a value of the segment, or a row of them that begins there.
struct TileElement {
  uint32_t value = 0;
  std::vector<int64_t> index = {};
};
std::string to_string(const Graph& segment, const TileElement& element);  // "%y[0, 3, 4, 23]"

struct TileOrigin {
  int64_t outer = 0, inner = 0;             // Which run or row of the action, counted in both loops.
  int64_t element = 0;                      // Which byte of a line (load), or column of a row.
  std::optional<TileElement> reads = {};    // load, multiply: memory that the line or the activations were loaded from
  std::optional<TileElement> weights = {};  // multiply: likewise, of the tile
  std::optional<TileElement> becomes = {};  // multiply: what the sum is stored to; store: what it writes
};

// Of the byte at `address` that an action wrote: of the scratchpad (load), the accumulators (multiply), or its buffer
// (store). Empty if the action writes no such byte.
std::optional<TileOrigin> origin_of(const Graph& segment, const TileCode& code, const tenon_tile_machine& machine,
                                    size_t action, int64_t address);

}  // namespace tenon
