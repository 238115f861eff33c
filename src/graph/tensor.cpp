#include "graph/tensor.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "support/checked.h"

namespace tenon {
namespace {

constexpr size_t kAlignment = 64;

// Linux would grant more than there is, and kill the process that uses it.
int64_t physical_memory() {
  static const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return bytes;
}

std::shared_ptr<void> allocate_zeroed(int64_t bytes) {
  if (bytes > physical_memory())
    fail("out of memory: a tensor needs {} bytes, the machine has {}", bytes, physical_memory());
  const size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 1) * kAlignment;  // never zero bytes
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) fail("out of memory: a tensor needs {} bytes", bytes);
  std::memset(memory, 0, rounded);
  return {memory, std::free};
}

}  // namespace

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) fail("a tensor cannot have the negative size {}", size);
    empty |= size == 0;
    if (size != 0) count = checked_mul(count, size);
  }
  return empty ? 0 : count;
}

Sizes contiguous_strides(std::span<const int64_t> shape) {
  Sizes strides(shape.size());
  int64_t step = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = step;
    step = checked_mul(step, std::max<int64_t>(shape[dim], 1));
  }
  return strides;
}

Tensor Tensor::zeros(DType dtype, Sizes shape) {
  const int64_t bytes = checked_mul(element_count(shape), size_of(dtype));
  auto memory = allocate_zeroed(bytes);
  Sizes strides = contiguous_strides(shape);
  return borrow(dtype, std::move(shape), std::move(strides), memory.get(), memory);
}

Tensor Tensor::borrow(DType dtype, Sizes shape, Sizes strides, void* data, std::shared_ptr<void> owner, Access access) {
  static std::byte nothing[8];  // an empty tensor may come with a null pointer
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.numel_ = element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.strides_ = std::move(strides);
  tensor.data_ = data != nullptr ? static_cast<std::byte*>(data) : nothing;
  tensor.owner_ = std::move(owner);
  tensor.access_ = access;
  check(tensor.strides_.size() == tensor.shape_.size(), "a tensor has one stride for each dimension");
  check(data != nullptr || tensor.numel_ == 0, "a tensor with elements has data");
  return tensor;
}

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor tensor = zeros(dtype, {});
  tensor.set_real(0, value);
  return tensor;
}

Tensor Tensor::scalar(DType dtype, int64_t value) {
  Tensor tensor = zeros(dtype, {});
  tensor.set_integer(0, value);
  return tensor;
}

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (size_t dim = shape_.size(); dim-- > 0;) {
    if (shape_[dim] == 0) return true;
    if (shape_[dim] != 1 && strides_[dim] != step) return false;
    step *= shape_[dim];
  }
  return true;
}

bool Tensor::overlaps_itself() const {
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    if (strides_[dim] == 0 && shape_[dim] > 1) return true;
  }
  return false;
}

int64_t Tensor::offset(std::span<const int64_t> index) const {
  int64_t offset = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) offset += index[dim] * strides_[dim];
  return offset;
}

int64_t Tensor::offset(int64_t position) const {
  int64_t offset = 0;
  for (size_t dim = shape_.size(); dim-- > 0;) {
    offset += position % shape_[dim] * strides_[dim];
    position /= shape_[dim];
  }
  return offset;
}

void Tensor::copy_from(const Tensor& source) {
  check(shape_ == source.shape_, "copy_from needs equal shapes");
  if (dtype_ == source.dtype_) {  // bit for bit: a NaN keeps its payload
    const int64_t size = size_of(dtype_);
    return for_each_index(shape_, [&](const Sizes& index) {
      std::memcpy(at(offset(index)), source.at(source.offset(index)), static_cast<size_t>(size));
    });
  }
  const bool through_integers = is_integral(source.dtype_);
  for_each_index(shape_, [&](const Sizes& index) {
    const int64_t from = source.offset(index);
    if (through_integers) {
      set_integer(offset(index), source.integer(from));
    } else {
      set_real(offset(index), source.real(from));
    }
  });
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : copy(); }

Tensor Tensor::copy() const {
  Tensor result = zeros(dtype_, shape_);
  result.copy_from(*this);
  return result;
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto size = static_cast<size_t>(size_of(a.dtype()));
  bool same = true;
  for_each_index(a.shape(), [&](const Sizes& index) {
    const std::byte* left = a.data() + a.offset(index) * size_of(a.dtype());
    const std::byte* right = b.data() + b.offset(index) * size_of(b.dtype());
    same = same && std::memcmp(left, right, size) == 0;
  });
  return same;
}

}  // namespace tenon
