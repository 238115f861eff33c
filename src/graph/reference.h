// The arguments of a record's reference function: concrete tensors and concrete attributes.
#pragma once

#include <vector>

#include "graph/op.h"

namespace tenon {

class ReferenceContext : public OpView {
 public:
  // Symbolic sizes in `types` and `attrs` have been evaluated. `outputs` are allocated, zero-filled and contiguous,
  // except where a size is known only to the op (nonzero): it calls `allocate`.
  ReferenceContext(const OpDef& op, std::vector<const TensorType*> types, std::span<const Attr> attrs,
                   std::vector<Tensor> inputs, std::vector<Tensor> outputs)
      : OpView(op, std::move(types), attrs), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  const Tensor& in(size_t operand = 0) const { return inputs_[operand]; }  // not defined() when it is absent
  Tensor& out(size_t result = 0) { return outputs_[result]; }
  void allocate(size_t result, DType dtype, Sizes shape) { outputs_[result] = Tensor::zeros(dtype, std::move(shape)); }
  std::vector<Tensor> take_outputs() && { return std::move(outputs_); }

  // Symbolic attributes, evaluated.
  int64_t size(std::string_view attr) const { return expr(attr).constant(); }
  Sizes sizes(std::string_view attr) const {
    Sizes result;
    for (const Expr& size : exprs(attr)) result.push_back(size.constant());
    return result;
  }

 private:
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
};

}  // namespace tenon
