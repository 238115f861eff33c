// 64-bit integer arithmetic that reports overflow instead of wrapping.
#pragma once

#include <cstdint>

#include "runtime/error.h"

namespace tenon::runtime {

[[noreturn]] inline void overflow(int64_t a, std::string_view op, int64_t b) {
  fail(TENON_INVALID_ARGUMENT, "integer overflow: ", a, op, b, " does not fit 64 bits");
}

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow(a, " + ", b);
  return result;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow(a, " * ", b);
  return result;
}

// Rounds towards minus infinity.
inline int64_t checked_floordiv(int64_t a, int64_t b) {
  if (b == 0) fail(TENON_INVALID_ARGUMENT, "division by zero: ", a, " // 0");
  if (b == -1 && a == INT64_MIN) overflow(a, " // ", b);
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// The result has the sign of the divisor.
inline int64_t checked_mod(int64_t a, int64_t b) {
  if (b == 0) fail(TENON_INVALID_ARGUMENT, "division by zero: ", a, " mod 0");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace tenon::runtime
