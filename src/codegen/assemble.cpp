#include <fmt/format.h>
#include <llvm/MC/MCAsmBackend.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCCodeEmitter.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCObjectWriter.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>

#include "codegen/codegen.h"
#include "codegen/module.h"

namespace tenon::codegen {
namespace {

// LLVM's tables of a target, as the assembler needs them.
struct Tables {
  explicit Tables(const Target& target) : triple(target.triple) {
    std::string error;
    from = llvm::TargetRegistry::lookupTarget(target.triple, error);
    if (from == nullptr) fail("this Tenon has no assembler for {}: {}", target.triple, error);
    registers.reset(from->createMCRegInfo(target.triple));
    info.reset(from->createMCAsmInfo(*registers, target.triple, options));
    instructions.reset(from->createMCInstrInfo());
    subtarget.reset(from->createMCSubtargetInfo(target.triple, target.cpu, target.features));
  }

  llvm::Triple triple;
  const llvm::Target* from;
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> info;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
};

// The first complaint of the parser, in place of a line on standard error.
void keep_first(const llvm::SMDiagnostic& complaint, void* kept) {
  std::string& text = *static_cast<std::string*>(kept);
  if (text.empty()) text = fmt::format("line {}: {}", complaint.getLineNo(), complaint.getMessage().str());
}

}  // namespace

std::string assemble(std::string_view text, const Target& target) {
  const CompilationUnit initialized(target);  // LLVM knows its targets once there is a unit
  Tables tables(target);
  llvm::SourceMgr sources;
  std::string complaint;
  sources.setDiagHandler(keep_first, &complaint);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy({text.data(), text.size()}), llvm::SMLoc());
  llvm::MCContext context(tables.triple, tables.info.get(), tables.registers.get(), tables.subtarget.get(), &sources,
                          &tables.options);
  const std::unique_ptr<llvm::MCObjectFileInfo> sections(tables.from->createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  std::unique_ptr<llvm::MCAsmBackend> backend(
      tables.from->createMCAsmBackend(*tables.subtarget, *tables.registers, tables.options));
  std::unique_ptr<llvm::MCObjectWriter> writer = backend->createObjectWriter(out);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(tables.from->createMCCodeEmitter(*tables.instructions, context));
  const std::unique_ptr<llvm::MCStreamer> streamer(tables.from->createMCObjectStreamer(
      tables.triple, context, std::move(backend), std::move(writer), std::move(emitter), *tables.subtarget));
  const std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *tables.info));
  const std::unique_ptr<llvm::MCTargetAsmParser> instructions(
      tables.from->createMCAsmParser(*tables.subtarget, *parser, *tables.instructions, tables.options));
  parser->setTargetParser(*instructions);
  if (parser->Run(/*NoInitialTextSection=*/false) || !complaint.empty())
    fail("this is no assembly for {}: {}", target.name, complaint);
  return {bytes.begin(), bytes.end()};
}

}  // namespace tenon::codegen
