// Functions of angles, and angles.
#include <numbers>

#include "codegen/math_functions.h"
#include "codegen/math_reduction.h"
#include "codegen/math_tables.h"

namespace tenon::codegen::math {
namespace {

// Each is a sum whose first part is larger.
struct SinCos {
  TwoReals sin;
  TwoReals cos;
};

// Of r + low, at most pi / 4.
SinCos sin_cos(const Angle& angle) {
  const Real r = angle.rest, square = r * r;
  const Real cubic = mul_add(evaluate(kSin, square), square * r, angle.low);
  const Real below_one = mul_add(mul_add(evaluate(kCos, square), square, -0.5), square, -(r * angle.low));
  return {{r, cubic}, {r.constant(1), below_one}};
}

Real rounded(const TwoReals& x) { return x.high + x.low; }

TwoReals select(Mask mask, const TwoReals& x, const TwoReals& y) {
  return {codegen::select(mask, x.high, y.high), codegen::select(mask, x.low, y.low)};
}

// The sign's bit, where this bit of the quadrant is set.
Bits sign_from(Bits quadrant, int bit) {
  const int width = quadrant.is_64() ? 64 : 32;
  return (quadrant << (width - 1 - bit)) & sign_bit(quadrant.is_64());
}

}  // namespace

Real sin(Real x) {
  const Angle angle = reduce_angle(abs(x));
  const SinCos both = sin_cos(angle);
  const Real size = rounded(select((angle.quadrant & 1) != 0, both.cos, both.sin));
  return flip(size, sign_from(angle.quadrant, 1) ^ sign_of(x));
}

Real cos(Real x) {
  const Angle angle = reduce_angle(abs(x));
  const SinCos both = sin_cos(angle);
  const Real size = rounded(select((angle.quadrant & 1) != 0, both.sin, both.cos));
  return flip(size, sign_from(angle.quadrant + 1, 1));
}

Real tan(Real x) {
  const Angle angle = reduce_angle(abs(x));
  const SinCos both = sin_cos(angle);
  const Mask is_odd = (angle.quadrant & 1) != 0;
  const TwoReals over = select(is_odd, both.cos, both.sin), under = select(is_odd, both.sin, both.cos);
  const TwoReals size = quotient(fast_two_sum(over.high, over.low), fast_two_sum(under.high, under.low));
  return flip(rounded(size), sign_from(angle.quadrant, 0) ^ sign_of(x));
}

namespace {

// asin(|x|) is root + beyond, or for a large |x|, pi/2 - 2 (root + beyond).
struct Arc {
  Mask is_large;
  Real root;
  Real beyond;
};

Arc arc_of(Real size) {
  const Mask is_large = size > 0.5;
  const Real square = select(is_large, (1 - size) * 0.5, size * size);
  const Real root = select(is_large, sqrt(square), size);
  return {is_large, root, evaluate(kAsin, square) * square * root};
}

double half_pi(Real x) { return x.pick(kHalfPiF32[0], kHalfPiF64[0]); }
double half_pi_low(Real x) { return x.pick(kHalfPiF32[1], kHalfPiF64[1]); }

}  // namespace

Real asin(Real x) {
  const Arc arc = arc_of(abs(x));
  const TwoReals rest = fast_two_sum(x.constant(half_pi(x)), arc.root * -2);
  const Real large = rest.high - (arc.beyond * 2 - (rest.low + half_pi_low(x)));
  return with_sign(abs(select(arc.is_large, large, arc.root + arc.beyond)), sign_of(x));
}

Real acos(Real x) {
  const Arc arc = arc_of(abs(x));
  const Real small = arc.root + arc.beyond, twice = small * 2;
  const Real negative = 2 * half_pi(x) - (twice - 2 * half_pi_low(x));
  const Real large = select(x < 0, negative, twice);
  const Real middle = half_pi(x) - (flip(small, sign_of(x)) - half_pi_low(x));
  return select(arc.is_large, large, middle);
}

namespace {

// atan(y / x) for y, x >= 0, not both 0 and not both infinite. The quotient of the smaller by the larger is at most 1,
// and above tan(pi/8) its difference from pi/4 is used.
Real atan_of_quotient(Real y, Real x) {
  const Mask is_steep = y > x;
  const Real smaller = select(is_steep, x, y), larger = select(is_steep, y, x);
  const Mask is_near_one = smaller > larger * (std::numbers::sqrt2 - 1);
  const TwoReals below = fast_two_sum(-larger, smaller), above = fast_two_sum(larger, smaller);
  const Real zero = x.constant(0);
  const TwoReals ratio =
      quotient(select(is_near_one, below, {smaller, zero}), select(is_near_one, above, {larger, zero}));
  const Real square = ratio.high * ratio.high;
  const Real quarter = select(is_near_one, x.constant(half_pi(x) / 2), 0);
  const Real quarter_low = select(is_near_one, ratio.low + half_pi_low(x) / 2, 0);
  const Real beyond = mul_add(evaluate(kAtan, square) * square, ratio.high, quarter_low);
  // pi/4, or 0, + ratio: neither is exact, but the larger one comes first.
  const Real flat = quarter + (ratio.high + beyond);
  const Real steep = (half_pi(x) - quarter) - (ratio.high + (beyond - half_pi_low(x)));
  return select(is_steep, steep, flat);
}

}  // namespace

Real atan(Real x) {
  const Real size = abs(x);
  const Real result = atan_of_quotient(at_most(size, x.pick(0x1p60, 0x1p200)), x.constant(1));
  return with_sign(result, sign_of(x));
}

Real atan2(Real y, Real x) {
  const Real y_size = abs(y), x_size = abs(x);
  // Sums and their splits in halves must not overflow, nor products be subnormal; what is lost of a small one beside a
  // large one is below any result.
  const Real larger = select(y_size > x_size, y_size, x_size);
  const Mask is_large = larger > x.pick(0x1p100, 0x1p900), is_small = larger < x.pick(0x1p-100, 0x1p-900);
  const Real factor =
      select(is_large, x.pick(0x1p-30, 0x1p-100), select(is_small, x.constant(x.pick(0x1p64, 0x1p200)), 1));
  const Mask both_zero = (y_size == 0) & (x_size == 0);
  const Mask both_infinite = (y_size == kInfinity) & (x_size == kInfinity);
  const Real ordinate = select(both_infinite, 1, y_size * factor);
  const Real abscissa = select(both_infinite | both_zero, 1, x_size * factor);
  const Real angle = atan_of_quotient(ordinate, abscissa);
  const Real mirrored = 2 * half_pi(x) - (angle - 2 * half_pi_low(x));
  const Mask is_left = (bits_of(x) & sign_bit(x.is_f64())) != 0;
  return with_sign(abs(select(is_left, mirrored, angle)), sign_of(y));
}

// The larger one is brought near 1, so that squares neither overflow nor vanish.
Real hypot(Real x, Real y) {
  const Real a = abs(x), b = abs(y);
  const Real larger = select(a > b, a, b);
  const Mask is_large = larger > x.pick(0x1p60, 0x1p500), is_small = larger < x.pick(0x1p-40, 0x1p-400);
  const double down = x.pick(0x1p-70, 0x1p-600), up = x.pick(0x1p100, 0x1p600);
  const Real factor = select(is_large, down, select(is_small, x.constant(up), 1));
  const Real back = select(is_large, 1 / down, select(is_small, x.constant(1 / up), 1));
  const Real p = a * factor, q = b * factor;
  const Real result = sqrt(mul_add(p, p, q * q)) * back;
  return select((a == kInfinity) | (b == kInfinity), kInfinity, result);
}

}  // namespace tenon::codegen::math
