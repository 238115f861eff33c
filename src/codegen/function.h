// Inside of codegen: a function under construction. Its blocks, its loops, its scratch memory and the way out.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <memory>

#include "codegen/indices.h"

namespace tenon::codegen {

// i64 NAME(...): 0, or the kind of an error. What it allocates is released on every way out.
class FunctionBuilder {
 public:
  FunctionBuilder(llvm::IRBuilder<>& builder, llvm::Function* function);

  Indices indices;
  llvm::Value* error = nullptr;  // runtime/kernel.h's: set by whoever begins the function
  llvm::Value* host = nullptr;

  llvm::Function* function() const { return function_; }
  llvm::Instruction* entry_end() const { return entry_end_; }  // what is put before it happens once, at the start
  void finish();                                               // returns 0

  // ---- control flow. Bodies are called once, to emit themselves. ----
  using Body = std::function<void()>;
  void loop(symbolic::Symbol counter, llvm::Value* begin, llvm::Value* end, int64_t step, const Body& body);
  void when(llvm::Value* condition, const Body& body);
  // With a symbol that has a value from here on.
  void with(symbolic::Symbol symbol, llvm::Value* value, const Body& body);
  void leave_when(llvm::Value* condition, const std::function<llvm::Value*()>& code);
  llvm::BasicBlock* block(const llvm::Twine& name) const;

  // ---- memory, for as long as the function runs ----
  llvm::Value* on_stack(llvm::Type* element, int64_t count, const llvm::Twine& name);
  // Leaves with `out_of_memory` where there is none.
  llvm::Value* on_heap(llvm::Type* element, llvm::ArrayRef<llvm::Value*> extents, const llvm::Twine& name,
                       const std::function<llvm::Value*()>& out_of_memory);

 private:
  llvm::Value* checked_bytes(llvm::Type* element, llvm::ArrayRef<llvm::Value*> extents);
  llvm::Value* host_function(int position, const char* name);

  llvm::IRBuilder<>& b_;
  llvm::Function* function_;
  llvm::Instruction* entry_end_;
  llvm::BasicBlock* exit_;
  llvm::PHINode* code_;
  std::vector<llvm::Value*> slots_;  // on the stack, where allocated pointers are kept
};

}  // namespace tenon::codegen
