// Advanced indexing, for the records that express themselves with it. See `index` and `index_put` in the op table.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ops/common.h"

namespace tenon::ops {

// An empty Value among the indices keeps its dimension. Without `wrap`, a negative index is out of range.
Value index(Builder& b, Value x, const std::vector<Value>& indices, bool wrap = false);
Value index_put(Builder& b, Value x, Value values, const std::vector<Value>& indices, std::string_view reduce, bool wrap = false);

}  // namespace tenon::ops
