// Inside of codegen: the functions of real analysis, as LLVM IR that is good for any number of lanes.
//
// At most 2 ulp off (4 for pow and lgamma), for all arguments: subnormals, NaN, infinities and both zeros included.
// But for one: logaddexp near 0, where its terms cancel, has an error relative to them. PyTorch's has the same.
//
// They need nothing but arithmetic, compares, selects and bit casts, so that they are the same on every target; without
// fma they are longer. lgamma, digamma and trigamma have no such form, and are called lane by lane, by a name of
// runtime/functions.h. sin, cos and tan branch: where a lane holds a large angle (above 1e5 in f32, 1.5e6 in f64), a
// function that they add to the module reduces it.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "codegen/target.h"
#include "graph/scalar.h"

namespace tenon::codegen {

// The function of operands that are all float, or all double, or vectors of one of them. The builder must be at the end
// of a block, and may be at the end of another one after: ask it for the block before the next branch or phi.
llvm::Value* emit_math(llvm::IRBuilderBase& builder, Primitive primitive, std::span<llvm::Value* const> operands,
                       const Target& target);

}  // namespace tenon::codegen
