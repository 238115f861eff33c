// The lines of a tensor along one dimension, for the references of ops that walk along them.
#pragma once

#include <vector>

#include "graph/tensor.h"

namespace tenon::ops {

// Calls body(line) for each line, where `line` holds the indices of its elements in order. A scalar is a line of one.
template <class Body>
void for_each_line(const Sizes& shape, int64_t dim, Body body) {
  const auto along = static_cast<size_t>(dim);
  Sizes starts = shape;
  if (!shape.empty()) starts[along] = 1;
  for_each_index(starts, [&](const Sizes& start) {
    std::vector<Sizes> line(shape.empty() ? 1 : static_cast<size_t>(shape[along]), start);
    for (size_t i = 1; i < line.size(); ++i) line[i][along] = static_cast<int64_t>(i);
    body(static_cast<const std::vector<Sizes>&>(line));
  });
}

}  // namespace tenon::ops
