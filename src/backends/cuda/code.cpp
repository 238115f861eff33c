#include "backends/cuda/code.h"

#include <map>
#include <memory>

#include "support/overloaded.h"

namespace tenon {
namespace {

namespace cuda = format::cuda;

static_assert(static_cast<int>(symbolic::Kind::kSymbol) == static_cast<int>(format::ExprOp::Symbol) &&
              static_cast<int>(symbolic::Kind::kMod) == static_cast<int>(format::ExprOp::Mod) &&
              static_cast<int>(symbolic::Kind::kLe) == static_cast<int>(format::ExprOp::Le));

class CudaWriter {
 public:
  explicit CudaWriter(const CudaCode& code) : code_(code) {
    for (size_t i = 0; i < code.sizes.size(); ++i) numbers_.emplace(code.sizes[i], static_cast<int64_t>(i));
  }

  std::string write() {
    cuda::CodeT to;
    to.sizes = static_cast<uint32_t>(code_.sizes.size());
    for (const Expr& bytes : code_.buffers) to.buffers.push_back(expr(bytes));
    to.architecture = code_.architecture;
    to.ptx = code_.ptx;
    for (const CudaStep& step : code_.steps) to.steps.push_back(std::make_unique<cuda::StepT>(table(step)));
    to.scratch = kept(code_.scratch);
    to.given_scratch = code_.given_scratch;
    to.code = std::move(instructions_);
    to.nodes = code_.nodes;
    flatbuffers::FlatBufferBuilder builder;
    cuda::FinishCodeBuffer(builder, cuda::Code::Pack(builder, &to));
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }

 private:
  // ---- numbers ----

  format::Expr expr(const Expr& value) {
    const std::string key = to_string(value);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const auto first = static_cast<uint32_t>(instructions_.size());
    emit(value);
    return known_.emplace(key, format::Expr(first, static_cast<uint32_t>(instructions_.size()) - first)).first->second;
  }

  void emit(const Expr& value) {
    if (value.is_constant()) {
      instructions_.emplace_back(format::ExprOp::Constant, value.constant());
    } else if (value.kind() == symbolic::Kind::kSymbol) {
      const auto found = numbers_.find(value.symbol());
      check(found != numbers_.end(), "the code of a CUDA device needs {}, which is no size of its launch",
            value.symbol().name());
      instructions_.emplace_back(format::ExprOp::Symbol, found->second);
    } else {
      emit(value.operands()[0]);
      for (const Expr& operand : value.operands().subspan(1)) {
        emit(operand);
        instructions_.emplace_back(static_cast<format::ExprOp>(value.kind()), 0);
      }
    }
  }

  std::unique_ptr<format::Expr> kept(const Expr& value) { return std::make_unique<format::Expr>(expr(value)); }

  std::unique_ptr<cuda::Address> address(const CudaAddress& from) {
    return std::make_unique<cuda::Address>(from.buffer, expr(from.offset));
  }

  // ---- steps ----

  cuda::StepT table(const CudaStep& from) {
    cuda::StepT to;
    std::visit(Overloaded{[&](const CudaKernel& it) { to.kernel = std::make_unique<cuda::KernelT>(table(it)); },
                          [&](const CudaMatmul& it) { to.matmul = std::make_unique<cuda::MatmulT>(table(it)); }},
               from);
    return to;
  }

  cuda::KernelT table(const CudaKernel& from) {
    cuda::KernelT to;
    to.entry = from.entry;
    to.grid = kept(from.grid);
    to.block = kept(from.block);
    to.shared = kept(from.shared);
    for (const CudaArgument& argument : from.arguments) {
      const bool has_value = argument.kind != cuda::ArgumentKind::Errors;
      to.arguments.emplace_back(argument.kind, argument.item, has_value ? expr(argument.value) : format::Expr());
    }
    return to;
  }

  cuda::MatmulT table(const CudaMatmul& from) {
    cuda::MatmulT to;
    to.m = kept(from.m), to.n = kept(from.n), to.k = kept(from.k), to.batch = kept(from.batch);
    to.operand = static_cast<format::DType>(from.operand);
    to.result = static_cast<format::DType>(from.result);
    to.transpose_a = from.a.is_transposed;
    to.transpose_b = from.b.is_transposed;
    to.a = address(from.a.address), to.a_row = kept(from.a.row), to.a_batch = kept(from.a.batch);
    to.b = address(from.b.address), to.b_row = kept(from.b.row), to.b_batch = kept(from.b.batch);
    to.d = address(from.d.address), to.d_row = kept(from.d.row), to.d_batch = kept(from.d.batch);
    if (from.bias) to.bias = address(*from.bias);
    to.alpha = from.alpha;
    to.epilogue = from.epilogue;
    return to;
  }

  const CudaCode& code_;
  std::map<Symbol, int64_t> numbers_;
  std::map<std::string, format::Expr> known_;
  std::vector<format::Instruction> instructions_;
};

}  // namespace

std::string write_cuda_code(const CudaCode& code) { return CudaWriter(code).write(); }

}  // namespace tenon
