// Inside of symbolic: arithmetic of intervals. A result contains every result of the operands' values. It saturates: an
// end that does not fit 64 bits is unbounded.
#pragma once

#include "symbolic/expr.h"

namespace tenon::symbolic {

Interval operator+(Interval a, Interval b);
Interval operator-(Interval a);
Interval operator*(Interval a, Interval b);
Interval power(Interval base, int exponent);  // tighter than repeated products: x*x is not negative
Interval floordiv(Interval a, Interval b);
Interval mod(Interval a, Interval b);
Interval min(Interval a, Interval b);
Interval max(Interval a, Interval b);
Interval compare(Kind kind, Interval a, Interval b);  // within [0, 1]

// Contains what both contain; `a` when that is nothing.
Interval intersect(Interval a, Interval b);
// All x for which c*x is in `a`; c is positive.
Interval divide_multiples(Interval a, int64_t c);

}  // namespace tenon::symbolic
