// Windows that slide over spatial dimensions: what convolution and pooling share.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/op.h"
#include "ops/families.h"

namespace tenon::ops {

// An attribute that has one number for each spatial dimension, or one for all.
template <class T>
std::vector<T> per_dimension(std::span<const T> numbers, size_t dimensions, std::string_view name, int64_t least) {
  if (numbers.size() != 1 && numbers.size() != dimensions) {
    fail("{} has {} numbers for {} spatial dimensions", name, numbers.size(), dimensions);
  }
  for (const T& number : numbers) {
    const Expr& size = number;
    if (size.is_constant() && size.constant() < least) fail("{} must be at least {}, got {}", name, least, size);
  }
  if (numbers.size() == 1) return std::vector<T>(dimensions, numbers[0]);
  return {numbers.begin(), numbers.end()};
}

// From the first element that a window covers to one past the last.
inline Expr span_of(const Expr& kernel, int64_t dilation) { return dilation * (kernel - 1) + 1; }

// How many windows fit.
inline Expr window_count(const Expr& length, const Expr& span, int64_t stride) {
  return floordiv(length - span, stride) + 1;
}

// The windows along one spatial dimension.
struct Sliding {
  int64_t dim;
  int64_t kernel;
  int64_t stride;
  int64_t padding;
  int64_t dilation;
  Expr length;     // of x
  Expr count = 0;  // of windows

  Expr span() const { return span_of(kernel, dilation); }
  // The padding after x such that exactly `count` windows fit; negative where they leave elements out.
  Expr high() const { return (count - 1) * stride + span() - length - padding; }
};

using Ints = std::span<const int64_t>;

// The spatial dimensions are the last ones of `shape`, one for each number of `kernel`. An empty stride is the kernel.
std::vector<Sliding> slide(std::span<const Expr> shape, Ints kernel, Ints stride, Ints padding, Ints dilation,
                           bool ceil_mode);

// The shape with the last sizes replaced by the attribute `output_size`: what resizes and adaptive pools give.
Shape shape_of_output_size(const InferContext& c);

// The shape with one element for each window.
Shape slid_shape(Shape shape, const std::vector<Sliding>& sliding);

// [..., spatial...] -> [..., windows..., elements of a window...], padded with `fill`.
Value unfold_spatial(Builder& b, Value x, const std::vector<Sliding>& sliding, Attr fill);

// The adjoint: sums the copies of an element from all windows that hold it.
Value fold_spatial(Builder& b, Value x, const std::vector<Sliding>& sliding);

}  // namespace tenon::ops
