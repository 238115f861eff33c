#include "codegen/codegen.h"

#include "codegen/emit.h"
#include "codegen/module.h"

namespace tenon::codegen {
namespace {

std::string emit(std::span<const KernelSource> kernels, const Target& target, std::string (Unit::*output)()) {
  Unit unit(target);
  for (const auto& [tree, name] : kernels) emit_kernel(unit.module(), *tree, name, target);
  return (unit.*output)();
}

}  // namespace

std::string emit_llvm(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &Unit::ir_text);
}

std::string emit_asm(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &Unit::asm_text);
}

std::string emit_object(std::span<const KernelSource> kernels, const Target& target) {
  return emit(kernels, target, &Unit::object);
}

}  // namespace tenon::codegen
