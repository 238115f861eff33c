// The `cpp` backend: prints a LoopTree as C++17 with GNU vector extensions. The text needs nothing but a compiler, so
// other toolchains can use it. The backend compiles it with the system's compiler, loads it and runs it.
//
// The text starts with runtime/kernel.h and defines one function, a tenon_kernel:
//
//     extern "C" int64_t NAME(void* const* memory, const int64_t* sizes, int64_t* error,
//                             const tenon_services* services)
//
// Arithmetic on f32 is in f32. Folds run in the order of their loops; a vectorized loop folds its lanes last. A product
// that only a sum reads may be fused with the addition. Nothing else is fused.
#pragma once

#include <set>

#include "backends/backend.h"

namespace tenon {

// The source of one kernel. Throws an Error if the tree has a tile, or if `name` is no C++ name.
std::string emit_cpp(const loops::LoopTree& tree, std::string_view function_name);

// The parts of that source: one function, and a file of functions.
std::string emit_cpp_function(const loops::LoopTree& tree, std::string_view function_name);
std::string cpp_file(std::string_view functions);
std::set<std::string, std::less<>> cpp_words();  // names that the text must not use

struct CppOptions {
  int optimization = 3;            // -O
  std::vector<std::string> flags;  // further compiler flags
};

// Compiles many kernels into one library, see support/shared_library.h.
std::vector<std::unique_ptr<Compiled>> compile_cpp(std::span<const loops::LoopTree* const> trees,
                                                   const CppOptions& options = {});

}  // namespace tenon
