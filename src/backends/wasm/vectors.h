// Which loops become SIMD.
#pragma once

#include "loops/compiler.h"

namespace tenon::wasm {

// The lanes of the vectors that all nodes of the loop have; 1 where one node has none: it can fail, depends on the lane
// before it, is in memory that vectors do not reach, or has another number of lanes.
int64_t vector_lanes(const loops::Compiler& compiler, loops::TreeRef loop, const loops::Compiler::Scope& scope);

}  // namespace tenon::wasm
