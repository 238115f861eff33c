// Inside of codegen: the functions of real analysis, as LLVM IR that is good for any number of lanes.
//
// At most 2 ulp off (4 for pow, lgamma), for all arguments: subnormals, NaN, infinities and both zeros included. No
// function branches; none needs anything but arithmetic, compares, selects and bit casts, so that it is the same on
// every target. A few have no such form and are called lane by lane, by a name of runtime/functions.h.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>
#include <string_view>

#include "codegen/target.h"

namespace tenon::codegen {

// Whether `op`, a name of the op table, is one of these: exp, log, sin, pow, ...
bool is_math(std::string_view op);

// The function of operands that are all float, or all double, or vectors of one of them.
llvm::Value* emit_math(llvm::IRBuilderBase& builder, std::string_view op, std::span<llvm::Value* const> operands,
                       const Target& target);

}  // namespace tenon::codegen
