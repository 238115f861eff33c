// Inside of codegen: a function under construction: blocks, loops, scratch memory and exits.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <memory>

#include "codegen/indices.h"

namespace tenon::codegen {

// i64 NAME(...) returns 0 or the kind of an error; void NAME(...) returns nothing. Every exit releases the memory that
// the function allocated.
class FunctionBuilder {
 public:
  FunctionBuilder(llvm::IRBuilder<>& builder, llvm::Function* function);

  Indices indices;
  llvm::Value* error = nullptr;  // see runtime/kernel.h; set by the caller of this constructor
  llvm::Value* services = nullptr;
  bool has_tiles = false;  // The function configured tile registers: every exit releases them.

  llvm::Function* function() const { return function_; }
  llvm::Instruction* entry_end() const { return entry_end_; }  // code inserted before it runs once, at the start
  void finish();                                               // returns 0

  // ---- control flow. Bodies are called once, to emit themselves. ----
  using Body = std::function<void()>;
  void loop(symbolic::Symbol counter, llvm::Value* begin, llvm::Value* end, llvm::Value* step, const Body& body);
  void loop(symbolic::Symbol counter, llvm::Value* begin, llvm::Value* end, int64_t step, const Body& body) {
    loop(counter, begin, end, b_.getInt64(static_cast<uint64_t>(step)), body);
  }
  void when(llvm::Value* condition, const Body& body);
  // Emits the body with a value for the symbol.
  void with(symbolic::Symbol symbol, llvm::Value* value, const Body& body);
  void leave_when(llvm::Value* condition, const std::function<llvm::Value*()>& code);
  llvm::BasicBlock* block(const llvm::Twine& name) const;

  // ---- memory, for as long as the function runs ----
  llvm::Value* on_stack(llvm::Type* element, int64_t count, const llvm::Twine& name);
  // Returns `out_of_memory` from the function if there is none.
  llvm::Value* on_heap(llvm::Type* element, llvm::ArrayRef<llvm::Value*> extents, const llvm::Twine& name,
                       const std::function<llvm::Value*()>& out_of_memory);

 private:
  llvm::Value* checked_bytes(llvm::Type* element, llvm::ArrayRef<llvm::Value*> extents);
  llvm::Value* service_function(int position, const char* name);

  llvm::IRBuilder<>& b_;
  llvm::Function* function_;
  llvm::Instruction* entry_end_;
  llvm::BasicBlock* exit_;
  llvm::PHINode* code_;
  std::vector<llvm::Value*> slots_;  // stack variables that hold allocated pointers
};

}  // namespace tenon::codegen
