// Advanced indexing, for the records that express themselves with it. See `index` and `index_put` in the op table.
#pragma once

#include <string_view>
#include <vector>

#include "ops/common.h"

namespace tenon::ops {

// An empty Value among the indices keeps its dimension. Without `wrap`, a negative index is out of range.
Value index(Builder& b, Value x, const std::vector<Value>& indices, bool wrap = false);
Value index_put(Builder& b, Value x, Value values, const std::vector<Value>& indices, std::string_view reduce,
                bool wrap = false);

// An index along dimension `dim`: `none` for the dimensions before it.
std::vector<Value> index_along(Builder& b, int64_t dim, Value index);

// ---- places: an index of one dimension for each element, as in gather and scatter -----------------------------------

// x; a scalar becomes a vector of one element, as PyTorch allows here.
Value with_dims(Builder& b, Value x);
Shape shape_with_dims(const TensorType& type);

// Fails unless `index` has the rank of x and fits in it, in all dimensions but `dim`. Symbolic
// sizes are checked in the run: a place out of range is an index out of range.
void check_places(InferContext& c, size_t x, size_t index);

// The element of each place, with the index in dimension `dim`, as indices of all dimensions.
std::vector<Value> index_places(Builder& b, Value index, int64_t dim);

// ---- building blocks ------------------------------------------------------------------------------------------------

// 0, 1, 2, ... along one dimension of a tensor of this rank; the other sizes are 1.
Value aligned_iota(Builder& b, const Expr& size, int64_t dim, int64_t rank);

// An expression as data: i64[].
Value symbolic_scalar(Builder& b, const Expr& value);

}  // namespace tenon::ops
