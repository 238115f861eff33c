// Logarithms, and what is made of them. All take x apart as 2^e (1 + f).
#include "codegen/math_functions.h"
#include "codegen/math_tables.h"

namespace tenon::codegen::math {
namespace {

struct Reduced {
  Bits exponent_bits;  // those of 2^e
  Real exponent;       // e
  Real fraction;       // f, from sqrt(1/2) - 1 to sqrt(2) - 1
};

// Of a normal number. Where it is not positive or not finite, the fraction is of no use, but no trap either.
Reduced reduce(Real x) {
  const bool is_f64 = x.is_f64();
  const uint64_t one = bits_of_one(is_f64);
  const uint64_t half_root = is_f64 ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  const Bits bits = bits_of(x);
  const Bits exponent_bits = (bits + (one - half_root)) & exponent_mask(is_f64);
  // In the lowest bits of 2^52 (2^23), the biased exponent is a number.
  const double carrier = x.pick(0x1p23, 0x1p52);
  const Bits carried = (exponent_bits >> mantissa_bits(is_f64)) | bits_of(x.constant(carrier));
  const Real exponent = real_of(carried) - (carrier + static_cast<double>(bias(is_f64)));
  return {exponent_bits, exponent, real_of(bits - exponent_bits + one) - 1};
}

struct Normal {
  Real number;
  Real exponent_change;
};

Normal to_normal(Real x) {
  const Mask is_subnormal = x < x.pick(0x1p-126, 0x1p-1022);
  return {select(is_subnormal, x * x.pick(0x1p24, 0x1p54), x), select(is_subnormal, x.constant(x.pick(24, 54)), 0)};
}

// log(1 + f) - f.
Real log_beyond_fraction(Real f) {
  const Real square = f * f;
  if (!f.is_f64()) return mul_add(evaluate(kLog, f) * f, square, square * -0.5);
  const Real s = f / (f + 2);
  const Real z = s * s;
  const Real half = square * 0.5;
  return mul_add(mul_add(evaluate(kLog, z), z, half), s, -half);
}

Real log_of(Real exponent, Real fraction, Real beyond) {
  const double* ln2 = fraction.is_f64() ? kLn2F64 : kLn2F32;
  return mul_add(exponent, ln2[0], fraction + mul_add(exponent, ln2[1], beyond));
}

// To a base whose logarithm is 1 / scale: the part of the exponent is e * (of_two[0] + of_two[1]).
Real log_to_base(Reduced x, const double* scale, std::span<const double> of_two) {
  const Real low = mul_add(x.fraction, scale[1], log_beyond_fraction(x.fraction) * scale[0]);
  const TwoReals product = two_product(x.fraction, low.constant(scale[0]));
  const Real fraction = product.high + (product.low + mul_add(x.exponent, of_two[1], low));
  return mul_add(x.exponent, of_two[0], fraction);
}

// -infinity at 0, NaN below, and what is not finite stays.
Real at_special_values(Real x, Real result) {
  result = select(x < kInfinity, result, x);
  result = select(x < 0, kNan, result);
  return select(x == 0, -kInfinity, result);
}

Reduced reduce_any(Real x) {
  const Normal normal = to_normal(x);
  Reduced reduced = reduce(normal.number);
  reduced.exponent = reduced.exponent - normal.exponent_change;
  return reduced;
}

// log(1 + x + low), for x >= 0 or not much below, and finite; low is small beside x.
Real log1p_of_sum(Real x, RealOperand low) {
  const TwoReals sum = two_sum(x.constant(1), x);
  const Reduced reduced = reduce(sum.high);
  const Bits twice_one = reduced.exponent_bits.constant(2 * bits_of_one(x.is_f64()));
  const Real inverse = real_of(twice_one - reduced.exponent_bits);
  // What the sum lost, in the fraction's scale. Of a large x it counts for nothing, and 2^-e need not be normal.
  const Real lost = low.real.value == nullptr ? sum.low : sum.low + low;
  const Real fraction = reduced.fraction + select(x < x.pick(0x1p60, 0x1p100), lost * inverse, 0);
  return log_of(reduced.exponent, fraction, log_beyond_fraction(fraction));
}

}  // namespace

Scaled split_exponent(Real x) {
  const Reduced reduced = reduce_any(x);
  return {reduced.fraction + 1, reduced.exponent};
}

Scaled split_normal(Real x) {
  const Reduced reduced = reduce(x);
  return {reduced.fraction + 1, reduced.exponent};
}

Real log(Real x) {
  const Reduced reduced = reduce_any(x);
  return at_special_values(x, log_of(reduced.exponent, reduced.fraction, log_beyond_fraction(reduced.fraction)));
}

Real log2(Real x) {
  constexpr double kOne[] = {1, 0};
  return at_special_values(x, log_to_base(reduce_any(x), x.is_f64() ? kLog2eF64 : kLog2eF32, kOne));
}

Real log10(Real x) {
  return at_special_values(x, log_to_base(reduce_any(x), x.is_f64() ? kLog10eF64 : kLog10eF32,
                                          x.is_f64() ? std::span(kLog10Of2F64) : std::span(kLog10Of2F32)));
}

Real log1p(Real x) {
  Real result = log1p_of_sum(x, 0.0);
  result = select(x < kInfinity, result, x);
  result = select(x < -1, kNan, result);
  result = select(x == -1, -kInfinity, result);
  return select(x == 0, x, result);
}

// log(2x) where the square would overflow.
Real log_of_twice(Real x) {
  const Reduced reduced = reduce(x);
  return log_of(reduced.exponent + 1, reduced.fraction, log_beyond_fraction(reduced.fraction));
}

// log1p(|x| + (sqrt(x^2 + 1) - 1)).
Real asinh(Real x) {
  const Real size = abs(x), square = size * size;
  const TwoReals sum = two_sum(size, square / (sqrt(square + 1) + 1));
  const Mask is_large = size > size.pick(0x1p30, 0x1p60);
  Real result = select(is_large, log_of_twice(size), log1p_of_sum(sum.high, sum.low));
  result = select(size < kInfinity, result, size);
  return with_sign(select(size == 0, size, result), sign_of(x));
}

// log1p(t + sqrt(2t + t^2)) with t = x - 1, which is exact where it matters.
Real acosh(Real x) {
  const Real t = x - 1;
  const TwoReals square = two_product(t, t);
  const TwoReals radicand = two_sum(t + t, square.high);
  const Real root = sqrt(radicand.high);
  // One step of Newton's method gives the digits beyond.
  const TwoReals check = two_product(root, root);
  const Real rest = ((radicand.high - check.high) - check.low) + (radicand.low + square.low);
  const Real root_low = select(root > 0, rest / (root + root), 0);
  const TwoReals sum = two_sum(root, t);
  Real result = log1p_of_sum(sum.high, sum.low + root_low);
  result = select(x > x.pick(0x1p30, 0x1p60), log_of_twice(x), result);
  result = select(x < kInfinity, result, x);
  return select(x < 1, kNan, result);
}

// log1p(2|x| / (1 - |x|)) / 2.
Real atanh(Real x) {
  const Real size = abs(x), twice = size + size;
  const TwoReals divisor = two_sum(x.constant(1), -size);
  const TwoReals ratio = quotient({twice, x.constant(0)}, divisor);
  Real result = log1p_of_sum(ratio.high, ratio.low) * 0.5;
  result = select(size == 1, kInfinity, select(size < 1, result, kNan));
  return with_sign(select(size < x.pick(0x1p-13, 0x1p-28), size, result), sign_of(x));
}

// The larger one + log1p(exp(-difference)); equal infinities have no difference.
Real logaddexp(Real x, Real y) {
  const Real larger = select((x > y) | is_nan(x), x, y);
  const Real result = larger + log1p(exp(-abs(x - y)));
  return select((x == y) & (abs(x) == kInfinity), x, result);
}

}  // namespace tenon::codegen::math
