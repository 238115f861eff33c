// Elementwise functions of one operand, and casts.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "loops/lower.h"
#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

constexpr Unusual kPositive = {.domain = {0.2, 4}};

// ---- arithmetic -----------------------------------------------------------------------------------------------------

const OpDef kArithmetic[] = {
    unary_op("neg", "-x. The smallest integer stays itself, and unsigned values wrap.", kNumbers,
             promoting_elementwise(Primitive::kNeg), gradient([](GradContext& g) { return -g.dout(); })),
    unary_op("abs", "The absolute value. The smallest integer stays itself. The gradient at 0 is 0.", kNumbers,
             promoting_elementwise(Primitive::kAbs),
             from_operand([](GradContext& g, Value d, Value x) { return d * g.sign(x); })),
    unary_op("sign", "-1, 0 or 1. The sign of NaN is 0, as in PyTorch.", kAny,
             promoting_elementwise([](ScalarTerm x) { return where(x > 0, 1, where(x < 0, -1, 0)); }), zero_gradient()),
    unary_op("square", "x * x.", kNumbers, composite([](ExpandContext& e) { return e.in() * e.in(); }),
             from_operand([](GradContext&, Value d, Value x) { return d * (2 * x); })),
    real_function("sqrt", "The square root. NaN for a negative number.", Primitive::kSqrt,
                  from_result([](GradContext&, Value d, Value y) { return d / (2 * y); }), kPositive),
    real_function(
        "rsqrt", "1 / sqrt(x).", [](ScalarTerm x) { return 1 / sqrt(x); },
        from_result([](GradContext&, Value d, Value y) { return -0.5 * d * (y * y * y); }), kPositive),
    real_function(
        "reciprocal", "1 / x.", [](ScalarTerm x) { return 1 / x; },
        from_result([](GradContext&, Value d, Value y) { return -d * (y * y); }), kPositive),
};

// ---- exponentials and logarithms ------------------------------------------------------------------------------------

const OpDef kExponentials[] = {
    real_function("exp", "e to the power x.", Primitive::kExp,
                  from_result([](GradContext&, Value d, Value y) { return d * y; })),
    real_function("exp2", "2 to the power x.", Primitive::kExp2,
                  from_result([](GradContext&, Value d, Value y) { return d * y * std::numbers::ln2; })),
    real_function("expm1", "exp(x) - 1, exact for small x.", Primitive::kExpm1,
                  from_result([](GradContext&, Value d, Value y) { return d * (y + 1); })),
    real_function("log", "The natural logarithm. -inf at 0, NaN for a negative number.", Primitive::kLog,
                  from_operand([](GradContext&, Value d, Value x) { return d / x; }), kPositive),
    real_function("log2", "The logarithm to base 2.", Primitive::kLog2,
                  from_operand([](GradContext&, Value d, Value x) { return d / (x * std::numbers::ln2); }), kPositive),
    real_function("log10", "The logarithm to base 10.", Primitive::kLog10,
                  from_operand([](GradContext&, Value d, Value x) { return d / (x * std::numbers::ln10); }), kPositive),
    real_function("log1p", "log(1 + x), exact for small x.", Primitive::kLog1p,
                  from_operand([](GradContext&, Value d, Value x) { return d / (x + 1); }), {.domain = {-0.8, 4}}),
    real_function("sigmoid", "1 / (1 + exp(-x)).", Primitive::kSigmoid,
                  from_result([](GradContext&, Value d, Value y) { return d * y * (1 - y); })),
};

// ---- rounding -------------------------------------------------------------------------------------------------------

// Integers are whole already.
ScalarTerm itself(ScalarTerm x) { return x; }

const OpDef kRounding[] = {
    unary_op("floor", "The largest whole number that is not above x.", kNumbers,
             elementwise(Compute::kPromote, Primitive::kFloor, itself), zero_gradient()),
    unary_op("ceil", "The smallest whole number that is not below x.", kNumbers,
             elementwise(Compute::kPromote, Primitive::kCeil, itself), zero_gradient()),
    unary_op("trunc", "x without its fraction.", kNumbers, elementwise(Compute::kPromote, Primitive::kTrunc, itself),
             zero_gradient()),
    unary_op("rint", "The nearest whole number, halves to even.", kNumbers,
             elementwise(Compute::kPromote, Primitive::kRint, itself), zero_gradient(), {.torch = "torch.round(x)"}),
};

Value round_to_decimals(ExpandContext& e, Value x) {
  const int64_t decimals = e.integer("decimals");
  if (decimals == 0) return e.unary("rint", x);
  // Both directions use a power that is a whole number, hence exact: 0.1 is not.
  const double power = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  return decimals > 0 ? e.unary("rint", x * power) / power : e.unary("rint", x / power) * power;
}

