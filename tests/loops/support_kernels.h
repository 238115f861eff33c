// Small kernels that the tests of loops share, and short names for their parts.
#pragma once

#include "loops/schedule.h"

namespace tenon::loops::testing {

IR matmul(Expr m, Expr k, Expr n);        // a, b -> p = a * b, c = sum of p over k, out
IR negate(Expr n);                        // x -> y = -x, out
IR padded_conv1d(Expr n, int64_t taps);   // x, w -> p = x padded by taps / 2 on both sides, y, c, out
IR row_softmax(Expr rows, Expr columns);  // x -> top, e, total, y, out

NodeRef node(const LoopTree& tree, std::string_view name);
TreeRef leaf(const LoopTree& tree, std::string_view name);
// The loop around a node at a depth, the outermost being 0.
TreeRef loop(const LoopTree& tree, std::string_view node, size_t depth);
std::string variables_around(const LoopTree& tree, std::string_view node);  // "m n k k"

// Runs on a backend. Fails the test on an error.
std::vector<Tensor> run_on(std::string_view backend, const LoopTree& tree, const std::vector<Tensor>& inputs);

// A tensor of a function of the position.
template <class Fn>
Tensor filled(DType dtype, Sizes shape, Fn value) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    is_float(dtype) ? tensor.set_real(i, static_cast<double>(value(i)))
                    : tensor.set_integer(i, static_cast<int64_t>(value(i)));
  }
  return tensor;
}
std::vector<double> elements(const Tensor& tensor);

}  // namespace tenon::loops::testing
