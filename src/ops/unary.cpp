// Elementwise ops of one operand: arithmetic, exponentials, rounding, classification, casts. The rest of the family is
// in trigonometry.cpp and special.cpp.
#include "ops/unary.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "loops/lower.h"
#include "ops/elementwise.h"

namespace tenon {
namespace {

using namespace ops;

constexpr Domain kPositive = {0.2, 4};

// ---- arithmetic -----------------------------------------------------------------------------------------------------

const OpDef kNeg{
    .name = "neg",
    .family = "unary",
    .doc = "-x. The smallest integer stays itself, and unsigned values wrap.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kNeg),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {-g.dout()}; }),
    .peer = torch_is("torch.neg(x)"),
    .samples = unary_samples(),
};

const OpDef kAbs{
    .name = "abs",
    .family = "unary",
    .doc = "The absolute value. The smallest integer stays itself. The gradient at 0 is 0.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise(Primitive::kAbs),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.sign(x); }),
    .peer = torch_is("torch.abs(x)"),
    .samples = unary_samples(),
};

const OpDef kSign{
    .name = "sign",
    .family = "unary",
    .doc = "-1, 0 or 1. The sign of NaN is 0, as in PyTorch.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = promoting_elementwise([](ScalarTerm x) { return where(x > 0, 1, where(x < 0, -1, 0)); }),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.sign(x)"),
    .samples = unary_samples(),
};

const OpDef kSquare{
    .name = "square",
    .family = "unary",
    .doc = "x * x.",
    .operands = one_operand(kNumbers),
    .infer = same_as(0),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> { return {e.in() * e.in()}; }),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d * (2 * x); }),
    .peer = torch_is("torch.square(x)"),
    .samples = unary_samples(),
};

