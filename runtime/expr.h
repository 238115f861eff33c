// Integer expressions of an artifact: sizes, offsets, bounds.
#pragma once

#include <cstdint>
#include <span>

#include "format/expr_generated.h"

namespace tenon::runtime {

using format::Expr;
using format::Instruction;

inline constexpr uint32_t kDeepestExpr = 256;  // the deepest stack that an expression may need

// Throws a StatusError unless the expression lies in the table, uses only symbols below `symbols`, and leaves one
// number on the stack.
void verify(Expr expr, std::span<const Instruction> code, size_t symbols);

// Applies the operator. Throws a StatusError on overflow and on division by zero.
int64_t apply(format::ExprOp op, int64_t a, int64_t b);

// Evaluates a verified expression. Throws a StatusError on overflow and on division by zero.
int64_t evaluate(Expr expr, std::span<const Instruction> code, std::span<const int64_t> symbols);

}  // namespace tenon::runtime
