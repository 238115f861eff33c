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

// False only where the strides exclude that two indices are one element.
bool may_overlap_itself(std::span<const int64_t> shape, std::span<const int64_t> strides);

// From the first byte of a tensor to its end; empty where it has no elements.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};
Extent extent_of(const void* data, size_t element_bytes, std::span<const int64_t> shape,
                 std::span<const int64_t> strides);
inline bool meet(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

void row_major_strides(std::span<const int64_t> shape, std::span<int64_t> strides);

}  // namespace tenon::runtime
