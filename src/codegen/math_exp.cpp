// Powers of e, and what is made of them. All take x apart as n ln(2) + r, so that exp(x) is 2^n exp(r).
#include <numbers>

#include "codegen/math_functions.h"
#include "codegen/math_tables.h"

namespace tenon::codegen::math {
namespace {

// The sum of a number and this one has the number, rounded to a whole one, in its lowest bits: plus twice the bias of
// an exponent, so that they are never negative.
double rounder(Real x) { return x.pick(0x1.8p23 + 254, 0x1.8p52 + 2046); }

struct Reduced {
  Real rest;   // r
  Real whole;  // n
  Bits lowest_bits;
};

Reduced round_to_whole(Real x, double scale) {
  const Real sum = mul_add(x, scale, rounder(x));
  return {x, sum - rounder(x), bits_of(sum)};
}

// Products of n with the first part are exact.
Reduced reduce(Real x, RealOperand low = 0.0) {
  const double* ln2 = x.is_f64() ? kLn2F64 : kLn2F32;
  Reduced reduced = round_to_whole(x, kLog2eF64[0]);
  reduced.rest = mul_add(reduced.whole, -ln2[0], x);
  if (low.real.value != nullptr) reduced.rest = reduced.rest + low;
  reduced.rest = mul_add(reduced.whole, -ln2[1], reduced.rest);
  return reduced;
}

Real expm1_of_rest(Real r) { return mul_add(evaluate(kExp, r), r * r, r); }
Real exp_of_rest(Real r) { return expm1_of_rest(r) + 1; }

// 2^n by its exponent alone: n must not leave the normal numbers.
Real power_of_two(Bits lowest_bits) {
  const bool is_f64 = lowest_bits.is_64();
  return real_of((lowest_bits - bias(is_f64)) << mantissa_bits(is_f64));
}

// In two steps, of which the last one alone rounds: the result may be subnormal or infinite.
Real scale(Real x, Bits lowest_bits) {
  const int shift = mantissa_bits(x.is_f64());
  const Bits half = (lowest_bits << (shift - 1)) & (exponent_mask(x.is_f64()) | sign_bit(x.is_f64()));
  return x * real_of(half) * real_of((lowest_bits << shift) - half);
}

// Below this, exp is 0, and above the other infinite.
Real clamp_exponent(Real x) { return at_least(at_most(x, x.pick(89, 710)), x.pick(-104, -746)); }

}  // namespace

Real exp(Real x) {
  const Reduced reduced = reduce(clamp_exponent(x));
  return scale(exp_of_rest(reduced.rest), reduced.lowest_bits);
}

Real exp_times(Real x, Real low, Real factor) {
  const Reduced reduced = reduce(x, low);
  return scale(exp_of_rest(reduced.rest) * factor, reduced.lowest_bits);
}

Real exp2(Real x) {
  const Real clamped = at_least(at_most(x, x.pick(129, 1025)), x.pick(-151, -1076));
  const Reduced reduced = round_to_whole(clamped, 1);
  return scale(exp_of_rest((clamped - reduced.whole) * std::numbers::ln2), reduced.lowest_bits);
}

Real exp2_of_sum(Real x, Real low) {
  const Reduced reduced = round_to_whole(x, 1);
  return scale(exp_of_rest(((x - reduced.whole) + low) * std::numbers::ln2), reduced.lowest_bits);
}

Real short_exp2(Real x) {
  const Reduced reduced = round_to_whole(x, 1);
  return evaluate(kShortExp2F32, x - reduced.whole) * power_of_two(reduced.lowest_bits);
}

// 2 * (t expm1(r) + (t - 1/2)) with t = 2^(n - 1), which is exp(x) - 1 without 2^n, that could overflow. The sign of x
// is that of the result, and of -0 there is no other trace.
Real expm1(Real x) {
  const Real clamped = at_least(at_most(x, x.pick(89, 710)), x.pick(-20, -40));
  const Reduced reduced = reduce(clamped);
  const Real power = power_of_two(reduced.lowest_bits - 1);
  const Real half = mul_add(expm1_of_rest(reduced.rest), power, power - 0.5);
  return with_sign(half + half, sign_of(x));
}

Real one_minus_exp(Real x) {
  const Reduced reduced = reduce(-x);
  const Real power = power_of_two(reduced.lowest_bits);
  return mul_add(expm1_of_rest(reduced.rest), -power, 1 - power);
}

// exp(-|x|) cannot overflow.
Real sigmoid(Real x) {
  const Real small = at_least(-abs(x), x.pick(-104, -746));
  const Reduced reduced = reduce(small);
  const Real power = scale(exp_of_rest(reduced.rest), reduced.lowest_bits);
  return select(x < 0, power, 1) / (power + 1);
}

// (1 - exp(-2|x|)) / (1 + exp(-2|x|)), each with 2^n apart from exp(r) - 1.
Real tanh(Real x) {
  const Real size = at_most(abs(x), x.pick(10, 20));
  const Reduced reduced = reduce(size * -2);
  const Real power = power_of_two(reduced.lowest_bits);
  const Real rest = expm1_of_rest(reduced.rest);
  const Real quotient = mul_add(rest, -power, 1 - power) / mul_add(rest, power, power + 1);
  return with_sign(quotient, sign_of(x));
}

namespace {

// sinh and cosh of |x| are half of 2^n exp(r) -+ 2^-n exp(-r): sums of sinh(r) and cosh(r) with a = (2^n - 2^-n) / 4
// and b = (2^n + 2^-n) / 4 before them, doubled at the end since 2^n may be too large.
struct Hyperbolic {
  Real a, b;
  Real sinh;    // of r
  Real coshm1;  // cosh(r) - 1
};

Hyperbolic hyperbolic(Real size) {
  const Reduced reduced = reduce(at_most(size, size.pick(90, 711)));
  const Real r = reduced.rest, square = r * r;
  const Real growing = power_of_two(reduced.lowest_bits - 2);
  // 2^-n counts for nothing long before it leaves the normal numbers.
  const Real limited = at_most(reduced.whole, 80) * -1 + (rounder(size) - 2);
  const Real shrinking = power_of_two(bits_of(limited));
  return {growing - shrinking, growing + shrinking, mul_add(evaluate(kSinh, square) * square, r, r),
          evaluate(kCosh, square) * square};
}

}  // namespace

Real sinh(Real x) {
  const Hyperbolic h = hyperbolic(abs(x));
  const Real half = h.a + mul_add(h.a, h.coshm1, h.b * h.sinh);
  return with_sign(half + half, sign_of(x));
}

Real cosh(Real x) {
  const Hyperbolic h = hyperbolic(abs(x));
  const Real half = h.b + mul_add(h.b, h.coshm1, h.a * h.sinh);
  return half + half;
}

}  // namespace tenon::codegen::math
