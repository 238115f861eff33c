// 64-bit integer arithmetic that fails with a Diagnostic instead of wrapping. Sizes, offsets and symbolic expressions
// use only these functions.
#pragma once

#include <cstdint>
#include <limits>

#include "support/diagnostic.h"

namespace tenon {

inline constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) fail("integer overflow: {} + {} does not fit 64 bits", a, b);
  return result;
}

inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_sub_overflow(a, b, &result)) fail("integer overflow: {} - {} does not fit 64 bits", a, b);
  return result;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) fail("integer overflow: {} * {} does not fit 64 bits", a, b);
  return result;
}

// Rounds towards minus infinity, as Python does.
inline int64_t checked_floordiv(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero: {} // 0", a);
  if (a == kInt64Min && b == -1) fail("integer overflow: {} // -1 does not fit 64 bits", a);
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

// The remainder of checked_floordiv: it has the sign of the divisor.
inline int64_t checked_mod(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero: {} mod 0", a);
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return (remainder != 0 && (remainder < 0) != (b < 0)) ? remainder + b : remainder;
}

}  // namespace tenon
