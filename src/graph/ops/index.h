// Advanced indexing, for the records that express themselves with it. See `index` and `index_put` in the op table.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ops/common.h"

namespace tenon::ops {

// An empty Value among the indices keeps its dimension. Without `wrap`, a negative index is out of range.
Value index(Builder& b, Value x, const std::vector<Value>& indices, bool wrap = false);
Value index_put(Builder& b, Value x, Value values, const std::vector<Value>& indices, std::string_view reduce, bool wrap = false);

// 0, 1, 2, ... along one dimension of a tensor of this rank; the other sizes are 1.
Value aligned_iota(Builder& b, const Expr& size, int64_t dim, int64_t rank);

// An expression as data: i64[].
Value symbolic_scalar(Builder& b, const Expr& value);

}  // namespace tenon::ops
