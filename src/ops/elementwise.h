// What the records of elementwise ops share beyond common.h.
#pragma once

#include "ops/common.h"

namespace tenon::ops {

inline std::vector<OperandDef> one_operand(DTypeSet dtypes = kAny) { return {{"x", dtypes}}; }
inline std::vector<OperandDef> two_operands(DTypeSet dtypes = kAny) { return {{"x", dtypes}, {"y", dtypes}}; }

// ---- semantics ------------------------------------------------------------------------------------------------------

// One expression for floats and integers; the op computes in the promoted dtype.
template <class Fn>
Semantics promoting_elementwise(Fn fn) {
  return elementwise(Compute::kPromote, fn, fn);
}

// A composite of one operand that computes wide, and rounds once.
using WideFn = Value (*)(ExpandContext&, Value x);
Semantics wide_composite(WideFn body);

// The broadcast shape and promoted dtype of all operands that are present: of a composite, what elementwise_type is of
// an elementwise op.
Types promoted_type(InferContext& c);

// ---- gradients ------------------------------------------------------------------------------------------------------

// Rules in terms of the incoming gradient d and either the operand or the result: which of them must be kept for it.
// They see f16 and bf16 as f32; what they return is rounded once, to the operand's dtype, by the caller.
using SlopeFn = Value (*)(GradContext& g, Value d, Value kept);
Gradient from_operand(SlopeFn rule);
Gradient from_result(SlopeFn rule);

using TwoSlopesFn = std::vector<Value> (*)(GradContext& g, Value d, Value x, Value y);
Gradient from_operands(TwoSlopesFn rule);

// Of a step function: zero wherever it exists.
Gradient zero_gradient();

// d where the condition holds, else zero; and the other way round.
Value keep_where(GradContext& g, Value condition, Value d);
Value drop_where(GradContext& g, Value condition, Value d);

}  // namespace tenon::ops
