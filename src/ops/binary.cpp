// Elementwise arithmetic of two operands.
#include <cmath>

#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

const Samples kArithmeticSamples = binary_samples() + promoting_samples();
// For ops that do not take bool.
const Samples kNumberSamples =
    binary_samples() + Samples{"f32[3], i64[3]", "f32[3], f64[]", "i64[3], f32[]",  "f16[3], bf16[3]",
                               "u8[3], i8[3]",   "i8[2], i64[]",  "f16[2], f32[2]", "i16[2], u8[2]"};
// Integer divisors are neither 0 nor -1: PyTorch traps when the smallest integer is divided by -1.
const Samples kDivisionSamples = {"f64[40], f64[40] in 0.5..4",
                                  "f64[40], f64[40] in -4..-0.5",
                                  "f16[3], bf16[3]",
                                  "f32[3], f64[]",
                                  "T[3, 4], T[3, 4] in 1..9",
                                  "T[], T[] in 1..9",
                                  "T[2, 1, 3], T[4, 1] in 2..5",
                                  "T[0, 3], T[1] in 1..2",
                                  "i64[40], i64[40] in -9..-2",
                                  "i32[9], i32[9] in -9..-2",
                                  "i16[9], i16[] in -9..-2",
                                  "i8[40], i8[40] in -9..-2",
                                  "f32[3], i64[3] in 1..9",
                                  "i64[3], f32[] in 1..9",
                                  "u8[3], i8[3] in 1..9",
                                  "i8[2], i64[] in 1..9",
                                  "f32[64], f32[64]",
                                  "f16[64], f16[64]",
                                  "bf16[64], bf16[64]"};

// ---- sums and products ----------------------------------------------------------------------------------------------

const OpDef kArithmetic[] = {
    binary_op("add", "x + y. For two bools: true if either is true.", kAny, promoting_elementwise(Primitive::kAdd),
              gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), g.dout()}; }), kArithmeticSamples),
    binary_op("sub", "x - y.", kNumbers, promoting_elementwise(Primitive::kSub),
              gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), -g.dout()}; }), kNumberSamples),
    binary_op("mul", "x * y. For two bools: true if both are true.", kAny, promoting_elementwise(Primitive::kMul),
              gradient([](GradContext& g) -> std::vector<Value> { return {g.dout() * g.in(1), g.dout() * g.in(0)}; }),
              kArithmeticSamples),
    binary_op("div", "x / y. Integers divide in f32.", kAny, real_elementwise(Primitive::kDiv),
              from_operands([](GradContext&, Value d, Value x, Value y) -> std::vector<Value> {
                return {d / y, -d * ((x / y) / y)};
              }),
              kArithmeticSamples, {.domain = {0.5, 4}}),
    binary_op("pow",
              "x to the power y. Integer powers of integers wrap; with a negative exponent they are 1 and -1 for those "
              "bases, else 0.",
              kNumbers, promoting_elementwise(Primitive::kPow), gradient([](GradContext& g) -> std::vector<Value> {
                const Value d = widen(g, g.dout());
                const Value x = widen(g, g.in(0));
                const Value y = widen(g, g.in(1));
                // Where the formulas would give 0 * inf, pow is constant in this operand.
                const Value constant_in_x = g.compare("eq", y, 0);
                const Value constant_in_y = g.op("bitwise_and", {g.compare("eq", x, 0), g.compare("ge", y, 0)});
                return {drop_where(g, constant_in_x, d * (y * g.pow(x, y - 1))),
                        drop_where(g, constant_in_y, d * (widen(g, g.out()) * g.log(x)))};
              }),
              kNumberSamples +
                  Samples{"f64[64], f64[64]", "f32[64], f32[64]", "f64[5], i64[5] in -3..3", "i64[5], f32[5] in 0..2"},
              {.domain = {0.2, 3}}),
};

// ---- division with a whole quotient, and its rest -------------------------------------------------------------------

// Python's modulo has the sign of the divisor: it differs from the rest of a truncated division by one divisor where
// their signs differ.
ScalarTerm needs_correction(ScalarTerm rest, ScalarTerm divisor) { return (rest != 0) & ((rest < 0) ^ (divisor < 0)); }

