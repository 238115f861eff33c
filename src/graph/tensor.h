// A strided n-dimensional array in memory: what constants and weights hold, and what evaluation reads and writes.
//
// A Tensor is a handle. Copies share the memory, and `owner` keeps it alive: ours when we allocated it, a NumPy or
// torch tensor's, or a mapped file's. Nothing here copies elements unless its name says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"

namespace tenon {

using Sizes = std::vector<int64_t>;

int64_t element_count(std::span<const int64_t> shape);     // checked; throws an Error when it overflows
Sizes contiguous_strides(std::span<const int64_t> shape);  // row-major, in elements

enum class Access : uint8_t { kReadWrite, kReadOnly };

class Tensor {
 public:
  Tensor() = default;  // no data: defined() is false

  // Zero-filled, contiguous, 64-byte aligned. Throws an Error for a negative size or when memory runs out.
  static Tensor zeros(DType dtype, Sizes shape);
  // Memory that somebody else owns. Strides count elements and may be zero or negative. Memory that must not be written
  // (a NumPy array that says so) is kReadOnly: an update of it is an error.
  static Tensor borrow(DType dtype, Sizes shape, Sizes strides, void* data, std::shared_ptr<void> owner,
                       Access access = Access::kReadWrite);
  static Tensor scalar(DType dtype, double value);
  static Tensor scalar(DType dtype, int64_t value);

  bool defined() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Sizes& shape() const { return shape_; }
  const Sizes& strides() const { return strides_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size(int64_t dim) const { return shape_[static_cast<size_t>(dim)]; }
  int64_t numel() const { return numel_; }
  bool is_contiguous() const;
  bool overlaps_itself() const;  // two indices may be one element; false only where the strides exclude it
  bool shares_memory_with(const Tensor& other) const;  // their ranges of addresses meet
  Access access() const { return access_; }
  std::byte* data() const { return data_; }
  const std::shared_ptr<void>& owner() const { return owner_; }

  // The element at an index, or at a position in row-major order.
  int64_t offset(std::span<const int64_t> index) const;
  int64_t offset(int64_t position) const;
  double real(int64_t offset) const { return load_real(dtype_, at(offset)); }
  int64_t integer(int64_t offset) const { return load_integer(dtype_, at(offset)); }
  void set_real(int64_t offset, double value) { store_real(dtype_, at(offset), value); }
  void set_integer(int64_t offset, int64_t value) { store_integer(dtype_, at(offset), value); }

  void copy_from(const Tensor& source);  // same shape; converts the dtype
  Tensor contiguous() const;             // itself, or a row-major copy
  Tensor copy() const;                   // always a row-major copy

 private:
  std::byte* at(int64_t offset) const { return data_ + offset * size_of(dtype_); }
  void copy_bits_from(const Tensor& source);

  DType dtype_ = DType::kF32;
  Sizes shape_;
  Sizes strides_;
  int64_t numel_ = 0;
  Access access_ = Access::kReadWrite;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

// Same dtype, shape and bits of every element (so NaN equals the same NaN, and -0 differs from 0).
bool identical(const Tensor& a, const Tensor& b);

// The same elements of the same memory.
bool is_same_memory(const Tensor& a, const Tensor& b);

// Calls body(index) for each index of a shape, in row-major order; once for rank 0, never when a size is 0.
template <class Body>
void for_each_index(std::span<const int64_t> shape, Body&& body) {
  for (int64_t size : shape) {
    if (size == 0) return;
  }
  Sizes index(shape.size(), 0);
  while (true) {
    body(static_cast<const Sizes&>(index));
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

}  // namespace tenon
