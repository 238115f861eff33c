// Tile actions as text, a line each:
//
//     load buffer=0 run=64 outer=5 outer_stride=64 outer_lines=4 line=128 signal=compute
//
// A field that is 0 is left out. parse(print(code)) is the same code.
#pragma once

#include <string>
#include <string_view>

#include "tiles/compile.h"

namespace tenon {

std::string to_string(const tenon_tile_action& action);
std::string to_string(const TileCode& code);  // "tiles scratch=BYTES", then the actions
Result<TileCode> parse_tiles(std::string_view text);

}  // namespace tenon
