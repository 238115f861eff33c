// Inside of codegen: an LLVM module for a target, and its compilation.
//
//     CompilationUnit unit(target);
//     emit_kernel(unit.module(), tree, "kernel", target);
//     const std::string object = unit.object();
//
// A complaint of LLVM is thrown as an Error; it never ends the process. A malformed module is a bug of Tenon (a failed
// check).
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>

#include <string>

#include "codegen/target.h"

namespace tenon::codegen {

class CompilationUnit {
 public:
  explicit CompilationUnit(const Target& target);
  CompilationUnit(const CompilationUnit&) = delete;

  llvm::Module& module() { return module_; }

  // Each of these checks the module, runs the few passes and consumes the unit: call one of them, once.
  std::string ir_text();
  std::string asm_text();
  std::string object();  // text for PTX

 private:
  void finish();
  void run_passes();
  void run_codegen(llvm::raw_pwrite_stream& out, llvm::CodeGenFileType kind);
  void generate(llvm::raw_pwrite_stream& out, llvm::CodeGenFileType kind);
  void throw_complaint() const;

  const Target target_;
  llvm::LLVMContext context_;
  llvm::Module module_;
  std::string complaint_;
};

}  // namespace tenon::codegen
