// Sums of elements and of products, in the reference domain of their dtype.
#pragma once

#include "ops/common.h"

namespace tenon::ops {

// Adds in double or wraps in int64; `store` rounds or wraps once, to the dtype of the result.
class Accumulator {
 public:
  explicit Accumulator(DType dtype) : in_reals_(is_float(dtype)) {}

  void add(const Tensor& x, int64_t at) {
    in_reals_ ? void(real_ += x.real(at)) : void(integer_ = wrap_add(integer_, x.integer(at)));
  }
  void add_product(const Tensor& x, int64_t x_at, const Tensor& y, int64_t y_at) {
    in_reals_ ? void(real_ += x.real(x_at) * y.real(y_at))
              : void(integer_ = wrap_add(integer_, wrap_mul(x.integer(x_at), y.integer(y_at))));
  }
  void store(Tensor& out, int64_t at) const { in_reals_ ? out.set_real(at, real_) : out.set_integer(at, integer_); }

 private:
  bool in_reals_;
  double real_ = 0;
  int64_t integer_ = 0;
};

}  // namespace tenon::ops
