// The scalar functions that C++ has no name for. The op table computes with them, and the text of this file is what
// backends that emit C++ put into their kernels: hence C++17, names that stand without a namespace, no empty line
// within a function and one after it.
#pragma once

#include <math.h>  // lgamma_r is POSIX: <cmath> need not have it

#include <cfloat>
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

// NaN and what does not fit 64 bits give the smallest int64. One comparison: gcc 12 crashes on vectors of two.
inline int64_t to_integer(double x) { return static_cast<int64_t>(std::fabs(x) < 0x1p63 ? x : -0x1p63); }

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

// ---- digamma and trigamma -------------------------------------------------------------------------------------------

// Between each two of its poles digamma has a zero, and near it loses the leading bits of all its terms: there they are
// added as integers, with 120 bits behind the point. |x| < 128.
inline __int128_t to_fixed(double x) { return static_cast<__int128_t>(x * 0x1p120); }

inline double from_fixed(__int128_t x) { return static_cast<double>(x) * 0x1p-120; }

// By halves; the product of the lower ones only carries. |x| + |y| < 128.
[[gnu::noinline]] inline __int128_t fixed_product(__int128_t x, __int128_t y) {
  const int64_t x_high = static_cast<int64_t>(x >> 64), y_high = static_cast<int64_t>(y >> 64);
  const uint64_t x_low = static_cast<uint64_t>(x), y_low = static_cast<uint64_t>(y);
  const uint64_t carry = static_cast<uint64_t>((static_cast<__uint128_t>(x_low) * y_low) >> 64);
  const __int128_t crossed = static_cast<__int128_t>(x_high) * y_low + static_cast<__int128_t>(y_high) * x_low + carry;
  return static_cast<__int128_t>(x_high) * y_high * 256 + (crossed >> 56);
}

// Newton's steps from what double has.
[[gnu::noinline]] inline __int128_t fixed_inverse(__int128_t x) {
  const __int128_t one = to_fixed(1);
  __int128_t y = to_fixed(1 / from_fixed(x));
  for (int step = 0; step < 2; ++step) y += fixed_product(y, one - fixed_product(x, y));
  return y;
}

// log(x), as the series of 2 * atanh((x - 1) / (x + 1)). 1/2 <= x < 2.
inline __int128_t fixed_log(__int128_t x) {
  const __int128_t one = to_fixed(1);
  const __int128_t ratio = fixed_product(x - one, fixed_inverse(x + one));
  const __int128_t square = fixed_product(ratio, ratio);
  __int128_t sum = 0;
  for (int k = 75; k > 0; k -= 2) sum = fixed_product(square, sum) + one / k;
  return 2 * fixed_product(ratio, sum);
}

// pi * cot(pi * x), by the series of sin and cos. 1/64 < |x| <= 1/2.
inline __int128_t fixed_pi_cot(double x) {
  const __int128_t one = to_fixed(1);
  const __int128_t pi =
      to_fixed(0x1.921fb54442d18p1) + to_fixed(0x1.1a62633145c07p-53) + to_fixed(-0x1.f1976b7ed8fbcp-109);
  const __int128_t angle = fixed_product(pi, to_fixed(x));
  const __int128_t square = fixed_product(angle, angle);
  __int128_t sine = one, cosine = one;
  for (__int128_t k = 38; k > 0; k -= 2) {
    sine = one - fixed_product(square, sine) / (k * (k + 1));
    cosine = one - fixed_product(square, cosine) / (k * (k - 1));
  }
  return fixed_product(pi, fixed_product(cosine, fixed_inverse(fixed_product(angle, sine))));
}

