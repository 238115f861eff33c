// The backend of programs that are no pages: Node runs its kernels. js/kernels/backend.cpp is that of pages.
#include "backends/native_kernel.h"
#include "backends/wasm/node.h"
#include "backends/wasm/wasm.h"
#include "schedule/default_schedule.h"

namespace tenon {
namespace {

class NodeKernel : public Compiled {
 public:
  NodeKernel(const loops::LoopTree& tree, std::shared_ptr<wasm::NodeProcess> node)
      : node_(std::move(node)),
        bytes_(emit_wasm(tree, {.relaxed = node_->has_relaxed_simd()})),
        ir_(tree.ir),
        kernel_(node_->load(bytes_)) {}
  ~NodeKernel() override { node_->unload(kernel_); }

  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check_arguments(ir_, memory, sizes);
    symbolic::Bindings bindings;
    for (size_t i = 0; i < sizes.size(); ++i) bindings[ir_.size_symbols()[i]] = sizes[i];
    std::vector<wasm::NodeProcess::Array> arrays;
    const auto add = [&](loops::NodeRef ref, bool is_output) {
      const TensorType type = ir_.type(ref);
      const int64_t bytes = evaluate(symbolic::product(type.shape), bindings) * size_of(type.dtype);
      arrays.push_back({memory[arrays.size()], bytes, is_output});
    };
    for (loops::NodeRef read : ir_.reads()) add(read, false);
    for (loops::NodeRef write : ir_.writes()) add(write, true);
    int64_t error[4] = {};
    if (node_->call(kernel_, arrays, sizes, error) != 0) report_error(ir_, error);
  }

  std::string dump() const override { return wasm::to_text(bytes_); }

 private:
  std::shared_ptr<wasm::NodeProcess> node_;
  std::string bytes_;
  loops::IR ir_;
  int64_t kernel_;
};

struct WasmBackend : Backend {
  WasmBackend() : Backend("wasm") {}
  std::string doc() const override { return "WebAssembly with SIMD, without LLVM; Node runs it"; }
  int hardware_requirement() const override { return kCpu; }
  std::string missing_hardware() const override { return wasm::NodeProcess::missing(); }
  loops::LoopTree schedule(const loops::IR& kernel) const override { return default_schedule(kernel, wasm_machine()); }
  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    return std::make_unique<NodeKernel>(tree, wasm::NodeProcess::get());
  }
};

const RegisterBackend kRegistration(std::make_shared<WasmBackend>());

}  // namespace
}  // namespace tenon
