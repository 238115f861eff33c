// The vocabulary that op records are written in. A record should read as a definition: what is shared between records
// lives here.
#pragma once

#include <limits>
#include <span>
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

// An expansion or a gradient is a function that gives one Value, or a list of them.
inline std::vector<Value> listed(Value value) { return {value}; }
inline std::vector<Value> listed(std::vector<Value> values) { return values; }

template <class Fn>
Semantics composite(Fn fn) {
  return Expansion{[fn](ExpandContext& e) { return listed(fn(e)); }};
}
template <class Fn>
Gradient gradient(Fn fn) {
  return GradientFn([fn](GradContext& g) { return listed(fn(g)); });
}

// The peer that a text with "{}" gives. Records live as long as the program, and so does the text.
std::string_view kept_text(std::string text);
template <class... Args>
Peer torch_is_text(MessageFor<Args...> format, const Args&... args) {
  return torch_is(kept_text(fill_in(format, args...)));
}

// How many elements a tensor has, whose sizes are all known.
double known_count(const TensorType& type);

// Copies one element between tensors and converts its dtype. Equal dtypes copy the bits.
void copy_element(Tensor& out, int64_t to, const Tensor& in, int64_t from);

// Two's complement, without the undefined behaviour of signed overflow.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// ---- shape and dtype rules ------------------------------------------------------------------------------------------

// The broadcast shape. The dtype is the one that an elementwise op computes in (for a composite, the promoted dtype),
// or bool.
Types elementwise_type(InferContext& c);
Types elementwise_bool(InferContext& c);

// The type of an operand, perhaps with another dtype.
InferFn same_as(size_t operand);
InferFn same_shape(size_t operand, DType dtype);

Shape without_dims(const Shape& shape, const std::vector<int64_t>& dims, bool keepdim);

// first, ... end - 1.
std::vector<int64_t> dims_between(int64_t first, int64_t end);

// A vector along one dimension of a tensor of this rank; the other sizes are 1.
Value along(Builder& b, Value vector, int64_t dim, int64_t rank);

// f16 and bf16 compute in f32.
inline Value widen(Builder& b, Value x) { return b.cast(x, wide(x.dtype())); }

// ---- the records of a file ------------------------------------------------------------------------------------------

inline std::span<const OpDef> as_span(const OpDef& record) { return {&record, 1}; }
inline std::span<const OpDef> as_span(std::span<const OpDef> records) { return records; }

// Single records and arrays of records, in order.
template <class... Parts>
OpRefs records(const Parts&... parts) {
  OpRefs refs;
  for (std::span<const OpDef> part : {as_span(parts)...}) {
    for (const OpDef& record : part) refs.push_back(&record);
  }
  return refs;
}

// ---- samples --------------------------------------------------------------------------------------------------------

// One operand: rank 0, sizes 0 and 1, several dimensions.
const Samples& unary_samples();
// Two and three operands that broadcast, and mixed dtypes.
const Samples& binary_samples();
const Samples& promoting_samples();
const Samples& ternary_samples();

Samples operator+(const Samples& a, const Samples& b);

}  // namespace tenon::ops
