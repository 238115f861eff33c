// Code for CUDA as tests state it.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "format/cuda_generated.h"

namespace tenon::cuda {

// Two kernels, which fake_cuda.cpp knows by their names, too.
//   test_add(x, y, out, count):                         out[i] = x[i] + y[i], in f32
//   test_gather(x, index, out, count, rows, errors):    out[i] = x[index[i]]; node 1 fails where there is no such row
extern const char* const kTestPtx;

class CodeBuilder {
 public:
  explicit CodeBuilder(uint32_t sizes) { code_.sizes = sizes; }

  // ---- numbers: of constants, and of the sizes of the launch ----
  format::Expr number(int64_t value) { return leaf(format::ExprOp::Constant, value); }
  format::Expr size(int64_t which) { return leaf(format::ExprOp::Symbol, which); }
  format::Expr size_times(int64_t which, int64_t factor);
  format::Expr blocks(int64_t which, int64_t threads);  // ceil(size / threads)

  CodeBuilder& buffer(format::Expr bytes);
  CodeBuilder& scratch(format::Expr bytes, int64_t given = 0);
  CodeBuilder& kernel(const std::string& entry, format::Expr grid, format::Expr block,
                      std::vector<format::cuda::Argument> arguments);
  CodeBuilder& matmul(format::cuda::MatmulT product);
  CodeBuilder& node(const std::string& name);

  static format::cuda::Argument buffer_argument(uint32_t item, format::Expr offset) {
    return {format::cuda::ArgumentKind::Buffer, item, offset};
  }
  static format::cuda::Argument scratch_argument(format::Expr offset) {
    return {format::cuda::ArgumentKind::Scratch, 0, offset};
  }
  static format::cuda::Argument number_argument(format::Expr value) {
    return {format::cuda::ArgumentKind::Number, 0, value};
  }
  static format::cuda::Argument errors_argument() { return {format::cuda::ArgumentKind::Errors, 0, {}}; }

  format::cuda::CodeT& tables() { return code_; }
  std::string bytes();

 private:
  format::Expr leaf(format::ExprOp op, int64_t value);

  format::cuda::CodeT code_;
};

std::string add_code();     // of one size: the count
std::string gather_code();  // of two sizes: the count and the rows

}  // namespace tenon::cuda
