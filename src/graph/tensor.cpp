#include "graph/tensor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

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
  size_t space = rounded + kAlignment;
  // What calloc gives of the system's pages is zero without being touched: it takes memory when it is first used.
  const std::shared_ptr<void> memory(std::calloc(space, 1), std::free);
  if (!memory) fail("out of memory: a tensor needs {} bytes", bytes);
  void* first = memory.get();
  return {memory, std::align(kAlignment, rounded, first, space)};
}

// `count` elements of a fixed size, which the compiler turns into moves.
template <size_t kSize>
void copy_line(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride * static_cast<int64_t>(kSize), from + i * from_stride * static_cast<int64_t>(kSize),
                kSize);
  }
}

using CopyLine = void (*)(std::byte*, int64_t, const std::byte*, int64_t, int64_t);

CopyLine copy_line_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return copy_line<1>;
    case 2:
      return copy_line<2>;
    case 4:
      return copy_line<4>;
    default:
      return copy_line<8>;
  }
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
  if (numel_ == 0) return false;
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride and size
  for (size_t dim = 0; dim < shape_.size(); ++dim) {
    if (shape_[dim] > 1) steps.emplace_back(std::abs(strides_[dim]), shape_[dim]);
  }
  std::ranges::sort(steps);
  int64_t reach = 0;  // the largest offset within the dimensions so far
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

bool Tensor::shares_memory_with(const Tensor& other) const {
  const auto range = [](const Tensor& tensor) {
    int64_t low = 0;
    int64_t high = 0;
    for (size_t dim = 0; dim < tensor.shape_.size(); ++dim) {
      const int64_t reach = (tensor.shape_[dim] - 1) * tensor.strides_[dim];
      (reach < 0 ? low : high) += reach;
    }
    return std::pair(tensor.at(low), tensor.at(high + 1));
  };
  if (numel_ == 0 || other.numel_ == 0) return false;
  const auto [begin, end] = range(*this);
  const auto [other_begin, other_end] = range(other);
  return begin < other_end && other_begin < end;
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

// Bit for bit: a NaN keeps its payload.
void Tensor::copy_bits_from(const Tensor& source) {
  if (numel_ == 0) return;
  if (is_contiguous() && source.is_contiguous()) {
    std::memcpy(data_, source.data_, static_cast<size_t>(numel_ * size_of(dtype_)));
    return;
  }
  const std::span<const int64_t> lines = std::span(shape_).first(shape_.size() - 1);
  const CopyLine copy = copy_line_of(dtype_);
  for_each_index(lines, [&](const Sizes& index) {
    int64_t to = 0, from = 0;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      to += index[dim] * strides_[dim];
      from += index[dim] * source.strides_[dim];
    }
    copy(at(to), strides_.back(), source.at(from), source.strides_.back(), shape_.back());
  });
}

void Tensor::copy_from(const Tensor& source) {
  check(shape_ == source.shape_, "copy_from needs equal shapes");
  if (dtype_ == source.dtype_) return copy_bits_from(source);
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

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.numel() > 0 && a.data() == b.data() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

bool identical(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.data() == b.data() && a.strides() == b.strides()) return true;
  const int64_t width = size_of(a.dtype());
  for (int64_t i = 0; i < a.numel(); ++i) {
    const std::byte* left = a.data() + a.offset(i) * width;
    if (std::memcmp(left, b.data() + b.offset(i) * width, static_cast<size_t>(width)) != 0) return false;
  }
  return true;
}

}  // namespace tenon
