// Random work for devices: layers as graphs, and tile actions that no compiler would emit.
#pragma once

#include <random>

#include "graph/graph.h"
#include "tiles/compile.h"

namespace tenon::cli {

using Random = std::mt19937;
inline constexpr int64_t kMostRandom = 1'000'000;  // layers or streams

// A product or a convolution with what may follow it.
Graph random_layer(Random& random);

// A stream that obeys the rules of tenon_tile_action. It loads from buffer 0, of kActionBytes, and stores to buffer 1,
// of as many. Values are int8, bf16 and their sums, as the machine has them.
inline constexpr int64_t kActionBytes = 16384;
TileCode random_actions(const tenon_tile_machine& machine, size_t count, Random& random);
// Bytes for buffer 0: among them zeros, subnormals, infinities and NaN as bf16.
std::vector<std::byte> random_operands(Random& random);

}  // namespace tenon::cli
