#include <gtest/gtest.h>

#include "backends/cuda/code.h"
#include "runtime/expr.h"
#include "support/diagnostic.h"

namespace tenon {
namespace {

const Symbol kN("N");

CudaCode example() {
  CudaKernel kernel{.entry = "twice", .grid = floordiv(Expr(kN) + 127, 128), .block = 128};
  kernel.arguments = {CudaArgument::buffer(0), CudaArgument::buffer(1, 4 * Expr(kN)), CudaArgument::number(kN),
                      CudaArgument::errors()};
  CudaMatmul product{.m = kN, .n = 64, .k = 32};
  product.a = {.address = {.buffer = 0}, .row = 32, .batch = 0};
  product.b = {.address = {.buffer = 1}, .row = 32, .batch = 0, .is_transposed = true};
  product.d = {.address = {.buffer = CudaAddress::kScratch, .offset = 256}, .row = 64, .batch = 0};
  return {.sizes = {kN},
          .buffers = {4 * Expr(kN), 8 * Expr(kN), 256},
          .ptx = ".version 7.0",
          .steps = {kernel, product},
          .scratch = 256 * Expr(kN) + 256,
          .nodes = {"y"}};
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
  EXPECT_EQ(value(*code.scratch(), 1000), 256256);
  EXPECT_EQ(code.ptx()->str(), ".version 7.0");
  const format::cuda::Kernel& kernel = *code.steps()->Get(0)->kernel();
  EXPECT_EQ(value(*kernel.grid(), 1000), 8);
  EXPECT_EQ(value(kernel.arguments()->Get(1)->value(), 1000), 4000);
  EXPECT_EQ(kernel.arguments()->Get(3)->kind(), format::cuda::ArgumentKind::Errors);
  const format::cuda::Matmul& product = *code.steps()->Get(1)->matmul();
  EXPECT_TRUE(product.transpose_b() && !product.transpose_a());
  EXPECT_EQ(product.d()->buffer(), CudaAddress::kScratch);
  EXPECT_EQ(value(*product.m(), 1000), 1000);
  EXPECT_EQ(product.bias(), nullptr);
}

TEST(CudaCode, KnowsTheSizesOfItsLaunchAlone) {
  CudaCode code = example();
  code.buffers[0] = Expr(Symbol("M"));
  EXPECT_THROW(write_cuda_code(code), InternalError);
}

}  // namespace
}  // namespace tenon
