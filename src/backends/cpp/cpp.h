// The `cpp` backend: a LoopTree as C++17 text with GNU vector extensions. The text needs nothing but a compiler: it is
// the target for foreign toolchains, and what the backend itself compiles, loads and runs.
//
// The text defines one function, which returns 0 or, where something goes wrong on the way, the kind of error:
//
//     extern "C" int64_t NAME(void* const* memory, const int64_t* sizes, int64_t* error, tenon_parallel_for parallel)
//
// `memory` and `sizes` are those of Compiled::run; an output overlaps no other array. `error` points to four numbers,
// of which the first starts as 0: the kind, the node's number, a value and a bound. `parallel` runs the iterations of a
// loop on several threads; a null pointer runs them one after the other.
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
