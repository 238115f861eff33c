// Copies between tensors of one shape and any strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon::runtime {

// Strides count elements. If source and destination overlap, the result is a mix of old and new elements.
void copy_strided(std::span<const int64_t> shape, size_t element_bytes, void* to, std::span<const int64_t> to_strides,
                  const void* from, std::span<const int64_t> from_strides);

// Whether the tensor is row-major. Strides of dimensions of size 1 do not matter; an empty tensor is row-major.
bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides);

// Whether two indices may address one element. False only if the strides exclude it.
bool may_overlap_itself(std::span<const int64_t> shape, std::span<const int64_t> strides);

// The byte range of a tensor; empty if it has no elements.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};
Extent extent_of(const void* data, size_t element_bytes, std::span<const int64_t> shape,
                 std::span<const int64_t> strides);
inline bool meet(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

void row_major_strides(std::span<const int64_t> shape, std::span<int64_t> strides);

}  // namespace tenon::runtime
