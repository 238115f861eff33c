// One elementwise op over arrays, compiled for this process: for tests and measurements of it alone.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "codegen/target.h"
#include "graph/dtype.h"
#include "runtime/loader.h"

namespace tenon::codegen {

class MathKernel {
 public:
  // f32 or f64, so many lanes at a time. The target must run here.
  MathKernel(std::string_view op, DType dtype, int lanes, const Target& target);

  // result[i] = op(operands[0][i], ...), for a count that is a multiple of the lanes.
  void run(std::span<const void* const> operands, void* result, int64_t count) const;

 private:
  std::shared_ptr<const runtime::LoadedCode> code_;
};

// What it is compiled to.
std::string math_kernel_asm(std::string_view op, DType dtype, int lanes, const Target& target);

}  // namespace tenon::codegen
