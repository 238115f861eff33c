// The limits of every tensor and node of a graph.
#pragma once

#include <string_view>

#include "graph/type.h"

namespace tenon {

inline constexpr int64_t kHighestRank = 64;
// Results of one node, and nodes that one op or call becomes: parts of a split, terms that a size is unrolled to.
inline constexpr int64_t kMostParts = int64_t{1} << 16;

// Throws an Error for more than kHighestRank dimensions, a negative size, or more bytes than an int64 counts. Sizes of
// 0 count as 1, so that strides fit too. Symbolic sizes are checked when they are known. `what` has the type: "input
// 'x'".
void check_limits(const TensorType& type, std::string_view what);

// Throws an Error if `count` is negative or over kMostParts. `what` is counted: "parts".
void check_part_count(int64_t count, std::string_view what);

}  // namespace tenon
