// Integer expressions of an artifact: sizes, offsets, bounds.
#pragma once

#include <cstdint>
#include <span>

#include "format/expr_generated.h"

namespace tenon::runtime {

using format::Expr;
using format::Instruction;

inline constexpr uint32_t kDeepestExpr = 256;  // numbers on the stack

// Throws a StatusError unless the expression lies in the table, names symbols below `symbols` and leaves one number.
void verify(Expr expr, std::span<const Instruction> code, size_t symbols);

// Of a verified expression. Throws a StatusError for an overflow and a division by zero.
int64_t evaluate(Expr expr, std::span<const Instruction> code, std::span<const int64_t> symbols);

}  // namespace tenon::runtime
