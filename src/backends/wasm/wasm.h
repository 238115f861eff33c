// The `wasm` backend: writes a LoopTree as a WebAssembly module, without LLVM, so that a page can compile kernels.
//
// The module imports the memory "env.memory" and exports one function, "kernel": a tenon_kernel (runtime/kernel.h)
// whose pointers are 32 bits, and which needs no services. It imports further functions of "env":
//
//     allocate(bytes: i32) -> i32        scratch memory; 0: there is none
//     release(memory: i32)
//     exp, log, ...                      where the kernel needs them: see arithmetic.h
//     floordiv, floormod(i64, i64) -> i64
//
// Loops run on one thread. Loops that are marked so become SIMD of 128 bits: f32, i32, f64, and narrower integers,
// which take 32 bits. Small scratch arrays whose positions are all known are locals, which engines keep in registers.
#pragma once

#include <string>

#include "loops/loop_tree.h"
#include "machine/machine.h"

namespace tenon {

struct WasmOptions {
  bool relaxed = false;  // with relaxed SIMD: products are added in one instruction
};

// The bytes of the module. Throws an Error for a tree with a tile.
std::string emit_wasm(const loops::LoopTree& tree, const WasmOptions& options = {});

// The machines that run WebAssembly, for schedules.
Machine wasm_machine();

namespace wasm {

// A module that emit_wasm wrote, in WebAssembly's text format.
std::string to_text(std::string_view module);

}  // namespace wasm
}  // namespace tenon
