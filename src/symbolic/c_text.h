// Expressions as C and C++ text, for backends that emit it.
#pragma once

#include "symbolic/expr.h"

namespace tenon::symbolic {

// Over 64-bit integers. Minimum, maximum, and division and modulo where the signs may matter, are calls of least(a, b),
// most(a, b), floordiv(a, b) and floormod(a, b). `name_of` gives a symbol's C name; `ranges` says what is known of it.
std::string to_c(const Expr& expr, const Ranges& ranges, const std::function<std::string(Symbol)>& name_of);

}  // namespace tenon::symbolic
