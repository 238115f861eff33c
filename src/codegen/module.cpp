#include "codegen/module.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>

#include <map>
#include <mutex>

#include "support/diagnostic.h"

namespace tenon::codegen {
namespace {

constexpr int kSveGranuleBits = 128;

// LLVM would end the process if an operation has no instruction. This handler throws an Error through its frames
// instead, which do not catch. Their memory leaks, and the TargetMachine is not used again.
[[noreturn]] void throw_fatal(void*, const char* reason, bool) { fail("LLVM cannot generate this code: {}", reason); }

void start_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
#define TENON_LLVM_TARGET(name)       \
  LLVMInitialize##name##TargetInfo(); \
  LLVMInitialize##name##Target();     \
  LLVMInitialize##name##TargetMC();   \
  LLVMInitialize##name##AsmPrinter();
#define TENON_LLVM_ASSEMBLER(name) LLVMInitialize##name##AsmParser();
#include "llvm_targets.inc"  // Those that Tenon is built with: src/CMakeLists.txt.
    llvm::install_fatal_error_handler(throw_fatal);
  });
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  std::string complaint;
  const llvm::Target* const backend = llvm::TargetRegistry::lookupTarget(target.triple, complaint);
  if (backend == nullptr)
    fail("this Tenon makes no code for {}: it was built without that target of LLVM (TENON_LLVM_TARGETS)", target.name);
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(target.triple, target.cpu, target.features, {}, llvm::Reloc::PIC_,
                                   llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

// Making a TargetMachine takes as long as compiling a small kernel, so each thread keeps those that it made.
using Machines = std::map<std::string, std::unique_ptr<llvm::TargetMachine>>;
Machines& machines() {
  thread_local Machines machines;
  return machines;
}

std::string machine_key(const Target& target) { return target.triple + " " + target.cpu + " " + target.features; }

llvm::TargetMachine& machine_for(const Target& target) {
  start_llvm();
  std::unique_ptr<llvm::TargetMachine>& machine = machines()[machine_key(target)];
  if (!machine) machine = make_machine(target);
  return *machine;
}

// Vectors stay as wide as emitted: for some CPUs LLVM would split them. With SVE they are as long as its registers.
void add_attributes(llvm::Module& module, const Target& target) {
  const std::string bits = std::to_string(8 * target.vector_bytes);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (!target.tuning.empty()) function.addFnAttr("tune-cpu", target.tuning);
    if (target.sve_bits > 0) {
      const auto granules = static_cast<unsigned>(target.sve_bits / kSveGranuleBits);
      function.addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(module.getContext(), granules, granules));
    }
    if (target.arch != Arch::kX86) continue;
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
  }
}

}  // namespace

CompilationUnit::CompilationUnit(const Target& target) : target_(target), module_("tenon", context_) {
  context_.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* unit) {
        std::string& complaint = static_cast<CompilationUnit*>(unit)->complaint_;
        if (info->getSeverity() != llvm::DS_Error || !complaint.empty()) return;
        llvm::raw_string_ostream out(complaint);
        llvm::DiagnosticPrinterRawOStream printer(out);
        info->print(printer);
      },
      this);
  module_.setTargetTriple(target_.triple);
  module_.setDataLayout(machine_for(target_).createDataLayout());
}

void CompilationUnit::throw_complaint() const {
  if (!complaint_.empty()) fail("LLVM cannot generate this code: {}", complaint_);
}

// The passes only remove redundancy from emitted code. Promoting variables to registers makes it three times as fast;
// the others make it easier to read. Measured: SimplifyCFG and LICM change nothing or make it slower.
void CompilationUnit::run_passes() {
  llvm::legacy::PassManager passes;
  passes.add(llvm::createSROAPass());
  passes.add(llvm::createEarlyCSEPass(/*UseMemorySSA=*/true));
  passes.add(llvm::createInstructionCombiningPass());
  passes.run(module_);
}

void CompilationUnit::finish() {
  add_attributes(module_, target_);
  std::string wrong;
  llvm::raw_string_ostream out(wrong);
  check(!llvm::verifyModule(module_, &out), "the module is not well formed: {}", wrong);
  run_passes();
  throw_complaint();
}

void CompilationUnit::run_codegen(llvm::raw_pwrite_stream& out, llvm::CodeGenFileType kind) {
  llvm::legacy::PassManager passes;
  const bool failed = machine_for(target_).addPassesToEmitFile(passes, out, nullptr, kind, /*DisableVerify=*/true);
  check(!failed, "{} has no such output", target_.name);
  passes.run(module_);
}

void CompilationUnit::generate(llvm::raw_pwrite_stream& out, llvm::CodeGenFileType kind) {
  finish();
  try {
    run_codegen(out, kind);
  } catch (...) {
    machines().erase(machine_key(target_));  // its state is unknown after an error
    throw;
  }
  throw_complaint();
}

std::string CompilationUnit::ir_text() {
  finish();
  std::string text;
  llvm::raw_string_ostream out(text);
  module_.print(out, nullptr);
  return text;
}

std::string CompilationUnit::asm_text() {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  generate(out, llvm::CodeGenFileType::AssemblyFile);
  return text.str().str();
}

std::string CompilationUnit::object() {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream out(bytes);
  generate(out, target_.arch == Arch::kPtx ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
  return bytes.str().str();
}

}  // namespace tenon::codegen
