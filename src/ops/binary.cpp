// Elementwise arithmetic of two operands.
#include <cmath>

#include "ops/elementwise.h"

namespace tenon {
namespace {

using namespace ops;

const Samples kArithmeticSamples = binary_samples() + promoting_samples();
// For ops that do not take bool.
const Samples kNumberSamples =
    binary_samples() + Samples{"f32[3], i64[3]", "f32[3], f64[]", "i64[3], f32[]",  "f16[3], bf16[3]",
                               "u8[3], i8[3]",   "i8[2], i64[]",  "f16[2], f32[2]", "i16[2], u8[2]"};
// Integers divide by what is not 0. Nor by -1: PyTorch traps on the smallest integer.
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

const OpDef kAdd{
    .name = "add",
    .family = "binary",
    .doc = "x + y. Of two bools, whether one is true.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kAdd),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), g.dout()}; }),
    .peer = torch_is("torch.add(x, y)"),
    .samples = kArithmeticSamples,
};

const OpDef kSub{
    .name = "sub",
    .family = "binary",
    .doc = "x - y.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kSub),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), -g.dout()}; }),
    .peer = torch_is("torch.sub(x, y)"),
    .samples = kNumberSamples,
};

const OpDef kMul{
    .name = "mul",
    .family = "binary",
    .doc = "x * y. Of two bools, whether both are true.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kMul),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout() * g.in(1), g.dout() * g.in(0)}; }),
    .peer = torch_is("torch.mul(x, y)"),
    .samples = kArithmeticSamples,
};

const OpDef kDiv{
    .name = "div",
    .family = "binary",
    .doc = "x / y. Integers divide in f32.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kDiv),
    .gradient = from_operands(
        [](GradContext&, Value d, Value x, Value y) -> std::vector<Value> { return {d / y, -d * ((x / y) / y)}; }),
    .peer = torch_is("torch.div(x, y)"),
    .samples = kArithmeticSamples,
    .domain = {0.5, 4},
};

const OpDef kPow{
    .name = "pow",
    .family = "binary",
    .doc =
        "x to the power y. Integer powers of integers wrap; with a negative exponent they are 1 and -1 "
        "for those bases, "
        "else 0.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kPow),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value d = widen(g, g.dout());
      const Value x = widen(g, g.in(0));
      const Value y = widen(g, g.in(1));
      // Where the formulas would give 0 * inf, the function is constant.
      const Value constant_in_x = g.compare("eq", y, 0);
      const Value constant_in_y = g.op("bitwise_and", {g.compare("eq", x, 0), g.compare("ge", y, 0)});
      return {drop_where(g, constant_in_x, d * (y * g.pow(x, y - 1))),
              drop_where(g, constant_in_y, d * (widen(g, g.out()) * g.log(x)))};
    }),
    .peer = torch_is("torch.pow(x, y)"),
    .samples = kNumberSamples +
               Samples{"f64[64], f64[64]", "f32[64], f32[64]", "f64[5], i64[5] in -3..3", "i64[5], f32[5] in 0..2"},
    .domain = {0.2, 3},
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

const OpDef kFloorDiv{
    .name = "floor_div",
    .family = "binary",
    .doc = "x / y, rounded down. An integer division by zero is an error.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, real_floor_div, integer_floor_div),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.div(x, y, rounding_mode='floor')"),
    .samples = kDivisionSamples,
};

const OpDef kTruncDiv{
    .name = "trunc_div",
    .family = "binary",
    .doc = "x / y, rounded towards zero. An integer division by zero is an error.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(
        Compute::kPromote, [](ScalarTerm x, ScalarTerm y) { return trunc(widen(x) / widen(y)); }, Primitive::kTruncDiv),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.div(x, y, rounding_mode='trunc')"),
    .samples = kDivisionSamples,
};

const OpDef kFmod{
    .name = "fmod",
    .family = "binary",
    .doc = "x - y * trunc_div(x, y), which has the sign of x. An integer division by zero is an error.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kFmod),
    .gradient = from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
      return {d, -d * g.op("trunc_div", {x, y})};
    }),
    .peer = torch_is("torch.fmod(x, y)"),
    .samples = kDivisionSamples,
    .special_values = false,
};  // of a large x and a tiny y, PyTorch gives NaN

const OpDef kRemainder{
    .name = "remainder",
    .family = "binary",
    .doc =
        "x - y * floor_div(x, y), which has the sign of y: Python's modulo. An integer division by zero is an error.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(
        Compute::kPromote, [](ScalarTerm x, ScalarTerm y) { return modulo(widen(x), widen(y)); }, modulo),
    .gradient = from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
      return {d, -d * g.op("floor_div", {x, y})};
    }),
    .peer = torch_is("torch.remainder(x, y)"),
    .samples = kDivisionSamples,
    .special_values = false,
};  // of a large x and a tiny y, PyTorch gives NaN

// ---- extremes -------------------------------------------------------------------------------------------------------

// The winner takes the gradient, and equals share it. With a NaN there is no winner, and both take it.
Gradient extreme_gradient(std::string_view loses) {
  return gradient([loses](GradContext& g) -> std::vector<Value> {
    const Value d = g.dout();
    const Value shared = g.where(g.compare("eq", g.in(0), g.in(1)), d / 2, d);
    return {drop_where(g, g.compare(loses, g.in(0), g.in(1)), shared),
            drop_where(g, g.compare(loses, g.in(1), g.in(0)), shared)};
  });
}

