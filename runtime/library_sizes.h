// Sizes of the tensors of a library call, as kernels take them. Inside of the library.
#pragma once

#include "runtime/kernels.h"
#include "runtime/library.h"

namespace tenon::runtime {

using Sizes = std::span<const int64_t>;

inline int64_t product(Sizes sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

inline int64_t element_count(const TensorView& view) { return product(view.shape); }

// Throws a StatusError for sizes that no tensor can have, also if one is 0: kernels multiply the others. Products of
// sizes that pass, and of the bytes of a few such tensors, are exact.
void check_sizes(const TensorView& view, std::string_view function);

// `dim` counts from 0. A scalar is one line of length 1.
inline tenon_lines lines_of(Sizes shape, size_t dim) {
  if (shape.empty()) return {1, 1, 1};
  return {product(shape.first(dim)), shape[dim], product(shape.subspan(dim + 1))};
}

// Of a tensor of rank 2 at least.
inline tenon_matrices matrices_of(Sizes shape) {
  return {product(shape.first(shape.size() - 2)), shape[shape.size() - 2], shape.back()};
}

}  // namespace tenon::runtime
