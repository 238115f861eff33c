#include "tests/codegen/support_math_kernel.h"

#include <vector>

#include "codegen/module.h"
#include "codegen/values.h"
#include "support/runtime_call.h"

namespace tenon::codegen {
namespace {

constexpr const char* kName = "math_kernel";
using Code = void(const void* const* operands, void* result, int64_t count);

llvm::Value* load(llvm::IRBuilder<>& b, llvm::Type* type, llvm::Value* operands, size_t which, llvm::Value* index) {
  llvm::Value* array = b.CreateLoad(b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), operands, which));
  llvm::Type* scalar = type->getScalarType();
  return b.CreateAlignedLoad(type, b.CreateGEP(scalar, array, index), llvm::Align(scalar->getScalarSizeInBits() / 8));
}

// A loop over vectors; the count is not 0.
void emit(llvm::Module& module, const OpDef& op, DType dtype, int64_t lanes, const Target& target) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type* const type = Values(b, target).type(dtype, lanes);
  auto* signature = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(signature, llvm::GlobalValue::ExternalLinkage, kName, module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "loop", function);
  auto* end = llvm::BasicBlock::Create(context, "end", function);
  b.SetInsertPoint(entry);
  b.CreateBr(loop);

  b.SetInsertPoint(loop);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2);
  index->addIncoming(b.getInt64(0), entry);
  std::vector<llvm::Value*> operands;
  for (size_t i = 0; i < op.operands.get().size(); ++i)
    operands.push_back(load(b, type, function->getArg(0), i, index));
  llvm::Value* result = Values(b, target).apply(op, dtype, operands);
  llvm::Value* address = b.CreateGEP(type->getScalarType(), function->getArg(1), index);
  b.CreateAlignedStore(result, address, llvm::Align(type->getScalarSizeInBits() / 8));
  llvm::Value* next = b.CreateAdd(index, b.getInt64(lanes));
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(2)), loop, end);

  b.SetInsertPoint(end);
  b.CreateRetVoid();
}

}  // namespace

MathKernel::MathKernel(std::string_view op, DType dtype, int lanes, const Target& target) {
  CompilationUnit unit(target);
  emit(unit.module(), op_named(op), dtype, lanes, target);
  code_ = call_runtime([&] { return runtime::LoadedCode::load(unit.object()); });
}

void MathKernel::run(std::span<const void* const> operands, void* result, int64_t count) const {
  if (count > 0) code_->function<Code>(kName)(operands.data(), result, count);
}

std::string math_kernel_asm(std::string_view op, DType dtype, int lanes, const Target& target) {
  CompilationUnit unit(target);
  emit(unit.module(), op_named(op), dtype, lanes, target);
  return unit.asm_text();
}

}  // namespace tenon::codegen
