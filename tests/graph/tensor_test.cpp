#include "graph/tensor.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

Tensor counting(DType dtype, Sizes shape) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_integer(i, i);
  return tensor;
}

TEST(TensorCopy, OfEveryWidthAndStride) {
  for (DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor x = counting(dtype, {2, 3, 4});
    const Tensor turned = Tensor::borrow(dtype, {4, 2, 3}, {1, 12, 4}, x.data(), x.owner());
    const Tensor copy = turned.contiguous();
    EXPECT_TRUE(copy.is_contiguous());
    for_each_index(copy.shape(), [&](const Sizes& index) {
      EXPECT_EQ(copy.integer(copy.offset(index)), index[0] + 12 * index[1] + 4 * index[2]);
    });
    EXPECT_TRUE(identical(x.copy(), x));
  }
}

TEST(TensorCopy, OfOneElementAndOfNone) {
  Tensor one = Tensor::zeros(DType::kF32, {});
  one.copy_from(Tensor::scalar(DType::kF32, 2.5));
  EXPECT_EQ(one.real(0), 2.5);
  const Tensor none = Tensor::zeros(DType::kF32, {3, 0});
  EXPECT_EQ(Tensor::borrow(DType::kF32, {0, 3}, {1, 7}, none.data(), none.owner()).contiguous().numel(), 0);
}

TEST(TensorCopy, IntoStrides) {
  Tensor memory = Tensor::zeros(DType::kI32, {2, 6});
  Tensor every_other = Tensor::borrow(DType::kI32, {2, 3}, {6, 2}, memory.data(), memory.owner());
  every_other.copy_from(counting(DType::kI32, {2, 3}));
  const std::vector<int64_t> wanted = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0};
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(memory.integer(i), wanted[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace tenon
