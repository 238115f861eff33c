#include <gtest/gtest.h>

#include "backends/cuda/code.h"
#include "runtime/expr.h"
#include "support/diagnostic.h"

namespace tenon {
namespace {

const Symbol kN("N");

CudaCode example() {
  CudaKernel kernel{.entry = "twice", .grid = {floordiv(Expr(kN) + 127, 128), 1, 1}, .block = {128, 1, 1}};
  kernel.arguments = {CudaArgument::buffer(0), CudaArgument::buffer(1, 4 * Expr(kN)), CudaArgument::number(kN),
                      CudaArgument::errors()};
  CudaMatmul product{.m = kN, .n = 64, .k = 32};
  product.b.is_transposed = true;
  product.c = CudaMatmul::Matrix{.address = {.buffer = 2}};
  CudaVariant variant{.images = {{.is_ptx = true, .bytes = ".version 7.0"}}};
  variant.steps = {{.what = kernel, .only_if = lt(0, Expr(kN))}, {.what = product}};
  return {.sizes = {kN}, .buffers = {4 * Expr(kN), 8 * Expr(kN), 256}, .variants = {variant}, .nodes = {"y"}};
}

TEST(CudaCode, IsWrittenAsTables) {
  const std::string bytes = write_cuda_code(example());
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  ASSERT_TRUE(format::cuda::VerifyCodeBuffer(verifier));
  const format::cuda::Code& code = *format::cuda::GetCode(bytes.data());
  const std::span<const format::Instruction> table(reinterpret_cast<const format::Instruction*>(code.code()->Data()),
                                                   code.code()->size());
  const auto value = [&](const format::Expr& expr, int64_t n) {
    runtime::verify(expr, table, 1);
    return runtime::evaluate(expr, table, std::array<int64_t, 1>{n});
  };
  EXPECT_EQ(value(*code.buffers()->Get(1), 1000), 8000);
  const format::cuda::Variant& variant = *code.variants()->Get(0);
  EXPECT_EQ(variant.images()->Get(0)->bytes()->size(), 12u);
  const format::cuda::Step& step = *variant.steps()->Get(0);
  EXPECT_EQ(value(step.kernel()->grid()->x(), 1000), 8);
  EXPECT_EQ(value(step.kernel()->arguments()->Get(1)->value(), 1000), 4000);
  EXPECT_EQ(step.kernel()->arguments()->Get(3)->kind(), format::cuda::ArgumentKind::Errors);
  EXPECT_EQ(value(*step.only_if(), 0), 0);
  const format::cuda::Matmul& product = *variant.steps()->Get(1)->matmul();
  EXPECT_TRUE(product.transpose_b() && !product.transpose_a());
  EXPECT_EQ(product.c()->buffer(), 2u);
  EXPECT_EQ(product.a_row(), nullptr);
}

TEST(CudaCode, KnowsTheSizesOfItsLaunchAlone) {
  CudaCode code = example();
  code.buffers[0] = Expr(Symbol("M"));
  EXPECT_THROW(write_cuda_code(code), InternalError);
}

}  // namespace
}  // namespace tenon
