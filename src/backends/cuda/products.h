// Matrix products of a LoopTree: roots marked tile "cublaslt". Such a root is a nest of loops around
//
//     %x = view, cast, mul ...   of each operand, if any: by a number that is known
//     %p = mul(%x, %y)
//     %c = reduce add(%p)
//
// and, after the loops that the sum folds, the sum plus a bias for each column, a cast and a write, if any:
//
//     %w = cast(%bias)
//     %d = add(%c, %w)
//     %e = cast(%d)
//     %o = write 0 (%e)
#pragma once

#include <functional>
#include <optional>

#include "backends/cuda/code.h"
#include "loops/compiler.h"

namespace tenon {

inline constexpr const char* kProductTile = "cublaslt";

bool is_product_root(const loops::LoopTree& tree, loops::TreeRef root);

struct MatchedProduct {
  CudaMatmul step;                        // the addresses have offsets, and no buffers
  int64_t a = 0, b = 0, d = 0, bias = 0;  // positions in the Compiler's list of memory
};

// What a node multiplies by a number that is known. None if it does something else.
loops::NodeRef scaled_operand(const loops::IR& ir, loops::NodeRef ref);

// Empty if cuBLASLt has no such product. Then `is_dense` operands, and operands without a cast, may still have one.
std::optional<MatchedProduct> match_product(const loops::Compiler& compiler, loops::TreeRef root);

}  // namespace tenon
