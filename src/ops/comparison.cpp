// Comparisons, and logic on truth values and bits.
#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

const Samples kComparisonSamples = binary_samples() + promoting_samples();

OpDef comparison(std::string_view name, std::string_view doc, Semantics semantics) {
  return {.name = name,
          .family = "comparison",
          .doc = doc,
          .operands = two_operands(),
          .infer = elementwise_bool,
          .semantics = std::move(semantics),
          .gradient = NotDifferentiable{},
          .peer = torch_is_text("torch.{}(x, y)", name),
          .samples = kComparisonSamples};
}

// ---- comparisons: operands are promoted to one dtype, so an integer beside a float is rounded to it ---------------

const OpDef kComparisons[] = {
    comparison("eq", "Whether x equals y. NaN equals nothing; -0 equals 0.", promoting_elementwise(Primitive::kEq)),
    comparison("ne", "Whether x differs from y. NaN differs from everything.", promoting_elementwise(Primitive::kNe)),
    comparison("lt", "Whether x is less than y; false for NaN.", promoting_elementwise(Primitive::kLt)),
    comparison("le", "Whether x is at most y; false for NaN.", promoting_elementwise(Primitive::kLe)),
    comparison("gt", "Whether x is greater than y; false for NaN.", promoting_elementwise(Primitive::kGt)),
    comparison("ge", "Whether x is at least y; false for NaN.", promoting_elementwise(Primitive::kGe)),
};

// ---- bits -----------------------------------------------------------------------------------------------------------

const Samples kBitSamples =
    binary_samples() + Samples{"u8[3], i8[3]", "bool[3], i32[]", "i8[2], i64[]", "i16[2], u8[2]"};

constexpr Unusual kComparison = {.family = "comparison"};

const OpDef kBitwise[] = {
    binary_op("bitwise_and", "Bitwise and. For two bools: true if both are true.", kIntegers,
              elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseAnd), NotDifferentiable{}, kBitSamples,
              kComparison),
    binary_op("bitwise_or", "Bitwise or. For two bools: true if either is true.", kIntegers,
              elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseOr), NotDifferentiable{}, kBitSamples,
              kComparison),
    binary_op("bitwise_xor", "Bitwise exclusive or. For two bools: true if they differ.", kIntegers,
              elementwise(Compute::kPromote, nullptr, Primitive::kBitwiseXor), NotDifferentiable{}, kBitSamples,
              kComparison),
};

const OpDef kBitwiseNot =
    unary_op("bitwise_not", "Flips all bits of x. For a bool: logical not.", kIntegers, composite([](ExpandContext& e) {
               const Value all_bits = e.integer(-1, e.in().dtype());  // for bool, its only bit
               return e.op("bitwise_xor", {e.in(), all_bits});
             }),
             NotDifferentiable{}, kComparison);

// ---- truth: what is not zero is true, NaN included ------------------------------------------------------------------

Semantics of_truths(std::string_view bitwise) {
  return composite([bitwise](ExpandContext& e) {
    return e.op(bitwise, {e.cast(e.in(0), DType::kBool), e.cast(e.in(1), DType::kBool)});
  });
}

const OpDef kLogical[] = {
    comparison("logical_and", "Whether neither x nor y is zero.", of_truths("bitwise_and")),
    comparison("logical_or", "Whether x or y is not zero.", of_truths("bitwise_or")),
    comparison("logical_xor", "Whether exactly one of x and y is zero.", of_truths("bitwise_xor")),
};

const OpDef kLogicalNot = predicate(
    "logical_not", "Whether x is zero.",
    [](ExpandContext& e) { return e.compare("eq", e.in(), e.integer(0, e.in().dtype())); }, "comparison");

}  // namespace

OpRefs comparison_ops() { return records(kComparisons, kBitwise, kBitwiseNot, kLogical, kLogicalNot); }

}  // namespace tenon::ops
