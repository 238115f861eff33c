#include "runtime/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace tenon::runtime {
namespace {

struct Dim {
  int64_t size, to, from;  // strides in bytes
};

// Removes dimensions of size 1, and merges dimensions that are contiguous in both tensors.
std::vector<Dim> merged(std::span<const int64_t> shape, int64_t bytes, std::span<const int64_t> to,
                        std::span<const int64_t> from) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim dim{shape[i], to[i] * bytes, from[i] * bytes};
    if (dim.size == 1) continue;
    if (!dims.empty() && dims.back().to == dim.size * dim.to && dims.back().from == dim.size * dim.from) {
      dims.back() = {dims.back().size * dim.size, dim.to, dim.from};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

template <size_t kBytes>
void copy_row(const Dim& dim, std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < dim.size; ++i) std::memcpy(to + i * dim.to, from + i * dim.from, kBytes);
}

void copy_row(const Dim& dim, size_t bytes, std::byte* to, const std::byte* from) {
  if (dim.to == static_cast<int64_t>(bytes) && dim.from == dim.to) {
    std::memmove(to, from, static_cast<size_t>(dim.size) * bytes);
    return;
  }
  if (bytes == 8) return copy_row<8>(dim, to, from);
  if (bytes == 4) return copy_row<4>(dim, to, from);
  if (bytes == 2) return copy_row<2>(dim, to, from);
  copy_row<1>(dim, to, from);
}

void copy_dims(std::span<const Dim> dims, size_t bytes, std::byte* to, const std::byte* from) {
  if (dims.size() == 1) return copy_row(dims[0], bytes, to, from);
  for (int64_t i = 0; i < dims[0].size; ++i) {
    copy_dims(dims.subspan(1), bytes, to + i * dims[0].to, from + i * dims[0].from);
  }
}

}  // namespace

void copy_strided(std::span<const int64_t> shape, size_t element_bytes, void* to, std::span<const int64_t> to_strides,
                  const void* from, std::span<const int64_t> from_strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::vector<Dim> dims = merged(shape, static_cast<int64_t>(element_bytes), to_strides, from_strides);
  if (dims.empty()) dims.push_back({1, static_cast<int64_t>(element_bytes), static_cast<int64_t>(element_bytes)});
  copy_dims(dims, element_bytes, static_cast<std::byte*>(to), static_cast<const std::byte*>(from));
}

bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Each stride must be larger than the extent of all smaller ones.
bool may_overlap_itself(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const int64_t stride = std::abs(strides[i]);
    int64_t reached = 0;
    for (size_t k = 0; k < shape.size(); ++k) {
      const int64_t other = std::abs(strides[k]);
      if (other < stride || (other == stride && k < i)) reached += other * (shape[k] - 1);
    }
    if (stride <= reached) return true;
  }
  return false;
}

Extent extent_of(const void* data, size_t element_bytes, std::span<const int64_t> shape,
                 std::span<const int64_t> strides) {
  const auto element = static_cast<int64_t>(element_bytes);
  const auto* const first = static_cast<const std::byte*>(data);
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return {first, first};
    (strides[i] < 0 ? low : high) += (shape[i] - 1) * strides[i];
  }
  return {first + low * element, first + (high + 1) * element};
}

void row_major_strides(std::span<const int64_t> shape, std::span<int64_t> strides) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
}

}  // namespace tenon::runtime
