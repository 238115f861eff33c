// The vocabulary that op records are written in. A record should read as a definition: what is shared between records
// lives here.
#pragma once

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/builder.h"
#include "graph/op.h"
#include "graph/reference.h"
#include "ops/families.h"

namespace tenon::ops {

using Types = std::vector<TensorType>;
using Samples = std::vector<std::string>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- semantics ------------------------------------------------------------------------------------------------------

// Expressions for floats and for integers (graph/scalar.h): a Primitive, a function over ScalarTerms, or nullptr.
template <class Real, class Integer>
Semantics elementwise(Compute compute, Real real, Integer integer) {
  const bool selects = compute == Compute::kSelect;
  return Elementwise{compute, ScalarFn::make(real, selects), ScalarFn::make(integer, selects)};
}

// Integers and bool compute in f32, as in PyTorch.
template <class Real>
Semantics real_elementwise(Real real) {
  return elementwise(Compute::kPromoteToFloat, real, nullptr);
}

inline Semantics reference(std::function<void(ReferenceContext&)> run) { return Reference{std::move(run)}; }
inline Semantics composite(std::function<std::vector<Value>(ExpandContext&)> run) { return Expansion{std::move(run)}; }
inline Gradient gradient(GradientFn fn) { return fn; }

// How many elements a tensor has, whose sizes are all known.
double known_count(const TensorType& type);

// Copies one element between tensors, converting its dtype; the bits stay where the dtypes are the same.
void copy_element(Tensor& out, int64_t to, const Tensor& in, int64_t from);

// Two's complement, without the undefined behaviour of signed overflow.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// ---- shape and dtype rules ------------------------------------------------------------------------------------------

// Of an elementwise op: the broadcast shape, and the dtype that it computes in or bool.
Types elementwise_type(InferContext& c);
Types elementwise_bool(InferContext& c);

// The type of an operand, perhaps with another dtype.
InferFn same_as(size_t operand);
InferFn same_shape(size_t operand, DType dtype);

Shape without_dims(const Shape& shape, const std::vector<int64_t>& dims, bool keepdim);

// f16 and bf16 compute in f32.
inline DType wide(DType dtype) { return is_float(dtype) && size_of(dtype) == 2 ? DType::kF32 : dtype; }
inline Value widen(Builder& b, Value x) { return b.cast(x, wide(x.dtype())); }

// ---- samples --------------------------------------------------------------------------------------------------------

// One operand: rank 0, sizes 0 and 1, several dimensions.
const Samples& unary_samples();
// Two and three operands that broadcast, and mixed dtypes.
const Samples& binary_samples();
const Samples& promoting_samples();
const Samples& ternary_samples();

Samples operator+(const Samples& a, const Samples& b);

}  // namespace tenon::ops