ScalarTerm modulo(ScalarTerm x, ScalarTerm y) {
  const ScalarTerm rest = fmod(x, y);
  return where(needs_correction(rest, y), rest + y, rest);
}

ScalarTerm integer_floor_div(ScalarTerm x, ScalarTerm y) {
  const ScalarTerm quotient = trunc_div(x, y);
  return where(needs_correction(fmod(x, y), y), quotient - 1, quotient);
}

// As Python does: (x - x % y) / y is whole but for its rounding, so x / y cannot round up to the next whole number.
ScalarTerm real_floor_div(ScalarTerm narrow_x, ScalarTerm narrow_y) {
  const ScalarTerm x = widen(narrow_x), y = widen(narrow_y);
  const ScalarTerm exact = x / y, rest = fmod(x, y), near = (x - rest) / y;
  const ScalarTerm quotient = where(needs_correction(rest, y), near - 1, near);
  const ScalarTerm below = floor(quotient);
  const ScalarTerm whole = where(quotient - below > 0.5, below + 1, below);
  const ScalarTerm zero = apply(Primitive::kCopysign, ScalarOperand(0).beside(x), exact);
  return where(y == 0, exact, where(quotient == 0, zero, whole));
}

const OpDef kQuotients[] = {
    binary_op("floor_div", "x / y, rounded down. An integer division by zero is an error.", kNumbers,
              elementwise(Compute::kPromote, real_floor_div, integer_floor_div), zero_gradient(), kDivisionSamples,
              {.torch = "torch.div(x, y, rounding_mode='floor')"}),
    binary_op("trunc_div", "x / y, rounded towards zero. An integer division by zero is an error.", kNumbers,
              elementwise(
                  Compute::kPromote, [](ScalarTerm x, ScalarTerm y) { return trunc(widen(x) / widen(y)); },
                  Primitive::kTruncDiv),
              zero_gradient(), kDivisionSamples, {.torch = "torch.div(x, y, rounding_mode='trunc')"}),
};

// No special values: for a large x and a tiny y PyTorch gives NaN.
const OpDef kRests[] = {
    binary_op("fmod", "x - y * trunc_div(x, y), which has the sign of x. An integer division by zero is an error.",
              kNumbers, promoting_elementwise(Primitive::kFmod),
              from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
                return {d, -d * g.op("trunc_div", {x, y})};
              }),
              kDivisionSamples, {.special_values = false}),
    binary_op(
        "remainder",
        "x - y * floor_div(x, y), which has the sign of y: Python's modulo. An integer division by zero is an error.",
        kNumbers,
        elementwise(
            Compute::kPromote, [](ScalarTerm x, ScalarTerm y) { return modulo(widen(x), widen(y)); }, modulo),
        from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
          return {d, -d * g.op("floor_div", {x, y})};
        }),
        kDivisionSamples, {.special_values = false}),
};

// ---- extremes -------------------------------------------------------------------------------------------------------

// The chosen operand takes the gradient; equal operands share it. With a NaN no comparison holds, and both take it.
Gradient extreme_gradient(std::string_view loses) {
  return gradient([loses](GradContext& g) -> std::vector<Value> {
    const Value d = g.dout();
    const Value shared = g.where(g.compare("eq", g.in(0), g.in(1)), d / 2, d);
    return {drop_where(g, g.compare(loses, g.in(0), g.in(1)), shared),
            drop_where(g, g.compare(loses, g.in(1), g.in(0)), shared)};
  });
}

// The operand that wins the comparison. A number wins against NaN.
Semantics number_of_the_two(std::string_view wins) {
  return composite([wins](ExpandContext& e) {
    const Value is_first = e.op("bitwise_or", {e.compare(wins, e.in(0), e.in(1)), e.unary("isnan", e.in(1))});
    return e.where(is_first, e.in(0), e.in(1));
  });
}