// digamma(x), or of x + 1 where that is `above`: the recurrence up to 64, and the asymptotic series from there on.
// 1/64 < x < 2^53.
inline __int128_t fixed_digamma(double x, bool above) {
  constexpr int kNumerators[] = {1, -1, 1, -1, 1, -691, 1, -3617, 43867, -174611};
  constexpr int kDenominators[] = {12, 120, 252, 240, 132, 32760, 12, 8160, 14364, 6600};
  const __int128_t one = to_fixed(1);
  int exponent = 0;
  __int128_t y = to_fixed(x < 64 ? x : std::frexp(x, &exponent));
  if (above) y += one >> exponent;
  __int128_t sum = 0;
  if (exponent == 0) {
    for (; y < 64 * one; y += one) sum -= fixed_inverse(y);
    y >>= exponent = 6;
  }
  const __int128_t inverse = fixed_inverse(y) >> exponent;
  const __int128_t square = fixed_product(inverse, inverse);
  __int128_t tail = 0;
  for (int k = 9; k >= 0; --k) tail = fixed_product(square, tail + one / kDenominators[k] * kNumerators[k]);
  const __int128_t log_of_2 =
      to_fixed(0x1.62e42fefa39efp-1) + to_fixed(0x1.abc9e3b39803fp-56) + to_fixed(0x1.7b57a079a1934p-111);
  return sum + exponent * log_of_2 + fixed_log(y) - inverse / 2 - tail;
}

inline double digamma_near_zero(double x) {
  __int128_t sum = fixed_digamma(std::fabs(x), x < 0);
  if (x < 0) sum -= fixed_pi_cot(x - std::nearbyint(x));
  return from_fixed(sum);
}

// Whether the largest of the terms that were added in long double left fewer bits of their sum than double has. Where
// long double is double, that is so whenever they cancel at all.
inline bool lost_bits(long double sum, long double largest) {
  return largest < 64 && std::fabs(sum) < largest * (LDBL_MANT_DIG < 64 ? 0.9375L : 0x1p-7L);
}

// From 12 on, the asymptotic series is exact to double precision; below 0 there is the reflection.
inline double digamma(double x) {
  if (x == 0) return std::copysign(HUGE_VAL, -x);
  if (x < 0 && x == std::floor(x)) return NAN;
  constexpr long double kPi = 3.141592653589793238462643383279502884L;
  const long double turn = x < 0 ? kPi / std::tan(kPi * (x - std::nearbyint(x))) : 0;
  long double y = x < 0 ? 1 - static_cast<long double>(x) : x;
  long double sum = 0;
  for (; y < 12; ++y) sum -= 1 / y;
  const long double z = 1 / (y * y), log = std::log(y);
  const long double first = 1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z / 132)));
  const long double tail = z * (first - z * z * z * z * z * (691.0L / 32760 - z * (1.0L / 12 - z * 3617 / 8160)));
  const long double result = sum + log - 0.5L / y - tail - turn;
  if (lost_bits(result, std::fmax(std::fmax(log, -sum), std::fabs(turn)))) return digamma_near_zero(x);
  return static_cast<double>(result);
}

// All terms are positive, but those of the reflection, which never come close to each other.
inline double trigamma(double x) {
  if (x <= 0 && x == std::floor(x)) return std::isinf(x) ? NAN : HUGE_VAL;
  constexpr long double kPi = 3.141592653589793238462643383279502884L;
  long double y = x < 0 ? 1 - static_cast<long double>(x) : x;
  long double sum = 0;
  for (; y < 12; ++y) sum += 1 / (y * y);
  const long double z = 1 / (y * y);
  const long double first = 1.0L / 6 - z * (1.0L / 30 - z * (1.0L / 42 - z * (1.0L / 30 - z * 5 / 66)));
  const long double rest = 691.0L / 2730 - z * (7.0L / 6 - z * (3617.0L / 510 - z * 43867 / 798));
  const long double positive = sum + (1 + 0.5L / y + z * (first - z * z * z * z * z * rest)) / y;
  if (x > 0) return static_cast<double>(positive);
  const long double root = kPi / std::sin(kPi * (x - std::nearbyint(x)));
  return static_cast<double>(root * root - positive);
}

}  // namespace tenon
