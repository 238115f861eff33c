#include "codegen/function.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

namespace tenon::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

enum ServiceFunction { kParallelFor, kAllocate, kRelease };  // in the order of tenon_services

constexpr int64_t kMostBytes = int64_t{1} << 46;  // the most bytes of one array: no machine has more

}  // namespace

FunctionBuilder::FunctionBuilder(llvm::IRBuilder<>& builder, llvm::Function* function)
    : indices(builder), b_(builder), function_(function) {
  BasicBlock* const entry = block("entry");
  BasicBlock* const body = block("body");
  exit_ = block("exit");  // the function owns the block even if it is never finished
  code_ = llvm::PHINode::Create(b_.getInt64Ty(), 0, "code", exit_);
  b_.SetInsertPoint(entry);
  entry_end_ = b_.CreateBr(body);
  b_.SetInsertPoint(body);
  indices.open(entry_end_);
}

BasicBlock* FunctionBuilder::block(const llvm::Twine& name) const {
  return BasicBlock::Create(b_.getContext(), name, function_);
}

void FunctionBuilder::finish() {
  code_->addIncoming(b_.getInt64(0), b_.GetInsertBlock());
  b_.CreateBr(exit_);
  if (&function_->back() != exit_) exit_->moveAfter(&function_->back());
  b_.SetInsertPoint(exit_);
  if (has_tiles) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  for (Value* slot : slots_) {
    Value* const memory = b_.CreateLoad(b_.getPtrTy(), slot);
    b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy()}, false),
                  service_function(kRelease, "release"), {services, memory});
  }
  function_->getReturnType()->isVoidTy() ? b_.CreateRetVoid() : b_.CreateRet(code_);
}

// ---- control flow ---------------------------------------------------------------------------------------------------

void FunctionBuilder::loop(symbolic::Symbol counter, Value* begin, Value* end, Value* step, const Body& body) {
  BasicBlock* const header = block(counter.name());
  BasicBlock* const inside = block(counter.name() + "_body");
  BasicBlock* const after = block(counter.name() + "_end");
  BasicBlock* const before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), header, after);
  b_.SetInsertPoint(header);
  llvm::PHINode* const index = b_.CreatePHI(b_.getInt64Ty(), 2, counter.name());
  index->addIncoming(begin, before);
  indices.open(b_.CreateBr(inside));
  indices.bind(counter, index);
  b_.SetInsertPoint(inside);
  body();
  indices.close();
  Value* const next = b_.CreateNSWAdd(index, step);
  index->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), header, after);
  b_.SetInsertPoint(after);
}

void FunctionBuilder::when(Value* condition, const Body& body) {
  BasicBlock* const inside = block("when");
  BasicBlock* const after = block("after");
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void FunctionBuilder::with(symbolic::Symbol symbol, Value* value, const Body& body) {
  BasicBlock* const inside = block(symbol.name() + "_here");
  indices.open(b_.CreateBr(inside));
  indices.bind(symbol, value);
  b_.SetInsertPoint(inside);
  body();
  indices.close();
}

void FunctionBuilder::leave_when(Value* condition, const std::function<Value*()>& code) {
  BasicBlock* const failed = block("failed");
  BasicBlock* const fine = block("fine");
  b_.CreateCondBr(condition, failed, fine, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(failed);
  code_->addIncoming(code(), b_.GetInsertBlock());
  b_.CreateBr(exit_);
  b_.SetInsertPoint(fine);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

Value* FunctionBuilder::on_stack(llvm::Type* element, int64_t count, const llvm::Twine& name) {
  llvm::IRBuilder<> entry(entry_end_);
  llvm::Type* const type = count == 1 ? element : llvm::ArrayType::get(element, static_cast<uint64_t>(count));
  llvm::AllocaInst* const array = entry.CreateAlloca(type, nullptr, name);
  if (count != 1) array->setAlignment(llvm::Align(64));
  return array;
}

Value* FunctionBuilder::service_function(int position, const char* name) {
  Value* const slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), services, static_cast<uint64_t>(position));
  return b_.CreateLoad(b_.getPtrTy(), slot, name);
}

// Negative extents, of empty arrays, count as 0. Sizes beyond the limit become the limit.
Value* FunctionBuilder::checked_bytes(llvm::Type* element, llvm::ArrayRef<Value*> extents) {
  const llvm::DataLayout& layout = function_->getParent()->getDataLayout();
  llvm::Type* const wide = b_.getInt128Ty();
  Value* const most = llvm::ConstantInt::get(wide, static_cast<uint64_t>(kMostBytes));
  Value* bytes = llvm::ConstantInt::get(wide, layout.getTypeAllocSize(element));
  for (Value* extent : extents) {
    Value* const count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, extent, b_.getInt64(0));
    bytes = b_.CreateMul(bytes, b_.CreateZExt(count, wide));
    bytes = b_.CreateSelect(b_.CreateICmpULT(bytes, most), bytes, most);
  }
  return b_.CreateTrunc(bytes, b_.getInt64Ty());
}

// Allocates at the start of the function: all iterations of a loop use the same array.
Value* FunctionBuilder::on_heap(llvm::Type* element, llvm::ArrayRef<Value*> extents, const llvm::Twine& name,
                                const std::function<Value*()>& out_of_memory) {
  Value* const slot = on_stack(b_.getPtrTy(), 1, name + "_slot");
  Value* memory = nullptr;
  {
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_end_);
    memory = b_.CreateCall(llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy(), b_.getInt64Ty()}, false),
                           service_function(kAllocate, "allocate"), {services, checked_bytes(element, extents)}, name);
    b_.CreateStore(memory, slot);
  }
  slots_.push_back(slot);
  leave_when(b_.CreateIsNull(memory), out_of_memory);
  return memory;
}

}  // namespace tenon::codegen
