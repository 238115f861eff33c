// The error functions, and powers.
#include <numbers>
#include <optional>

#include "codegen/math_functions.h"
#include "codegen/math_tables.h"

namespace tenon::codegen::math {

// erfc(x) = exp(-t), where t = x + x P(x) is a smooth function.
Real erf(Real x) {
  const Real size = at_most(abs(x), x.pick(4, 6));
  return with_sign(one_minus_exp(mul_add(evaluate(kErf, size), size, size)), sign_of(x));
}

namespace {

// exp(-x^2) (9/8 + P(q)) / (1 + 2x), where the square is that of the upper half of x's digits, which is exact, plus a
// rest.
Real erfc_of_positive(Real x, std::span<const double> polynomial, double center) {
  const Real upper = real_of(bits_of(x) & 0xfffffffff8000000);
  const Real rest = (upper - x) * (upper + x);
  const Real q = (x - center) / (x + center);
  return exp_times(-(upper * upper), rest,
                   quotient(two_sum(x.constant(1.125), evaluate(polynomial, q)), two_sum(x.constant(1), x + x)));
}

}  // namespace

Real erfc(Real x) {
  if (!x.is_f64()) {
    const Real wide = to_f64(x);
    const Real result = erfc_of_positive(at_most(abs(wide), 11), kErfcF32, 3);
    return to_f32(select(wide < 0, 2 - result, result));
  }
  // Where x is small, an error of q would be too large.
  const Real size = abs(x), small = at_most(size, 1);
  const TwoReals exponent = fast_two_sum(small, evaluate(kErf, small) * small);
  const Real near = exp_times(-exponent.high, -exponent.low, {x.constant(1), x.constant(0)});
  const Real result = select(size < 0.75, near, erfc_of_positive(at_most(size, 27.3), kErfcF64, 4));
  return select(x < 0, 2 - result, result);
}

namespace {

// log2(x) to the precision that f32 needs, of a positive f64 that is normal.
Real short_log2(Real x) {
  const Scaled scaled = split_normal(x);
  const Real f = scaled.mantissa - 1;
  return mul_add(evaluate(kShortLog2F32, f), f, scaled.exponent);
}

Real erfinv_at_ends(Real x, Real inside) {
  const Real size = abs(x);
  const Real at_end = select(size == 1, x * kInfinity, inside);
  return select(size > 1, kNan, at_end);
}

// x P(w) with w = -log(1 - x^2), in powers of w, or of its root where that is large.
Real erfinv_f64(Real x) {
  const Real w = -log((1 - x) * (x + 1)), root = sqrt(w);
  const TwoReals center = evaluate_in_two(kErfinvCenterF64, w - 1);
  const TwoReals tail = evaluate_in_two(kErfinvTailF64, root - 3.25), end = evaluate_in_two(kErfinvEndF64, root - 5);
  const Mask is_center = w < 6.25, is_tail = root < 4;
  const Real high = select(is_center, center.high, select(is_tail, tail.high, end.high));
  const Real low = select(is_center, center.low, select(is_tail, tail.low, end.low));
  const TwoReals product = two_product(high, x);
  // Of a tiny x, the product's low part is below what there is.
  return product.high + mul_add(low, x, select(abs(x) > 0x1p-900, product.low, 0));
}

Real erfinv_f32(Real x) {
  const Real w = short_log2((1 - x) * (x + 1)) * -std::numbers::ln2;
  const Real center = evaluate(kErfinvCenterF32, w - 2.5), tail = evaluate(kErfinvTailF32, sqrt(w) - 3.125);
  return select(w < 5, center, tail) * x;
}

}  // namespace

// The sign is that of x; of -0 a sum may have lost it.
Real erfinv(Real x) {
  const Real inside = x.is_f64() ? erfinv_f64(x) : to_f32(erfinv_f32(to_f64(x)));
  return with_sign(abs(erfinv_at_ends(x, inside)), sign_of(x));
}

// ---- pow ------------------------------------------------------------------------------------------------------------

namespace {

// log2(|x|), where 0 and infinity have their limits.
Real at_ends(Real size, Real logarithm) {
  return select(size == 0, -kInfinity, select(size < kInfinity, logarithm, size));
}

// 2^(y log2(size)), in f64 for f32: the conversion rounds, and makes results subnormal or infinite.
Real pow_f32(Real size, Real y) {
  const Real wide = to_f64(size);
  const Real power = at_least(at_most(to_f64(y) * at_ends(wide, short_log2(wide)), 200), -200);
  return to_f32(short_exp2(power));
}

TwoReals product(const TwoReals& x, const TwoReals& y) {
  const TwoReals high = two_product(x.high, y.high);
  return fast_two_sum(high.high, mul_add(x.high, y.low, mul_add(x.low, y.high, high.low)));
}

TwoReals sum(const TwoReals& larger, const TwoReals& smaller) {
  const TwoReals high = fast_two_sum(larger.high, smaller.high);
  return fast_two_sum(high.high, high.low + (larger.low + smaller.low));
}

TwoReals constant(Real like, const double (&parts)[2]) { return {like.constant(parts[0]), like.constant(parts[1])}; }

// (m - 1) / (m + 1).
TwoReals ratio_to_one(Real m) {
  const Real f = m - 1;
  return quotient({f, f.constant(0)}, fast_two_sum(f.constant(2), f));
}

// log2(x) to twice the precision but for a few bits: s = (m - 1) / (m + 1), and log(m) is 2s + 2/3 s^3 + ...
TwoReals long_log2(Real x) {
  const Scaled scaled = split_exponent(x);
  const TwoReals s = ratio_to_one(scaled.mantissa);
  const TwoReals square = product(s, s);
  const TwoReals cubic = product(product(square, s), constant(x, kTwoThirds));
  const Real beyond = evaluate(kLongLogF64, square.high) * (square.high * square.high) * s.high;
  const TwoReals twice = {s.high * 2, s.low * 2};
  const TwoReals log = sum(twice, {cubic.high, cubic.low + beyond});
  return sum({scaled.exponent, x.constant(0)}, product(log, constant(x, kLog2eF64)));
}

Real pow_f64(Real size, Real y) {
  const TwoReals logarithm = long_log2(size);
  const Real high = at_ends(size, logarithm.high);
  const TwoReals power = two_product(y, high);
  const Real low = mul_add(y, logarithm.low, power.low);
  // Beyond these the result is 0 or infinite, and the low part may be infinity - infinity.
  const Mask is_usual = abs(power.high) < 1100;
  return exp2_of_sum(at_least(at_most(power.high, 1100), -1100), select(is_usual, low, 0));
}

// The number that all lanes are, where that is known while the code is made.
std::optional<double> known(Real x) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(x.value);
  if (constant == nullptr) return {};
  if (constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number == nullptr ? std::nullopt
                           : std::optional(x.is_f64() ? number->getValueAPF().convertToDouble()
                                                      : number->getValueAPF().convertToFloat());
}

Real floor(Real x) { return {{x.context, x.builder().CreateUnaryIntrinsic(llvm::Intrinsic::floor, x.value)}}; }

}  // namespace

// Squares and cubes are products: they round once or twice, and have the same limits.
Real pow(Real x, Real y) {
  if (known(y) == 2) return x * x;
  if (known(y) == 3) return x * x * x;
  const Real size = abs(x), half = y * 0.5;
  const Mask is_whole = floor(y) == y, is_even = floor(half) == half;
  Real result = x.is_f64() ? pow_f64(size, y) : pow_f32(size, y);
  result = select((size == 1) & !is_nan(y), 1, result);
  // NaN < 0 is false: that of x = NaN stays.
  result = select((x < 0) & (x > -kInfinity) & !is_whole, kNan, result);
  const Bits sign = select(is_whole & !is_even, sign_of(x), bits_of(x).constant(0));
  return select((x == 1) | (y == 0), 1, flip(result, sign));
}

}  // namespace tenon::codegen::math
