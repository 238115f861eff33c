// Functions of f32x4 that a module brings along, for those that no instruction computes.
#pragma once

#include "backends/wasm/code.h"
#include "graph/scalar.h"

namespace tenon::wasm {

bool has_vector_function(Primitive primitive);

// Adds the function to the module, (v128) -> v128, and returns its index.
uint32_t add_vector_function(WasmModule& module, Primitive primitive);

}  // namespace tenon::wasm
