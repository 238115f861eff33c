#include "code.h"

#include "program.h"
#include "runtime/expr.h"
#include "runtime/structs.h"

namespace tenon::cuda {
namespace {

namespace format = tenon::format;
using format::cuda::ArgumentKind;
using format::cuda::Code;
using format::cuda::Kernel;
using format::cuda::Matmul;

constexpr uint32_t kVersion = 1;
constexpr size_t kMostSteps = 65'536;
constexpr size_t kMostArguments = 500;  // 4000 of the 4096 bytes that a kernel may take
constexpr uint32_t kMostSizes = 4096;

class Verifier {
 public:
  explicit Verifier(const Code& code) : code_(code), instructions_(instructions_of(code)) {}

  void check() const {
    if (code_.version() != kVersion)
      fail(TENON_UNSUPPORTED, "the code for CUDA has version ", code_.version(), "; this library knows ", kVersion);
    if (code_.sizes() > kMostSizes) fail(TENON_BAD_FILE, "code for CUDA has ", code_.sizes(), " sizes");
    if (code_.steps()->size() > kMostSteps) fail(TENON_BAD_FILE, "code for CUDA has ", code_.steps()->size(), " steps");
    if (code_.given_scratch() < 0) fail(TENON_BAD_FILE, "code for CUDA is given ", code_.given_scratch(), " bytes");
    for (const format::Expr* bytes : *code_.buffers()) expr(*bytes);
    expr(*code_.scratch());
    for (const format::cuda::Step* each : *code_.steps()) step(*each);
  }

 private:
  void expr(const format::Expr& value) const { runtime::verify(value, instructions_, code_.sizes()); }

  void buffer(uint32_t number) const {
    if (number >= code_.buffers()->size())
      fail(TENON_BAD_FILE, "code for CUDA names buffer ", number, ", and there are ", code_.buffers()->size());
  }

  void address(const format::cuda::Address& at) const {
    if (at.buffer() != Place::kScratch) buffer(at.buffer());
    expr(at.offset());
  }

  void step(const format::cuda::Step& it) const {
    if ((it.kernel() != nullptr) == (it.matmul() != nullptr))
      fail(TENON_BAD_FILE, "a step of code for CUDA is neither a kernel nor a product, or both");
    if (it.kernel() != nullptr) kernel(*it.kernel());
    if (it.matmul() != nullptr) matmul(*it.matmul());
  }

  void kernel(const Kernel& it) const {
    if (code_.ptx() == nullptr) fail(TENON_BAD_FILE, "code for CUDA has kernel ", it.entry()->c_str(), " and no PTX");
    expr(*it.grid());
    expr(*it.block());
    if (it.shared() != nullptr) expr(*it.shared());
    if (it.arguments() == nullptr) return;
    if (it.arguments()->size() > kMostArguments)
      fail(TENON_BAD_FILE, "kernel ", it.entry()->c_str(), " takes ", it.arguments()->size(), " arguments");
    for (const format::cuda::Argument* each : *it.arguments()) argument(*each);
  }

  void argument(const format::cuda::Argument& it) const {
    if (it.kind() > ArgumentKind::MAX)
      fail(TENON_BAD_FILE, "an argument of a kernel has an unknown kind ", static_cast<int>(it.kind()));
    if (it.kind() == ArgumentKind::Buffer) buffer(it.item());
    if (it.kind() != ArgumentKind::Errors) expr(it.value());
  }

  void matmul(const Matmul& it) const {
    for (const format::Expr* size : {it.m(), it.n(), it.k(), it.batch(), it.a_row(), it.b_row(), it.d_row(),
                                     it.a_batch(), it.b_batch(), it.d_batch()})
      expr(*size);
    for (const format::cuda::Address* at : {it.a(), it.b(), it.d()}) address(*at);
    if (it.bias() != nullptr) address(*it.bias());
    if (it.epilogue() > format::cuda::Epilogue::MAX)
      fail(TENON_BAD_FILE, "a product has an unknown epilogue ", static_cast<int>(it.epilogue()));
    const bool is_float = it.operand() <= format::DType::BF16;
    if (!is_float || (it.result() != it.operand() && it.result() != format::DType::F32))
      fail(TENON_BAD_FILE, "a product of dtype ", static_cast<int>(it.operand()), " has results of dtype ",
           static_cast<int>(it.result()));
  }

  const Code& code_;
  std::span<const format::Instruction> instructions_;
};

}  // namespace

std::span<const format::Instruction> instructions_of(const Code& code) {
  return runtime::span_of<format::Instruction>(code.code());
}

const Code& verified(std::span<const std::byte> bytes) {
  if (bytes.size() < 8 || !format::cuda::CodeBufferHasIdentifier(bytes.data()))
    fail(TENON_BAD_FILE, "these bytes are no code for CUDA");
  runtime::verify_tables(bytes, "code for CUDA",
                         [](auto& verifier) { return format::cuda::VerifyCodeBuffer(verifier); });
  const Code& code = *format::cuda::GetCode(bytes.data());
  Verifier(code).check();
  return code;
}

}  // namespace tenon::cuda
