// The judge of tile code: runs actions one after the other, on memory of the host.
#pragma once

#include <span>

#include "tiles/compile.h"

namespace tenon {

// `buffers` are those of a launch, each as large as its value. Checks tokens, places in the machine's memories, and
// that actions of different units that touch the same line or accumulator are ordered by tokens. Fails for the first
// action that breaks a rule, with its text.
Status interpret_tiles(const TileCode& code, const tenon_tile_machine& machine,
                       std::span<const std::span<std::byte>> buffers);

}  // namespace tenon
