#include "tests/codegen/support_llvm.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/Support/SourceMgr.h>

#include "codegen/module.h"
#include "support/diagnostic.h"

namespace tenon::codegen::testing {
namespace {

void parse_into(CompilationUnit& unit, std::string_view ir) {
  llvm::SMDiagnostic wrong;
  const llvm::MemoryBufferRef text(llvm::StringRef(ir.data(), ir.size()), "test");
  check(!llvm::parseAssemblyInto(text, &unit.module(), nullptr, wrong), "line {}: {}", wrong.getLineNo(),
        wrong.getMessage().str());
}

}  // namespace

std::string object_of(std::string_view ir, const Target& target) {
  CompilationUnit unit(target);
  parse_into(unit, ir);
  return unit.object();
}

std::string asm_of(std::string_view ir, const Target& target) {
  CompilationUnit unit(target);
  parse_into(unit, ir);
  return unit.asm_text();
}

}  // namespace tenon::codegen::testing
