#include "codegen/codegen.h"

#include "codegen/emit.h"
#include "codegen/module.h"

namespace tenon::codegen {
namespace {

std::string emit(std::span<const KernelSource> kernels, const Target& target,
                 std::string (CompilationUnit::*output)()) {
  CompilationUnit unit(target);
  for (const auto& [tree, name] : kernels) emit_kernel(unit.module(), *tree, name, target);
  return (unit.*output)();
}

}  // namespace

std::string emit_llvm(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &CompilationUnit::ir_text);
}

std::string emit_asm(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &CompilationUnit::asm_text);
}

std::string emit_object(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &CompilationUnit::object);
}

}  // namespace tenon::codegen