const OpDef kExtremes[] = {
    binary_op("maximum",
              "The larger of x and y; NaN if either is NaN. If they are equal (-0 equals 0), the result is x, and each "
              "gets half of the gradient.",
              kAny, promoting_elementwise(Primitive::kMaximum), extreme_gradient("lt"), kArithmeticSamples),
    binary_op("minimum",
              "The smaller of x and y; NaN if either is NaN. If they are equal (-0 equals 0), the result is x, and "
              "each gets half of the gradient.",
              kAny, promoting_elementwise(Primitive::kMinimum), extreme_gradient("gt"), kArithmeticSamples),
    binary_op("fmax",
              "The larger of x and y; where one is NaN, the other. Of equals it is x (-0 equals 0), which takes the "
              "gradient.",
              kAny, number_of_the_two("ge"), ByExpansion{}, kArithmeticSamples),
    binary_op("fmin",
              "The smaller of x and y; where one is NaN, the other. Of equals it is x (-0 equals 0), which takes the "
              "gradient.",
              kAny, number_of_the_two("le"), ByExpansion{}, kArithmeticSamples),
};

// ---- geometry -------------------------------------------------------------------------------------------------------

const OpDef kGeometry[] = {
    binary_op("atan2",
              "The angle of the point (y, x), in [-pi, pi]: x is the ordinate, as in PyTorch's `atan2(input, other)`. "
              "The gradient at the origin is 0.",
              kAny, real_elementwise(Primitive::kAtan2),
              from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
                const Value square = x * x + y * y;
                const Value slope = drop_where(g, g.compare("eq", square, 0), d / square);
                return {slope * y, -slope * x};
              }),
              kArithmeticSamples),
    binary_op("hypot",
              "sqrt(x^2 + y^2), without overflow on the way. Infinite if either operand is, even if the other is NaN.",
              kFloats, real_elementwise(Primitive::kHypot), gradient([](GradContext& g) -> std::vector<Value> {
                const Value slope = widen(g, g.dout()) / widen(g, g.out());
                return {slope * g.in(0), slope * g.in(1)};
              }),
              binary_samples() + Samples{"f32[3], f64[]", "f16[3], bf16[3]", "f16[2], f32[2]"}),
    binary_op("logaddexp", "log(exp(x) + exp(y)), without overflow.", kFloats, real_elementwise(Primitive::kLogaddexp),
              from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
                return {d * g.unary("sigmoid", x - y), d * g.unary("sigmoid", y - x)};
              }),
              binary_samples() + Samples{"f32[3], f64[]", "f16[3], bf16[3]", "f16[2], f32[2]"}),
    binary_op("copysign", "The magnitude of x with the sign of y, where -0 is negative. The gradient at x = 0 is 0.",
              kAny, real_elementwise(Primitive::kCopysign), gradient([](GradContext& g) -> std::vector<Value> {
                return {g.dout() * g.sign(g.in(0)) * g.sign(g.out()), Value()};
              }),
              kArithmeticSamples),
};

// ---- shifts ---------------------------------------------------------------------------------------------------------

const Samples kShiftSamples = binary_samples() + Samples{"u8[3], i8[3]", "i8[2], i64[]", "i64[40], i64[40] in 0..70"};

const OpDef kShifts[] = {
    binary_op("shift_left", "x * 2^y, wrapped. A negative shift, or one by all bits or more, gives 0.", kInts,
              elementwise(Compute::kPromote, nullptr, Primitive::kShiftLeft), NotDifferentiable{}, kShiftSamples,
              {.torch = "torch.bitwise_left_shift(x, y)"}),
    binary_op("shift_right",
              "floor(x / 2^y). A negative shift, or one by all bits or more, gives 0, or -1 for a negative x.", kInts,
              elementwise(Compute::kPromote, nullptr, Primitive::kShiftRight), NotDifferentiable{}, kShiftSamples,
              {.torch = "torch.bitwise_right_shift(x, y)"}),
};

}  // namespace

OpRefs binary_ops() { return records(kArithmetic, kQuotients, kRests, kExtremes, kGeometry, kShifts); }

}  // namespace tenon::ops
