#include "backends/cuda/code.h"

#include <map>
#include <memory>

#include "graph/runtime_dtype.h"
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
    to.given_scratch = code_.given_scratch;
    for (const CudaVariant& variant : code_.variants)
      to.variants.push_back(std::make_unique<cuda::VariantT>(table(variant)));
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
  std::unique_ptr<format::Expr> kept(const std::optional<Expr>& value) { return value ? kept(*value) : nullptr; }

  std::unique_ptr<cuda::Address> address(const CudaAddress& from) {
    return std::make_unique<cuda::Address>(from.buffer, expr(from.offset));
  }

  std::unique_ptr<cuda::Extent3> extent(const std::array<Expr, 3>& from) {
    return std::make_unique<cuda::Extent3>(expr(from[0]), expr(from[1]), expr(from[2]));
  }

  // ---- steps ----

  cuda::VariantT table(const CudaVariant& from) {
    cuda::VariantT to;
    to.architecture = from.architecture;
    to.is_exact = from.is_exact;
    for (const CudaImage& image : from.images) {
      to.images.push_back(std::make_unique<cuda::ImageT>());
      to.images.back()->is_ptx = image.is_ptx;
      to.images.back()->bytes.assign(image.bytes.begin(), image.bytes.end());
    }
    for (const CudaStep& step : from.steps) to.steps.push_back(std::make_unique<cuda::StepT>(table(step)));
    to.scratch = kept(from.scratch);
    return to;
  }

  cuda::StepT table(const CudaStep& from) {
    cuda::StepT to;
    to.only_if = kept(from.only_if);
    std::visit(Overloaded{[&](const CudaKernel& it) { to.kernel = std::make_unique<cuda::KernelT>(table(it)); },
                          [&](const CudaMatmul& it) { to.matmul = std::make_unique<cuda::MatmulT>(table(it)); },
                          [&](const CudaFill& it) { to.fill = std::make_unique<cuda::FillT>(table(it)); },
                          [&](const CudaCopy& it) { to.copy = std::make_unique<cuda::CopyT>(table(it)); }},
               from.what);
    return to;
  }

  cuda::KernelT table(const CudaKernel& from) {
    cuda::KernelT to;
    to.image = from.image;
    to.entry = from.entry;
    to.grid = extent(from.grid);
    to.block = extent(from.block);
    if (from.cluster) to.cluster = extent(*from.cluster);
    to.shared = kept(from.shared);
    for (const CudaArgument& argument : from.arguments) {
      const bool has_value = argument.kind <= cuda::ArgumentKind::Number32;
      to.arguments.emplace_back(argument.kind, argument.item, has_value ? expr(argument.value) : format::Expr());
    }
    for (const CudaTensorMap& map : from.maps) to.maps.push_back(std::make_unique<cuda::TensorMapT>(table(map)));
    to.overlaps = from.overlaps;
    return to;
  }

  cuda::TensorMapT table(const CudaTensorMap& from) {
    cuda::TensorMapT to;
    to.dtype = static_cast<format::DType>(from.dtype);
    to.address = address(from.address);
    for (const Expr& size : from.sizes) to.sizes.push_back(expr(size));
    for (const Expr& stride : from.strides) to.strides.push_back(expr(stride));
    to.box = from.box;
    to.swizzle = from.swizzle;
    to.promotion = from.promotion;
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
    if (from.c) to.c = address(from.c->address), to.c_row = kept(from.c->row), to.c_batch = kept(from.c->batch);
    if (from.bias) to.bias = address(*from.bias);
    to.alpha = from.alpha;
    to.beta = from.beta;
    to.epilogue = from.epilogue;
    to.tf32 = from.tf32;
    return to;
  }

  cuda::FillT table(const CudaFill& from) {
    cuda::FillT to;
    to.to = address(from.to);
    to.bytes = kept(from.bytes);
    to.value = from.value;
    to.width = from.width;
    return to;
  }

  cuda::CopyT table(const CudaCopy& from) {
    cuda::CopyT to;
    to.to = address(from.to);
    to.from = address(from.from);
    to.bytes = kept(from.bytes);
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
