// The scalar functions that C++ has no name for. The op table computes with them, and the text of this file is what
// backends that emit C++ put into their kernels: hence C++17, names that stand without a namespace, no empty line
// within a function and one after it.
#pragma once

#include <math.h>  // lgamma_r is POSIX: <cmath> need not have it

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tenon {

// ---- conversions ----------------------------------------------------------------------------------------------------

template <class T, class X>
T bits_as(X x) {
  T t;
  static_assert(sizeof t == sizeof x, "the type changes, and nothing else");
  std::memcpy(&t, &x, sizeof t);
  return t;
}

// NaN and what does not fit 64 bits give the smallest int64.
inline int64_t to_integer(double x) { return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : INT64_MIN; }

// bf16, as bits.
inline float from_brain(uint16_t x) { return bits_as<float>(static_cast<uint32_t>(x) << 16); }

// Rounds once, halves to even: first to an odd float, whose last bit remembers that something was cut off.
inline uint16_t to_brain(double x) {
  if (x != x) return 0x7fc0;
  if (std::fabs(x) >= 0x1.FFp127) return x < 0 ? 0xff80 : 0x7f80;
  const float close = static_cast<float>(x);
  uint32_t bits = bits_as<uint32_t>(close);
  if (close != x) bits = (bits - (std::fabs(static_cast<double>(close)) > std::fabs(x) ? 1 : 0)) | 1;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// ---- integers: two's complement; a divisor is not 0 -----------------------------------------------------------------

// x / -1 is written as a negation, which wraps for the smallest integer.
inline int64_t integer_quotient(int64_t x, int64_t y) {
  return y == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x / y;
}

inline int64_t integer_rest(int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }

// Python's modulo has the sign of the divisor: it differs from C's rest by one divisor where their signs differ.
template <class T>
bool needs_correction(T rest, T divisor) {
  return rest != 0 && (rest < 0) != (divisor < 0);
}

inline int64_t integer_remainder(int64_t x, int64_t y) {
  const int64_t rest = integer_rest(x, y);
  return needs_correction(rest, y) ? rest + y : rest;
}

inline int64_t integer_floor_div(int64_t x, int64_t y) {
  return integer_quotient(x, y) - (needs_correction(integer_rest(x, y), y) ? 1 : 0);
}

// The exponent may be negative: then only 1 and -1 have an integer power, and all else gives 0 as in PyTorch.
inline int64_t integer_pow(int64_t x, int64_t y) {
  if (y < 0 && x != 1 && x != -1) return 0;
  uint64_t power = 1;
  uint64_t base = static_cast<uint64_t>(x);
  for (uint64_t left = y < 0 ? -static_cast<uint64_t>(y) : static_cast<uint64_t>(y); left > 0; left /= 2) {
    if (left % 2 == 1) power *= base;
    base *= base;
  }
  return static_cast<int64_t>(power);
}

// A shift is taken as unsigned, so a negative one is a large one. A narrow dtype loses its bits when the result wraps.
inline int64_t shift_left(int64_t x, int64_t y) {
  const uint64_t shift = static_cast<uint64_t>(y);
  return shift < 64 ? static_cast<int64_t>(static_cast<uint64_t>(x) << shift) : 0;
}

inline int64_t shift_right(int64_t x, int64_t y) { return x >> (static_cast<uint64_t>(y) < 64 ? y : 63); }

// ---- division of reals with a whole quotient, and its rest ----------------------------------------------------------

inline double real_remainder(double x, double y) {
  const double rest = std::fmod(x, y);
  return needs_correction(rest, y) ? rest + y : rest;
}

// As Python does: (x - x % y) / y is whole but for its rounding, so x / y cannot round up to the next whole number.
inline double real_floor_div(double x, double y) {
  if (y == 0) return x / y;
  const double rest = std::fmod(x, y);
  double quotient = (x - rest) / y;
  if (needs_correction(rest, y)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, x / y);
  const double below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1 : below;
}

// log(exp(x) + exp(y)), without overflow on the way.
inline double log_add_exp(double x, double y) {
  if (x == y) return x + M_LN2;  // also of infinities, whose difference is NaN
  return std::fmax(x, y) + std::log1p(std::exp(-std::fabs(x - y)));
}

// ---- error and gamma functions --------------------------------------------------------------------------------------

// erf(y) - x, where y has the sign of x. Near |x| = 1 both round to 1, but their distances from 1 do not: 1 - |x| is
// exact.
inline double erf_residual(double y, double x) {
  if (std::fabs(x) < 0.5) return std::erf(y) - x;
  return std::copysign(1.0, x) * ((1 - std::fabs(x)) - std::erfc(std::fabs(y)));
}

// Winitzki's approximation is good to 2e-3; each Newton step about squares the error.
inline double erfinv(double x) {
  if (std::fabs(x) == 1) return std::copysign(HUGE_VAL, x);
  if (!(std::fabs(x) < 1)) return NAN;
  constexpr double a = 0.147;
  const double w = std::log1p(-x * x);
  const double t = 2 / (M_PI * a) + w / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - w / a) - t), x);
  for (int step = 0; step < 5; ++step) y -= erf_residual(y, x) / (M_2_SQRTPI * std::exp(-y * y));
  return y;
}

// std::lgamma writes the global `signgam`, which is a race between threads.
inline double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// From 12 on, the asymptotic series is exact to double precision.
inline double digamma(double x) {
  if (x == 0) return std::copysign(HUGE_VAL, -x);
  if (x < 0 && x == std::floor(x)) return NAN;
  if (x < 0) return digamma(1 - x) - M_PI / std::tan(M_PI * (x - std::nearbyint(x)));
  double sum = 0;
  for (; x < 12; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  const double tail =
      y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691 / 32760)))));
  return sum + std::log(x) - 0.5 / x - tail;
}

inline double trigamma(double x) {
  if (x <= 0 && x == std::floor(x)) return std::isinf(x) ? NAN : HUGE_VAL;
  if (x < 0) return std::pow(M_PI / std::sin(M_PI * (x - std::nearbyint(x))), 2) - trigamma(1 - x);
  double sum = 0;
  for (; x < 12; ++x) sum += 1 / (x * x);
  const double y = 1 / (x * x);
  const double tail =
      y * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * 691 / 2730)))));
  return sum + (1 + 0.5 / x + tail) / x;
}

}  // namespace tenon