const OpDef kMaximum{
    .name = "maximum",
    .family = "binary",
    .doc = "The larger of x and y; NaN if one is NaN. Of equals it is x (-0 equals 0), and they share the gradient.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kMaximum),
    .gradient = extreme_gradient("lt"),
    .peer = torch_is("torch.maximum(x, y)"),
    .samples = kArithmeticSamples,
};

const OpDef kMinimum{
    .name = "minimum",
    .family = "binary",
    .doc = "The smaller of x and y; NaN if one is NaN. Of equals it is x (-0 equals 0), and they share the gradient.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kMinimum),
    .gradient = extreme_gradient("gt"),
    .peer = torch_is("torch.minimum(x, y)"),
    .samples = kArithmeticSamples,
};

Semantics number_of_the_two(std::string_view wins) {
  return composite([wins](ExpandContext& e) -> std::vector<Value> {
    const Value is_first = e.op("bitwise_or", {e.compare(wins, e.in(0), e.in(1)), e.unary("isnan", e.in(1))});
    return {e.where(is_first, e.in(0), e.in(1))};
  });
}

const OpDef kFmax{
    .name = "fmax",
    .family = "binary",
    .doc =
        "The larger of x and y; where one is NaN, the other. Of equals it is x (-0 equals 0), which takes the "
        "gradient.",
    .operands = two_operands(),
    .infer = promoted_type,
    .semantics = number_of_the_two("ge"),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.fmax(x, y)"),
    .samples = kArithmeticSamples,
};

const OpDef kFmin{
    .name = "fmin",
    .family = "binary",
    .doc =
        "The smaller of x and y; where one is NaN, the other. Of equals it is x (-0 equals 0), which takes the "
        "gradient.",
    .operands = two_operands(),
    .infer = promoted_type,
    .semantics = number_of_the_two("le"),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.fmin(x, y)"),
    .samples = kArithmeticSamples,
};

// ---- geometry -------------------------------------------------------------------------------------------------------

const OpDef kAtan2{
    .name = "atan2",
    .family = "binary",
    .doc =
        "The angle of the point (y, x), in [-pi, pi]: x is the ordinate, as in PyTorch's `atan2(input, other)`. "
        "The gradient at the origin is 0.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAtan2),
    .gradient = from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
      const Value square = x * x + y * y;
      const Value slope = drop_where(g, g.compare("eq", square, 0), d / square);
      return {slope * y, -slope * x};
    }),
    .peer = torch_is("torch.atan2(x, y)"),
    .samples = kArithmeticSamples,
};

const OpDef kHypot{
    .name = "hypot",
    .family = "binary",
    .doc = "sqrt(x^2 + y^2), without overflow on the way. Infinite if one is, even beside NaN.",
    .operands = two_operands(kFloats),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kHypot),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value slope = widen(g, g.dout()) / widen(g, g.out());
      return {slope * g.in(0), slope * g.in(1)};
    }),
    .peer = torch_is("torch.hypot(x, y)"),
    .samples = binary_samples() + Samples{"f32[3], f64[]", "f16[3], bf16[3]", "f16[2], f32[2]"},
};

const OpDef kLogaddexp{
    .name = "logaddexp",
    .family = "binary",
    .doc = "log(exp(x) + exp(y)), without overflow.",
    .operands = two_operands(kFloats),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kLogaddexp),
    .gradient = from_operands([](GradContext& g, Value d, Value x, Value y) -> std::vector<Value> {
      return {d * g.unary("sigmoid", x - y), d * g.unary("sigmoid", y - x)};
    }),
    .peer = torch_is("torch.logaddexp(x, y)"),
    .samples = binary_samples() + Samples{"f32[3], f64[]", "f16[3], bf16[3]", "f16[2], f32[2]"},
};

const OpDef kCopysign{
    .name = "copysign",
    .family = "binary",
    .doc = "The magnitude of x with the sign of y, where -0 is negative. The gradient at x = 0 is 0.",
    .operands = two_operands(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kCopysign),
    .gradient = gradient(
        [](GradContext& g) -> std::vector<Value> { return {g.dout() * g.sign(g.in(0)) * g.sign(g.out()), Value()}; }),
    .peer = torch_is("torch.copysign(x, y)"),
    .samples = kArithmeticSamples,
};

// ---- shifts ---------------------------------------------------------------------------------------------------------

const OpDef kShiftLeft{
    .name = "shift_left",
    .family = "binary",
    .doc = "x * 2^y, wrapped. A negative shift, or one by all bits or more, gives 0.",
    .operands = two_operands(kInts),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr, Primitive::kShiftLeft),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_left_shift(x, y)"),
    .samples = binary_samples() + Samples{"u8[3], i8[3]", "i8[2], i64[]", "i64[40], i64[40] in 0..70"},
};

const OpDef kShiftRight{
    .name = "shift_right",
    .family = "binary",
    .doc = "floor(x / 2^y). A negative shift, or one by all bits or more, gives 0, or -1 for a negative x.",
    .operands = two_operands(kInts),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr, Primitive::kShiftRight),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_right_shift(x, y)"),
    .samples = binary_samples() + Samples{"u8[3], i8[3]", "i8[2], i64[]", "i64[40], i64[40] in 0..70"},
};

}  // namespace

OpFamily binary_ops() {
  static const OpDef* const ops[] = {&kAdd,   &kSub,       &kMul,      &kDiv,       &kPow,       &kFloorDiv, &kTruncDiv,
                                     &kFmod,  &kRemainder, &kMaximum,  &kMinimum,   &kFmax,      &kFmin,     &kAtan2,
                                     &kHypot, &kLogaddexp, &kCopysign, &kShiftLeft, &kShiftRight};
  return ops;
}

}  // namespace tenon
