#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/cuda.h"
#include "backends/cuda/products.h"
#include "codegen/threads.h"
#include "loops/compiler.h"
#include "support/overloaded.h"

namespace tenon {
namespace {

using namespace loops;
using codegen::DeviceScratch;
using codegen::Launch;
using codegen::LaunchParameter;
using codegen::ThreadCode;

constexpr int64_t kAlignment = 256;  // of scratch arrays

class CudaCompiler {
 public:
  CudaCompiler(const LoopTree& tree, std::string_view cpu)
      : tree_(tree), ir_(tree.ir), target_(codegen::find_target(cpu)), compiler_(tree) {
    compiler_.widen_totals();
  }

  CudaCode run() {
    threads_ =
        codegen::emit_threads(tree_, "tenon", target_, [&](TreeRef root) { return is_product_root(tree_, root); });
    code_.ptx = std::move(threads_.text);
    code_.sizes = ir_.size_symbols();
    for (const auto* refs : {&ir_.reads(), &ir_.writes()}) {
      for (NodeRef ref : *refs) code_.buffers.push_back(bytes_of(ref));
    }
    for (const Node& node : ir_.nodes()) code_.nodes.push_back(node.name);
    place_scratch();
    for (TreeRef root : tree_.roots()) {
      if (is_product_root(tree_, root)) code_.steps.emplace_back(product(root));
      for (const Launch& launch : threads_.launches) {
        if (launch.root == root) code_.steps.emplace_back(kernel(launch));
      }
    }
    return std::move(code_);
  }

 private:
  Expr bytes_of(NodeRef array) const {
    const TensorType type = ir_.type(array);
    Expr bytes = size_of(type.dtype);
    for (const Expr& size : type.shape) bytes *= max(size, 0);
    return bytes;
  }

  void place_scratch() {
    for (const DeviceScratch& scratch : threads_.scratch) {
      offsets_.push_back(code_.scratch);
      code_.scratch += ceildiv(scratch.bytes, kAlignment) * kAlignment;
    }
    code_.given_scratch = code_.scratch.is_constant() ? code_.scratch.constant() : 0;
  }

  CudaKernel kernel(const Launch& launch) const {
    CudaKernel kernel{.entry = launch.entry, .grid = launch.blocks, .block = launch.threads};
    for (const LaunchParameter& parameter : launch.parameters) {
      switch (parameter.kind) {
        case LaunchParameter::kArray:
          kernel.arguments.push_back(CudaArgument::buffer(static_cast<uint32_t>(parameter.number)));
          break;
        case LaunchParameter::kScratch:
          kernel.arguments.push_back(CudaArgument::scratch(offsets_[static_cast<size_t>(parameter.number)]));
          break;
        case LaunchParameter::kSize:
          kernel.arguments.push_back(CudaArgument::number(code_.sizes[static_cast<size_t>(parameter.number)]));
          break;
        case LaunchParameter::kErrors:
          kernel.arguments.push_back(CudaArgument::errors());
          break;
      }
    }
    return kernel;
  }

  CudaMatmul product(TreeRef root) const {
    std::optional<MatchedProduct> found = match_product(compiler_, root);
    if (!found) {
      fail("the loop over {} is no product of cuBLASLt: take tile \"{}\" off it", ir_.var(tree_.loop(root).var).name,
           kProductTile);
    }
    place(found->a, found->step.a.address);
    place(found->b, found->step.b.address);
    place(found->d, found->step.d.address);
    if (found->step.bias) place(found->bias, *found->step.bias);
    return std::move(found->step);
  }

  void place(int64_t mem_idx, CudaAddress& address) const {
    const auto scratch = std::ranges::find(threads_.scratch, mem_idx, &DeviceScratch::mem_idx);
    if (scratch == threads_.scratch.end()) {
      address.buffer = static_cast<uint32_t>(mem_idx);
      return;
    }
    address.buffer = CudaAddress::kScratch;
    address.offset += offsets_[static_cast<size_t>(scratch - threads_.scratch.begin())];
  }

  const LoopTree& tree_;
  const IR& ir_;
  const codegen::Target target_;
  Compiler compiler_;
  ThreadCode threads_;
  std::vector<Expr> offsets_;  // of scratch arrays
  CudaCode code_;
};

std::string text_of(const CudaAddress& address) {
  const std::string where =
      address.buffer == CudaAddress::kScratch ? "scratch" : fmt::format("buffer {}", address.buffer);
  return address.offset.is_constant(0) ? where : fmt::format("{} + {}", where, to_string(address.offset));
}

std::string text_of(const CudaMatmul::Matrix& matrix) {
  return fmt::format("[{}{} row {} batch {}]", text_of(matrix.address), matrix.is_transposed ? " transposed" : "",
                     to_string(matrix.row), to_string(matrix.batch));
}

std::string text_of(const CudaKernel& kernel) {
  return fmt::format("kernel {} on {} blocks of {} threads", kernel.entry, to_string(kernel.grid),
                     to_string(kernel.block));
}

std::string text_of(const CudaMatmul& product) {
  const std::string bias = product.bias ? fmt::format(" + [{}]", text_of(*product.bias)) : "";
  return fmt::format("matmul {} {} x {} x {}, {} times: {} * {}{} -> {} {}", name_of(product.operand),
                     to_string(product.m), to_string(product.n), to_string(product.k), to_string(product.batch),
                     text_of(product.a), text_of(product.b), bias, name_of(product.result), text_of(product.d));
}

}  // namespace

CudaCode compile_cuda(const LoopTree& tree, std::string_view cpu) { return CudaCompiler(tree, cpu).run(); }

std::string to_text(const CudaCode& code) {
  std::string text;
  for (const CudaStep& step : code.steps)
    text += fmt::format("// {}\n", std::visit([](const auto& it) { return text_of(it); }, step));
  text += fmt::format("// scratch: {} bytes\n", to_string(code.scratch));
  return text + code.ptx;
}

}  // namespace tenon
