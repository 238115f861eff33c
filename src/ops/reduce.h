// What the records of the reduction family share.
#pragma once

#include <functional>
#include <vector>

#include "ops/common.h"

namespace tenon::ops {

// `dims` (empty: all) and `keepdim`.
const std::vector<AttrDef>& reduction_attrs();
const Samples& reduction_samples();
const Samples& empty_reduction_samples();  // for those with a value over no elements

// The reduced shape, with a dtype.
Types reduced_to(InferContext& c, DType dtype);

// Fails when one of `dims` has size zero.
void require_elements(const OpView& view, const std::vector<int64_t>& dims);

// Calls body(result, offsets) for each result in row-major order, with the elements that it reduces.
using Offsets = std::vector<int64_t>;
void for_each_result(const Tensor& x, const std::vector<int64_t>& dims,
                     const std::function<void(int64_t, const Offsets&)>& body);

// How many elements of `shape` become one, as a scalar.
Value reduced_count(Builder& b, const Shape& shape, const std::vector<int64_t>& dims, DType dtype);

// A value of the result's shape, with the reduced dimensions as size 1, so that it broadcasts with the operand.
Value kept(GradContext& g, Value reduced);

}  // namespace tenon::ops
