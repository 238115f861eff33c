// The backend that compiles for the page that it runs in.
#include "backends/native_kernel.h"
#include "backends/wasm/wasm.h"
#include "named/tensor.h"
#include "schedule/default_schedule.h"

// What the page offers (js/kernels.mjs). The place of the module's function in the table; 0: it failed, and wrote why.
extern "C" __attribute__((import_module("tenon"), import_name("instantiate"))) uint32_t
tenon_instantiate(const void* bytes, size_t size, char* text, size_t capacity);
extern "C" __attribute__((import_module("tenon"), import_name("release"))) void tenon_release(uint32_t place);
extern "C" __attribute__((import_module("tenon"), import_name("has_relaxed_simd"))) bool tenon_has_relaxed_simd();

namespace tenon {
namespace {

class WasmKernel : public NativeKernel {
 public:
  WasmKernel(uint32_t place, std::string bytes, loops::IR ir)
      : NativeKernel(reinterpret_cast<tenon_kernel>(place), nullptr, std::move(ir)),
        place_(place),
        bytes_(std::move(bytes)) {}
  ~WasmKernel() override { tenon_release(place_); }

  std::string dump() const override { return wasm::to_text(bytes_); }

 private:
  uint32_t place_;
  std::string bytes_;
};

struct WasmBackend : Backend {
  WasmBackend() : Backend("wasm") {}
  std::string doc() const override { return "WebAssembly with SIMD"; }
  int hardware_requirement() const override { return kCpu; }

  loops::LoopTree schedule(const loops::IR& kernel) const override { return default_schedule(kernel, wasm_machine()); }

  std::unique_ptr<Compiled> compile_impl(const loops::LoopTree& tree) const override {
    std::string bytes = emit_wasm(tree, {.relaxed = tenon_has_relaxed_simd()});
    char text[512] = {};
    const uint32_t place = tenon_instantiate(bytes.data(), bytes.size(), text, sizeof text - 1);
    check(place != 0, "the engine refuses the code of kernel {}: {}", tree.ir.name(), text);
    return std::make_unique<WasmKernel>(place, std::move(bytes), tree.ir);
  }
};

// Also the backend of tensors that name none.
struct Registration {
  Registration() {
    register_backend(std::make_shared<WasmBackend>());
    named::set_default_backend("wasm");
  }
} const kRegistration;

}  // namespace
}  // namespace tenon
