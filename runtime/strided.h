// Copies between tensors of one shape, whose elements may lie anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::runtime {

// Strides count elements. Memory that overlaps gives any mix of old and new elements.
void copy_strided(std::span<const int64_t> shape, size_t element_bytes, void* to, std::span<const int64_t> to_strides,
                  const void* from, std::span<const int64_t> from_strides);

// Row-major, whatever the strides of dimensions of size 1; an empty tensor is.
bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides);

void row_major_strides(std::span<const int64_t> shape, std::span<int64_t> strides);

}  // namespace tenon::runtime
