// Compiles LoopTrees to LLVM IR, assembly and object code.
//
// A kernel is one function, which returns 0 or the kind of an error:
//
//     int64_t NAME(void* const* memory, const int64_t* sizes, int64_t* error, const tenon_services* services)
//
// See runtime/kernel.h. Besides, it calls only the functions of runtime/functions.h, by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codegen/target.h"
#include "loops/loop_tree.h"

namespace tenon::codegen {

struct KernelSource {
  const loops::LoopTree* tree;
  std::string name;  // name of the function
};

// The text after passes. Throw an Error if the target lacks a tile of a tree.
std::string emit_llvm(std::span<const KernelSource> kernels, const Target& target);
std::string emit_asm(std::span<const KernelSource> kernels, const Target& target);
// One relocatable object file (ELF, or wasm; PTX is text).
std::string emit_object(std::span<const KernelSource> kernels, const Target& target);

// The object file of what emit_asm gives. Throws an Error for a text that is not assembly of the target.
std::string assemble(std::string_view text, const Target& target);

}  // namespace tenon::codegen