const OpDef kRound{
    .name = "round",
    .family = "unary",
    .doc = "Rounds to a number of decimals, halves to even. Negative `decimals` round to tens, hundreds, and so on.",
    .operands = one_operand(kNumbers),
    .attrs = {{"decimals", AttrKind::kInt, "how many digits to keep behind the point", Attr(int64_t{0})}},
    .infer = [](InferContext& c) -> Types {
      if (c.integer("decimals") != 0 && is_integral(c.type(0).dtype)) {
        fail("integers ({}) round to 0 decimals only, got {}", name_of(c.type(0).dtype), c.integer("decimals"));
      }
      return {c.type(0)};
    },
    .semantics = wide_composite(round_to_decimals),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.round(x, decimals=decimals) if decimals else torch.round(x)"),
    .samples =
        unary_samples() + Samples{"f32[12]; decimals=1", "f32[2, 3]; decimals=3", "f32[12] in -200..200; decimals=-1",
                                  "f64[]; decimals=1", "f32[0]; decimals=1"},
};

const OpDef kFrac =
    unary_op("frac", "x - trunc(x), which has the sign of x.", kFloats,
             composite([](ExpandContext& e) { return e.in() - e.unary("trunc", e.in()); }), ByExpansion{});

// ---- classification -------------------------------------------------------------------------------------------------

// Infinity in a dtype that compares with x. Integers compare in f32, which has a larger range.
Value infinity_beside(ExpandContext& e, double sign) {
  return e.scalar(sign * kInfinity, is_float(e.in().dtype()) ? e.in().dtype() : DType::kF32);
}

const OpDef kClassification[] = {
    predicate("isnan", "Whether x is NaN. False for integers.",
              [](ExpandContext& e) { return e.compare("ne", e.in(), e.in()); }),
    predicate("isinf", "Whether x is an infinity of either sign.",
              [](ExpandContext& e) {
                const Value above = e.compare("eq", e.in(), infinity_beside(e, 1));
                const Value below = e.compare("eq", e.in(), infinity_beside(e, -1));
                return e.op("bitwise_or", {above, below});
              }),
    predicate("isfinite", "Whether x is neither infinite nor NaN.",
              [](ExpandContext& e) {
                const Value below = e.compare("lt", e.in(), infinity_beside(e, 1));
                const Value above = e.compare("gt", e.in(), infinity_beside(e, -1));
                return e.op("bitwise_and", {below, above});
              }),
};

// ---- other dtypes ---------------------------------------------------------------------------------------------------

// Every dtype to every other, wide integers also with values that wrap. A negative float is no u8, and a float that
// fits no integer has no cast: PyTorch leaves those undefined.
Samples cast_samples() {
  Samples samples = {"T[]; dtype=f32", "T[0]; dtype=i64", "T[2, 0, 3]; dtype=f16"};
  for (DType to : kAllDTypes) {
    samples.push_back(fmt::format("T[3, 4] in 0..40; dtype={}", name_of(to)));
    for (DType from : {DType::kI64, DType::kI32, DType::kI16}) {
      samples.push_back(fmt::format("{}[9] in -300..300; dtype={}", name_of(from), name_of(to)));
    }
    for (DType from : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      if (to != DType::kU8) samples.push_back(fmt::format("{}[9] in -100..100; dtype={}", name_of(from), name_of(to)));
    }
  }
  return samples;
}

