// Expressions as C and C++ text, for backends that emit it.
#pragma once

#include "symbolic/expr.h"

namespace tenon::symbolic {

// The text computes with 64-bit integers and may call the functions below. `name_of` gives a symbol's C name.
std::string to_c(const Expr& expr, const Ranges& ranges, const std::function<std::string(Symbol)>& name_of);

inline constexpr std::string_view kCFunctions =
    R"(static inline int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

static inline int64_t floormod(int64_t a, int64_t b) { return a - b * floordiv(a, b); }

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }
)";

}  // namespace tenon::symbolic
