// The code of a CUDA device as plain structs, and its bytes (format/cuda.fbs, which says what each field means and what
// the reader demands). Numbers are expressions over the symbols that a launch has as sizes.
#pragma once

#include <array>
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
  uint32_t item = 0;  // the buffer, or the tensor map
  Expr value = {};    // an offset in bytes, or the number itself

  static CudaArgument buffer(uint32_t i, Expr offset = {}) {
    return {format::cuda::ArgumentKind::Buffer, i, std::move(offset)};
  }
  static CudaArgument scratch(Expr offset) { return {format::cuda::ArgumentKind::Scratch, 0, std::move(offset)}; }
  static CudaArgument number(Expr value) { return {format::cuda::ArgumentKind::Number, 0, std::move(value)}; }
  static CudaArgument number32(Expr value) { return {format::cuda::ArgumentKind::Number32, 0, std::move(value)}; }
  static CudaArgument errors() { return {format::cuda::ArgumentKind::Errors}; }
  static CudaArgument map(uint32_t i) { return {format::cuda::ArgumentKind::Map, i}; }
};

struct CudaTensorMap {
  DType dtype = DType::kBF16;
  CudaAddress address = {};
  std::vector<Expr> sizes = {};    // elements, the innermost dimension first
  std::vector<Expr> strides = {};  // bytes, of all dimensions but the innermost
  std::vector<uint32_t> box = {};  // elements
  uint8_t swizzle = 0;             // bytes
  uint16_t promotion = 0;          // bytes
};

struct CudaKernel {
  uint32_t image = 0;
  std::string entry = {};
  std::array<Expr, 3> grid = {1, 1, 1};
  std::array<Expr, 3> block = {1, 1, 1};
  std::optional<std::array<Expr, 3>> cluster = {};
  Expr shared = {};  // bytes of dynamic shared memory
  std::vector<CudaArgument> arguments = {};
  std::vector<CudaTensorMap> maps = {};
  bool overlaps = false;
};

// D = epilogue(alpha * A' * B' + beta * C + bias); see format/cuda.fbs. What is not given is dense.
struct CudaMatmul {
  struct Matrix {
    CudaAddress address = {};
    bool is_transposed = false;  // of A and B
    std::optional<Expr> row = {}, batch = {};
  };
  Expr m = {}, n = {}, k = {}, batch = 1;
  DType operand = DType::kF32, result = DType::kF32;
  Matrix a = {}, b = {}, d = {};
  std::optional<Matrix> c = {};
  std::optional<CudaAddress> bias = {};
  double alpha = 1, beta = 0;
  format::cuda::Epilogue epilogue = format::cuda::Epilogue::Nothing;
  bool tf32 = false;
};

struct CudaFill {
  CudaAddress to = {};
  Expr bytes = {};
  uint32_t value = 0;
  uint8_t width = 1;
};

struct CudaCopy {
  CudaAddress to = {}, from = {};
  Expr bytes = {};
};

struct CudaStep {
  std::variant<CudaKernel, CudaMatmul, CudaFill, CudaCopy> what;
  std::optional<Expr> only_if = {};
};

struct CudaImage {
  bool is_ptx = true;
  std::string bytes = {};
};

struct CudaVariant {
  uint32_t architecture = 80;
  bool is_exact = false;
  std::vector<CudaImage> images = {};
  std::vector<CudaStep> steps = {};
  Expr scratch = {};
};

struct CudaCode {
  std::vector<Symbol> sizes = {};  // of a launch
  std::vector<Expr> buffers = {};  // bytes
  int64_t given_scratch = 0;       // what the host is told that a launch needs
  std::vector<CudaVariant> variants = {};
  std::vector<std::string> nodes = {};
};

// Throws an Error for an expression over a symbol that is no size.
std::string write_cuda_code(const CudaCode& code);

}  // namespace tenon