const OpDef kSqrt{
    .name = "sqrt",
    .family = "unary",
    .doc = "The square root. Of a negative number it is NaN.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kSqrt),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d / (2 * y); }),
    .peer = torch_is("torch.sqrt(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

const OpDef kRsqrt{
    .name = "rsqrt",
    .family = "unary",
    .doc = "1 / sqrt(x).",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise([](ScalarTerm x) { return 1 / sqrt(x); }),
    .gradient = from_result([](GradContext&, Value d, Value y) { return -0.5 * d * (y * y * y); }),
    .peer = torch_is("torch.rsqrt(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

const OpDef kReciprocal{
    .name = "reciprocal",
    .family = "unary",
    .doc = "1 / x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise([](ScalarTerm x) { return 1 / x; }),
    .gradient = from_result([](GradContext&, Value d, Value y) { return -d * (y * y); }),
    .peer = torch_is("torch.reciprocal(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

// ---- exponentials and logarithms ------------------------------------------------------------------------------------

const OpDef kExp{
    .name = "exp",
    .family = "unary",
    .doc = "e to the power x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kExp),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * y; }),
    .peer = torch_is("torch.exp(x)"),
    .samples = unary_samples(),
};

const OpDef kExp2{
    .name = "exp2",
    .family = "unary",
    .doc = "2 to the power x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kExp2),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * y * std::numbers::ln2; }),
    .peer = torch_is("torch.exp2(x)"),
    .samples = unary_samples(),
};

const OpDef kExpm1{
    .name = "expm1",
    .family = "unary",
    .doc = "exp(x) - 1, exact for small x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kExpm1),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * (y + 1); }),
    .peer = torch_is("torch.expm1(x)"),
    .samples = unary_samples(),
};

const OpDef kLog{
    .name = "log",
    .family = "unary",
    .doc = "The natural logarithm. Of 0 it is -inf, of a negative number NaN.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kLog),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / x; }),
    .peer = torch_is("torch.log(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

const OpDef kLog2{
    .name = "log2",
    .family = "unary",
    .doc = "The logarithm to base 2.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kLog2),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / (x * std::numbers::ln2); }),
    .peer = torch_is("torch.log2(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

const OpDef kLog10{
    .name = "log10",
    .family = "unary",
    .doc = "The logarithm to base 10.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kLog10),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / (x * std::numbers::ln10); }),
    .peer = torch_is("torch.log10(x)"),
    .samples = unary_samples(),
    .domain = kPositive,
};

const OpDef kLog1p{
    .name = "log1p",
    .family = "unary",
    .doc = "log(1 + x), exact for small x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kLog1p),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / (x + 1); }),
    .peer = torch_is("torch.log1p(x)"),
    .samples = unary_samples(),
    .domain = {-0.8, 4},
};

const OpDef kSigmoid{
    .name = "sigmoid",
    .family = "unary",
    .doc = "1 / (1 + exp(-x)).",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kSigmoid),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * y * (1 - y); }),
    .peer = torch_is("torch.sigmoid(x)"),
    .samples = unary_samples(),
};

// ---- rounding -------------------------------------------------------------------------------------------------------

// Integers are whole already.
ScalarTerm itself(ScalarTerm x) { return x; }

const OpDef kFloor{
    .name = "floor",
    .family = "unary",
    .doc = "The largest whole number that is not above x.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, Primitive::kFloor, itself),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.floor(x)"),
    .samples = unary_samples(),
};

const OpDef kCeil{
    .name = "ceil",
    .family = "unary",
    .doc = "The smallest whole number that is not below x.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, Primitive::kCeil, itself),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.ceil(x)"),
    .samples = unary_samples(),
};

const OpDef kTrunc{
    .name = "trunc",
    .family = "unary",
    .doc = "x without its fraction.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, Primitive::kTrunc, itself),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.trunc(x)"),
    .samples = unary_samples(),
};

const OpDef kRint{
    .name = "rint",
    .family = "unary",
    .doc = "The nearest whole number, halves to even.",
    .operands = one_operand(kNumbers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, Primitive::kRint, itself),
    .gradient = zero_gradient(),
    .peer = torch_is("torch.round(x)"),
    .samples = unary_samples(),
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

const OpDef kFrac{
    .name = "frac",
    .family = "unary",
    .doc = "x - trunc(x), which has the sign of x.",
    .operands = one_operand(kFloats),
    .infer = same_as(0),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> { return {e.in() - e.unary("trunc", e.in())}; }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.frac(x)"),
    .samples = unary_samples(),
};

// ---- classification -------------------------------------------------------------------------------------------------

// Infinity beside x: integers compare with it in f32, which reaches further than any of them.
Value infinity_beside(ExpandContext& e, double sign) {
  return e.scalar(sign * kInfinity, is_float(e.in().dtype()) ? e.in().dtype() : DType::kF32);
}

const OpDef kIsnan{
    .name = "isnan",
    .family = "unary",
    .doc = "Whether x is NaN. No integer is.",
    .operands = one_operand(),
    .infer = same_shape(0, DType::kBool),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> { return {e.compare("ne", e.in(), e.in())}; }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.isnan(x)"),
    .samples = unary_samples(),
};

const OpDef kIsinf{
    .name = "isinf",
    .family = "unary",
    .doc = "Whether x is an infinity of either sign.",
    .operands = one_operand(),
    .infer = same_shape(0, DType::kBool),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value above = e.compare("eq", e.in(), infinity_beside(e, 1));
      const Value below = e.compare("eq", e.in(), infinity_beside(e, -1));
      return {e.op("bitwise_or", {above, below})};
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.isinf(x)"),
    .samples = unary_samples(),
};

const OpDef kIsfinite{
    .name = "isfinite",
    .family = "unary",
    .doc = "Whether x is neither infinite nor NaN.",
    .operands = one_operand(),
    .infer = same_shape(0, DType::kBool),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value below = e.compare("lt", e.in(), infinity_beside(e, 1));
      const Value above = e.compare("gt", e.in(), infinity_beside(e, -1));
      return {e.op("bitwise_and", {below, above})};
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.isfinite(x)"),
    .samples = unary_samples(),
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
        "x in another dtype. Floats round to nearest even, or truncate to an integer; integers wrap; bool is whether x "
        "is not 0.",
    .operands = one_operand(),
    .attrs = {{"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), c.type(0).shape}}; },
    .semantics = promoting_elementwise([](ScalarTerm x) { return x; }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout()}; }),
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
      if (to == DType::kBool && from != to) fail("the bits of {} may be no bool; use cast", name_of(from));
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

}  // namespace

OpFamily unary_ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> all = {&kNeg,     &kAbs,   &kSign,     &kSquare, &kSqrt,   &kRsqrt, &kReciprocal,
                                     &kExp,     &kExp2,  &kExpm1,    &kLog,    &kLog2,   &kLog10, &kLog1p,
                                     &kSigmoid, &kFloor, &kCeil,     &kTrunc,  &kRint,   &kRound, &kFrac,
                                     &kIsnan,   &kIsinf, &kIsfinite, &kCast,   &kBitcast};
    for (const OpFamily& more : {trigonometric_ops(), special_ops()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return ops;
}

}  // namespace tenon
