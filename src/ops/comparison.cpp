// Comparisons, and logic on truth values and bits.
#include "ops/elementwise.h"

namespace tenon {
namespace {

using namespace ops;

const Samples kComparisonSamples = binary_samples() + promoting_samples();

// ---- comparisons: operands are promoted to one dtype, so an integer beside a float is rounded to it ---------------

const OpDef kEq{
    .name = "eq",
    .family = "comparison",
    .doc = "Whether x equals y. NaN equals nothing; -0 equals 0.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kEq),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.eq(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kNe{
    .name = "ne",
    .family = "comparison",
    .doc = "Whether x differs from y. NaN differs from everything.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kNe),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.ne(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kLt{
    .name = "lt",
    .family = "comparison",
    .doc = "Whether x is less than y; false for NaN.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kLt),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.lt(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kLe{
    .name = "le",
    .family = "comparison",
    .doc = "Whether x is at most y; false for NaN.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kLe),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.le(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kGt{
    .name = "gt",
    .family = "comparison",
    .doc = "Whether x is greater than y; false for NaN.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kGt),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.gt(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kGe{
    .name = "ge",
    .family = "comparison",
    .doc = "Whether x is at least y; false for NaN.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = promoting_elementwise(Primitive::kGe),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.ge(x, y)"),
    .samples = kComparisonSamples,
};

// ---- bits -----------------------------------------------------------------------------------------------------------

const Samples kBitSamples =
    binary_samples() + Samples{"u8[3], i8[3]", "bool[3], i32[]", "i8[2], i64[]", "i16[2], u8[2]"};

const OpDef kBitwiseAnd{
    .name = "bitwise_and",
    .family = "comparison",
    .doc = "The bits that x and y share. Of two bools, whether both are true.",
    .operands = two_operands(kIntegers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseAnd),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_and(x, y)"),
    .samples = kBitSamples,
};

const OpDef kBitwiseOr{
    .name = "bitwise_or",
    .family = "comparison",
    .doc = "The bits that x or y has. Of two bools, whether one is true.",
    .operands = two_operands(kIntegers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseOr),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_or(x, y)"),
    .samples = kBitSamples,
};

const OpDef kBitwiseXor{
    .name = "bitwise_xor",
    .family = "comparison",
    .doc = "The bits in which x and y differ. Of two bools, whether they differ.",
    .operands = two_operands(kIntegers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseXor),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_xor(x, y)"),
    .samples = kBitSamples,
};

const OpDef kBitwiseNot{
    .name = "bitwise_not",
    .family = "comparison",
    .doc = "All bits of x flipped. Of a bool, whether it is false.",
    .operands = one_operand(kIntegers),
    .infer = same_as(0),
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value all_bits = e.integer(-1, e.in().dtype());  // for bool, its only bit
      return {e.op("bitwise_xor", {e.in(), all_bits})};
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.bitwise_not(x)"),
    .samples = unary_samples(),
};

// ---- truth: what is not zero is true, NaN included ------------------------------------------------------------------

Semantics of_truths(std::string_view bitwise) {
  return composite([bitwise](ExpandContext& e) -> std::vector<Value> {
    return {e.op(bitwise, {e.cast(e.in(0), DType::kBool), e.cast(e.in(1), DType::kBool)})};
  });
}

const OpDef kLogicalAnd{
    .name = "logical_and",
    .family = "comparison",
    .doc = "Whether neither x nor y is zero.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = of_truths("bitwise_and"),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.logical_and(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kLogicalOr{
    .name = "logical_or",
    .family = "comparison",
    .doc = "Whether x or y is not zero.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = of_truths("bitwise_or"),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.logical_or(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kLogicalXor{
    .name = "logical_xor",
    .family = "comparison",
    .doc = "Whether exactly one of x and y is zero.",
    .operands = two_operands(),
    .infer = elementwise_bool,
    .semantics = of_truths("bitwise_xor"),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.logical_xor(x, y)"),
    .samples = kComparisonSamples,
};

const OpDef kLogicalNot{
    .name = "logical_not",
    .family = "comparison",
    .doc = "Whether x is zero.",
    .operands = one_operand(),
    .infer = same_shape(0, DType::kBool),
    .semantics = composite(
        [](ExpandContext& e) -> std::vector<Value> { return {e.compare("eq", e.in(), e.integer(0, e.in().dtype()))}; }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.logical_not(x)"),
    .samples = unary_samples(),
};

}  // namespace

OpFamily comparison_ops() {
  static const OpDef* const ops[] = {&kEq,         &kNe,         &kLt,         &kLe,         &kGt,
                                     &kGe,         &kBitwiseAnd, &kBitwiseOr,  &kBitwiseXor, &kBitwiseNot,
                                     &kLogicalAnd, &kLogicalOr,  &kLogicalXor, &kLogicalNot};
  return ops;
}

}  // namespace tenon
