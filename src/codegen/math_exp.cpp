// Powers of e, and what is made of them. All take x apart as n ln(2) + r, so that exp(x) is 2^n exp(r).
#include <llvm/IR/IntrinsicsX86.h>

#include <numbers>
#include <optional>

#include "codegen/math_functions.h"
#include "codegen/math_tables.h"

namespace tenon::codegen::math {
namespace {

// The sum of a number and this one has the number, rounded to a whole one, in its lowest bits: plus twice the bias of
// an exponent, so that they are never negative.
double rounder(Real x) { return x.pick(0x1.8p23 + 254, 0x1.8p52 + 2046); }

struct Reduced {
  Real whole;  // n
  Bits lowest_bits;
  Real close;       // x - n ln(2), but for ln(2)'s last digits,
  Real correction;  // and these
};

Reduced round_to_whole(Real x, double scale) {
  const Real sum = mul_add(x, scale, rounder(x));
  return {sum - rounder(x), bits_of(sum), x, x};
}

// Products of n with the first part of ln(2) are exact.
Reduced reduce(Real x) {
  const double* ln2 = x.is_f64() ? kLn2F64 : kLn2F32;
  Reduced reduced = round_to_whole(x, kLog2eF64[0]);
  reduced.close = mul_add(reduced.whole, -ln2[0], x);
  reduced.correction = reduced.whole * ln2[1];
  return reduced;
}

// exp(r) - 1 less `close`. The correction comes in where sums are small, so that r is as good as exact.
Real expm1_beyond(const Reduced& x) {
  const Real r = x.close - x.correction;
  return mul_add(evaluate(kExpm1, r), r * r, -x.correction);
}

Real expm1_of(const Reduced& x) { return x.close + expm1_beyond(x); }

// exp(r), where r has half an ulp of error.
Real exp_of_rest(Real r) { return mul_add(evaluate(kExp, r), r * r, r) + 1; }

// 2^r, where r is exact.
Real exp2_of_rest(Real r) { return mul_add(evaluate(kExp2, r), r, 1); }

// 2^n by its exponent alone: n must not leave the normal numbers.
Real power_of_two(Bits lowest_bits) {
  const bool is_f64 = lowest_bits.is_64();
  return real_of((lowest_bits - bias(is_f64)) << mantissa_bits(is_f64));
}

// What AVX-512 has for one register.
struct Instructions {
  llvm::Intrinsic::ID scale;  // x 2^n, whatever n is
  llvm::Intrinsic::ID rest;   // x less the nearest whole number; of infinity 0
};

std::optional<Instructions> instructions_for(Real x) {
  const Target& target = x.context->target;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x.value->getType());
  const bool fills_register = vector != nullptr && vector->getPrimitiveSizeInBits() == 512;
  if (!fills_register || target.arch != Arch::kX86 || target.vector_bytes != 64) return std::nullopt;
  if (x.is_f64())
    return Instructions{llvm::Intrinsic::x86_avx512_mask_scalef_pd_512, llvm::Intrinsic::x86_avx512_mask_reduce_pd_512};
  return Instructions{llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, llvm::Intrinsic::x86_avx512_mask_reduce_ps_512};
}

Real call(llvm::Intrinsic::ID instruction, Real x, llvm::Value* operand) {
  llvm::IRBuilderBase& b = x.builder();
  constexpr int kCurrentRounding = 4;
  llvm::Value* all_lanes = x.is_f64() ? b.getInt8(0xff) : b.getInt16(0xffff);
  return {{x.context,
           b.CreateIntrinsic(instruction, {}, {x.value, operand, x.value, all_lanes, b.getInt32(kCurrentRounding)})}};
}

// x 2^n, in two steps, of which the last one alone rounds: the result may be subnormal or infinite.
Real scale(Real x, const Reduced& by) {
  if (const auto instructions = instructions_for(x)) return call(instructions->scale, x, by.whole.value);
  const int shift = mantissa_bits(x.is_f64());
  const Bits half = (by.lowest_bits << (shift - 1)) & (exponent_mask(x.is_f64()) | sign_bit(x.is_f64()));
  return x * real_of(half) * real_of((by.lowest_bits << shift) - half);
}

// Below this, exp is 0, and above the other infinite.
Real clamp_exponent(Real x) { return at_least(at_most(x, x.pick(89, 710)), x.pick(-104, -746)); }

}  // namespace

Real exp(Real x) {
  const Real clamped = clamp_exponent(x);
  const double* ln2 = x.is_f64() ? kLn2F64 : kLn2F32;
  const Reduced reduced = round_to_whole(clamped, kLog2eF64[0]);
  const Real rest = mul_add(reduced.whole, -ln2[1], mul_add(reduced.whole, -ln2[0], clamped));
  return scale(exp_of_rest(rest), reduced);
}

// f exp(r) is f + f (exp(r) - 1).
Real exp_times(Real x, Real low, const TwoReals& factor) {
  Reduced reduced = reduce(x);
  reduced.correction = reduced.correction - low;
  const Real product = factor.high + mul_add(factor.high, expm1_of(reduced), factor.low);
  return scale(product, reduced);
}