const OpDef kCast{
    .name = "cast",
    .family = "unary",
    .doc =
        "x in another dtype. Floats round to nearest even, or truncate to an integer; integers wrap; a nonzero x is "
        "true.",
    .operands = one_operand(),
    .attrs = {{"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), c.type(0).shape}}; },
    .semantics = promoting_elementwise([](ScalarTerm x) { return x; }),
    .gradient = gradient([](GradContext& g) { return g.dout(); }),
    .loops = [](LoopContext& l) { l.out(l.cast(l.in(), l.dtype("dtype"))); },
    .is_plumbing = true,
    .peer = torch_is("x.to(dtype)"),
    .samples = cast_samples(),
    .special_values = false,
};  // PyTorch leaves a float that fits no integer undefined

const OpDef kBitcast{
    .name = "bitcast",
    .family = "unary",
    .doc = "The bits of x read as another dtype of the same width.",
    .operands = one_operand(),
    .attrs = {{"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types {
      const DType from = c.type(0).dtype;
      const DType to = c.dtype("dtype");
      if (size_of(from) != size_of(to)) fail("{} and {} differ in width", name_of(from), name_of(to));
      if (to == DType::kBool && from != to) fail("the bits of {} may not be a bool: use cast", name_of(from));
      return {{to, c.type(0).shape}};
    },
    .semantics = reference([](ReferenceContext& c) {
      const int64_t width = size_of(c.out().dtype());
      int64_t position = 0;
      for_each_index(c.in().shape(), [&](const Sizes& index) {
        std::memcpy(c.out().data() + position++ * width, c.in().data() + c.in().offset(index) * width,
                    static_cast<size_t>(width));
      });
    }),
    .gradient = NotDifferentiable{},
    .loops = [](LoopContext& l) { l.out(l.bitcast(l.in(), l.dtype("dtype"))); },
    .peer = torch_is("x.view(dtype)"),
    .samples = Samples{"f32[3, 4]; dtype=i32", "i32[4]; dtype=f32", "f64[]; dtype=i64", "i64[2, 1]; dtype=f64",
                       "f16[5]; dtype=bf16", "bf16[0, 2]; dtype=i16", "i8[40]; dtype=u8", "bool[3]; dtype=u8"},
};

// ---- trigonometric and hyperbolic functions -------------------------------------------------------------------------

const OpDef kTrigonometry[] = {
    real_function("sin", "The sine of an angle in radians.", Primitive::kSin,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.cos(x); })),
    real_function("cos", "The cosine of an angle in radians.", Primitive::kCos,
                  from_operand([](GradContext& g, Value d, Value x) { return -d * g.sin(x); })),
    real_function("tan", "The tangent of an angle in radians.", Primitive::kTan,
                  from_result([](GradContext&, Value d, Value y) { return d * (1 + y * y); }), {.domain = {-1.3, 1.3}}),
    real_function("asin", "The inverse sine, in [-pi/2, pi/2]. NaN outside [-1, 1].", Primitive::kAsin,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(1 - x * x); }),
                  {.domain = {-0.9, 0.9}}),
    real_function("acos", "The inverse cosine, in [0, pi]. NaN outside [-1, 1].", Primitive::kAcos,
                  from_operand([](GradContext& g, Value d, Value x) { return -d * g.rsqrt(1 - x * x); }),
                  {.domain = {-0.9, 0.9}}),
    real_function("atan", "The inverse tangent, in [-pi/2, pi/2].", Primitive::kAtan,
                  from_operand([](GradContext&, Value d, Value x) { return d / (x * x + 1); })),
    real_function("sinh", "The hyperbolic sine.", Primitive::kSinh,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("cosh", x); })),
    real_function("cosh", "The hyperbolic cosine.", Primitive::kCosh,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("sinh", x); })),
    real_function("tanh", "The hyperbolic tangent.", Primitive::kTanh,
                  from_result([](GradContext&, Value d, Value y) { return d * (1 - y * y); })),
    real_function("asinh", "The inverse hyperbolic sine.", Primitive::kAsinh,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(x * x + 1); })),
    real_function("acosh", "The inverse hyperbolic cosine. NaN below 1.", Primitive::kAcosh,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(x * x - 1); }),
                  {.domain = {1.2, 4}}),
    real_function("atanh", "The inverse hyperbolic tangent. NaN outside [-1, 1].", Primitive::kAtanh,
                  from_operand([](GradContext&, Value d, Value x) { return d / (1 - x * x); }),
                  {.domain = {-0.9, 0.9}}),
};

// ---- error and gamma functions --------------------------------------------------------------------------------------

constexpr double kTwoBySqrtPi = 2 * std::numbers::inv_sqrtpi;

const OpDef kErrorAndGamma[] = {
    real_function("erf", "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.", Primitive::kErf,
                  from_operand([](GradContext& g, Value d, Value x) { return kTwoBySqrtPi * d * g.exp(-(x * x)); })),
    real_function("erfc", "1 - erf(x), exact where erf(x) is close to 1.", Primitive::kErfc,
                  from_operand([](GradContext& g, Value d, Value x) { return -kTwoBySqrtPi * d * g.exp(-(x * x)); })),
    real_function("erfinv", "The inverse of erf. Infinite at -1 and 1, NaN outside.", Primitive::kErfinv,
                  from_result([](GradContext& g, Value d, Value y) { return d * g.exp(y * y) / kTwoBySqrtPi; }),
                  {.domain = {-0.95, 0.95}}),
    real_function("lgamma", "The logarithm of the absolute value of the gamma function.", Primitive::kLgamma,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("digamma", x); }),
                  {.domain = {0.2, 6}}),
    real_function("digamma", "The derivative of lgamma. NaN at negative integers.", Primitive::kDigamma,
                  from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("trigamma", x); }),
                  {.domain = {0.2, 6}}),
};

const OpDef kTrigamma{
    .name = "trigamma",
    .family = "unary",
    .doc = "The derivative of digamma: the gradient of digamma needs it. Infinite at 0 and negative integers.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kTrigamma),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.polygamma(1, x)"),
    .samples =
        Samples{"f64[3, 4]", "f32[40]", "f16[2, 3]", "bf16[]", "f32[0]", "i64[5] in 1..9", "u8[1] in 1..9", "bool[4]"},
    .domain = {0.2, 6},
    .special_values = false,
};  // PyTorch misses the poles below 0: its sin(pi * x) is not 0 there

}  // namespace

OpRefs unary_ops() {
  return records(kArithmetic, kExponentials, kRounding, kRound, kFrac, kClassification, kCast, kBitcast, kTrigonometry,
                 kErrorAndGamma, kTrigamma);
}

}  // namespace tenon::ops
