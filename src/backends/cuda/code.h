// The code of a CUDA device as plain structs, and its bytes (format/cuda.fbs, which says what each field means and what
// the reader demands). Numbers are expressions over the symbols that a launch has as sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "format/cuda_generated.h"
#include "graph/type.h"

namespace tenon {

struct CudaAddress {
  static constexpr uint32_t kScratch = ~0u;
  uint32_t buffer = 0;  // of the launch, or kScratch
  Expr offset = {};     // bytes
};

// A parameter of a kernel, in the order of its entry's parameters.
struct CudaArgument {
  format::cuda::ArgumentKind kind;
  uint32_t item = 0;  // the buffer
  Expr value = {};    // an offset in bytes, or the number itself

  static CudaArgument buffer(uint32_t i, Expr offset = {}) {
    return {format::cuda::ArgumentKind::Buffer, i, std::move(offset)};
  }
  static CudaArgument scratch(Expr offset) { return {format::cuda::ArgumentKind::Scratch, 0, std::move(offset)}; }
  static CudaArgument number(Expr value) { return {format::cuda::ArgumentKind::Number, 0, std::move(value)}; }
  static CudaArgument errors() { return {format::cuda::ArgumentKind::Errors}; }
};

struct CudaKernel {
  std::string entry = {};
  Expr grid = 1;    // blocks
  Expr block = 1;   // threads
  Expr shared = 0;  // bytes of dynamic shared memory
  std::vector<CudaArgument> arguments = {};
};

// D = epilogue(alpha * A' * B' + bias); see format/cuda.fbs.
struct CudaMatmul {
  struct Matrix {
    CudaAddress address = {};
    Expr row = {}, batch = {};   // strides, in elements
    bool is_transposed = false;  // of A and B
  };
  Expr m = {}, n = {}, k = {}, batch = 1;
  DType operand = DType::kF32, result = DType::kF32;
  Matrix a = {}, b = {}, d = {};
  std::optional<CudaAddress> bias = {};
  double alpha = 1;
  format::cuda::Epilogue epilogue = format::cuda::Epilogue::Nothing;
};

using CudaStep = std::variant<CudaKernel, CudaMatmul>;

struct CudaCode {
  std::vector<Symbol> sizes = {};  // of a launch
  std::vector<Expr> buffers = {};  // bytes
  uint32_t architecture = 80;
  std::string ptx = {};
  std::vector<CudaStep> steps = {};
  Expr scratch = 0;           // bytes
  int64_t given_scratch = 0;  // what the host is told that a launch needs
  std::vector<std::string> nodes = {};
};

// Throws an Error for an expression over a symbol that is no size.
std::string write_cuda_code(const CudaCode& code);

}  // namespace tenon