Real exp2(Real x) {
  if (const auto instructions = instructions_for(x)) {
    constexpr int kToNearest = 8;
    const Real rest = call(instructions->rest, x, x.builder().getInt32(kToNearest));
    return call(instructions->scale, exp2_of_rest(rest), (x - rest).value);
  }
  const Real clamped = at_least(at_most(x, x.pick(129, 1025)), x.pick(-151, -1076));
  const Reduced reduced = round_to_whole(clamped, 1);
  return scale(exp2_of_rest(clamped - reduced.whole), reduced);
}

Real exp2_of_sum(Real x, Real low) {
  const Reduced reduced = round_to_whole(x, 1);
  return scale(exp_of_rest(((x - reduced.whole) + low) * std::numbers::ln2), reduced);
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
  const Real half = mul_add(expm1_of(reduced), power, power - 0.5);
  return with_sign(half + half, sign_of(x));
}

Real one_minus_exp(Real x) {
  const double* ln2 = x.is_f64() ? kLn2F64 : kLn2F32;
  const Reduced reduced = round_to_whole(x, -kLog2eF64[0]);
  // -r, and exp(r) to the digits that exp has: what they are off by is little beside x.
  const Real rest = mul_add(reduced.whole, ln2[1], mul_add(reduced.whole, ln2[0], x));
  const Real power = power_of_two(reduced.lowest_bits);
  const Real gone = mul_add(evaluate(kExp, -rest), rest * rest, -rest);
  return mul_add(gone, -power, 1 - power);
}

// With x = n ln(2) + r, it is 2^n / (1 + 2^n + (exp(-r) - 1)). In the sum 2^n may be too small to count.
Real sigmoid(Real x) {
  const Reduced reduced = reduce(at_least(at_most(x, x.pick(20, 40)), x.pick(-104, -746)));
  const Real rest = expm1_of({reduced.whole, reduced.lowest_bits, -reduced.close, -reduced.correction});
  const Real power = power_of_two(bits_of(at_least(reduced.whole, -100) + rounder(x)));
  const Real sum = power + 1;
  const Real lost = power - (sum - 1);  // nothing, where 2^n is above 1
  return scale(1 / (sum + (rest + lost)), reduced);
}

// (1 - exp(-2|x|)) / (1 + exp(-2|x|)), where exp is 2^n (1 + close + beyond), and products with 2^n are exact.
Real tanh(Real x) {
  const Reduced reduced = reduce(at_most(abs(x), x.pick(10, 20)) * -2);
  const Real power = power_of_two(reduced.lowest_bits);
  const Real close = reduced.close * power, beyond = expm1_beyond(reduced) * power;
  const TwoReals sum = fast_two_sum(power + 1, close), difference = fast_two_sum(1 - power, -close);
  const Real below = sum.low + beyond, divisor = sum.high + below;
  // What the divisor lost changes the quotient by that part of it; 3/4 is near enough to 1 / divisor.
  const Real change = difference.high * ((sum.high - divisor) + below) * 0.75;
  const Real quotient = (difference.high + (difference.low - (beyond + change))) / divisor;
  return with_sign(quotient, sign_of(x));
}

namespace {

// sinh and cosh of |x| are half of 2^n exp(r) -+ 2^-n exp(-r): sums of sinh(r) and cosh(r) with a = (2^n - 2^-n) / 4
// and b = (2^n + 2^-n) / 4 before them, doubled at the end since 2^n may be too large.
struct Hyperbolic {
  Real a, b;
  Real close, beyond;  // sinh(r) is their sum
  Real coshm1;         // cosh(r) - 1
  Real b_lost;         // what b is short of
};

Hyperbolic hyperbolic(Real size) {
  const Reduced reduced = reduce(at_most(size, size.pick(89.5, 710.6)));
  const Real r = reduced.close - reduced.correction, square = r * r;
  const Real growing = power_of_two(reduced.lowest_bits - 2);
  // 2^-n counts for nothing long before it leaves the normal numbers.
  const Real limited = at_most(reduced.whole, 80) * -1 + (rounder(size) - 2);
  const Real shrinking = power_of_two(bits_of(limited));
  const Real beyond = mul_add(evaluate(kSinh, square) * square, r, -reduced.correction);
  const TwoReals b = fast_two_sum(growing, shrinking);
  return {growing - shrinking, b.high, reduced.close, beyond, evaluate(kCosh, square) * square, b.low};
}

}  // namespace

Real sinh(Real x) {
  const Hyperbolic h = hyperbolic(abs(x));
  const Real half = mul_add(h.b, h.close, h.a) + mul_add(h.a, h.coshm1, h.b * h.beyond);
  return with_sign(half + half, sign_of(x));
}

Real cosh(Real x) {
  const Hyperbolic h = hyperbolic(abs(x));
  const Real half = mul_add(h.a, h.close, h.b) + mul_add(h.b, h.coshm1, mul_add(h.a, h.beyond, h.b_lost));
  return half + half;
}

}  // namespace tenon::codegen::math
