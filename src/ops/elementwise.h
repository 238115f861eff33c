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

// ---- gradients ------------------------------------------------------------------------------------------------------

// Rules over the incoming gradient d and the operand, or d and the result: the backward pass keeps that value. Rules
// see f16 and bf16 as f32; the caller rounds the gradient once, to the operand's dtype.
using SlopeFn = Value (*)(GradContext& g, Value d, Value kept);
Gradient from_operand(SlopeFn rule);
Gradient from_result(SlopeFn rule);

using TwoSlopesFn = std::vector<Value> (*)(GradContext& g, Value d, Value x, Value y);
Gradient from_operands(TwoSlopesFn rule);

// The gradient of a step function: zero.
Gradient zero_gradient();

// d where the condition holds, else zero; and the other way round.
Value keep_where(GradContext& g, Value condition, Value d);
Value drop_where(GradContext& g, Value condition, Value d);

// ---- records of one line -------------------------------------------------------------------------------------------

// What differs from the usual record.
struct Unusual {
  std::string_view family = {};  // empty: "unary" or "binary"
  Domain domain = {};
  std::string_view torch = {};  // empty: PyTorch's function of the same name
  bool special_values = true;
};

OpDef unary_op(std::string_view name, std::string_view doc, DTypeSet dtypes, Semantics semantics, Gradient gradient,
               const Unusual& unusual = {});
OpDef binary_op(std::string_view name, std::string_view doc, DTypeSet dtypes, Semantics semantics, Gradient gradient,
                const Samples& samples, const Unusual& unusual = {});

// Whether the operand has a property, as bool.
OpDef predicate(std::string_view name, std::string_view doc, Value (*holds)(ExpandContext& e),
                std::string_view family = "unary");

// A function of a real number. Integers compute in f32.
template <class Real>
OpDef real_function(std::string_view name, std::string_view doc, Real real, Gradient gradient,
                    const Unusual& unusual = {}) {
  return unary_op(name, doc, kAny, real_elementwise(real), std::move(gradient), unusual);
}

}  // namespace tenon::ops
