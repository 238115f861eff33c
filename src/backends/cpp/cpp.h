// The `cpp` backend: a LoopTree as C++17 text with GNU vector extensions. The text needs nothing but a compiler: it is
// the target for foreign toolchains, and what the backend itself compiles, loads and runs.
//
// The text defines one function, a tenon_kernel of runtime/kernel.h, which it begins with:
//
//     extern "C" int64_t NAME(void* const* memory, const int64_t* sizes, int64_t* error, const tenon_host* host)
//
// f32 is computed in f32, reductions in the order of their loops; a loop of vectors folds its lanes last. A product
// that only feeds a sum over it may be fused with the addition; nothing else is.
#pragma once

#include <set>

#include "backends/backend.h"

namespace tenon {

// The source of one kernel. Throws an Error for a tile, and for a name that is no C++ name.
std::string emit_cpp(const loops::LoopTree& tree, std::string_view function_name);

// Its parts: the function alone, and a file of such functions.
std::string emit_cpp_function(const loops::LoopTree& tree, std::string_view function_name);
std::string cpp_file(std::string_view functions);
std::set<std::string, std::less<>> cpp_words();  // what its names must not be

struct CppOptions {
  int optimization = 3;            // -O
  std::vector<std::string> flags;  // more of them
};

// Compiles many kernels at once, as support/shared_library.h says.
std::vector<std::unique_ptr<Compiled>> compile_cpp(std::span<const loops::LoopTree* const> trees,
                                                   const CppOptions& options = {});

}  // namespace tenon
