#include "backends/device_kernel.h"

#include <cstring>

#include "support/runtime_call.h"

namespace tenon {
namespace {

using runtime::Device;
using runtime::DeviceBlock;
using runtime::DeviceProgram;

class DeviceKernel : public Compiled {
 public:
  DeviceKernel(std::shared_ptr<const DeviceProgram> program, std::vector<Expr> sizes, std::string text,
               std::optional<loops::IR> ir)
      : program_(std::move(program)), sizes_(std::move(sizes)), text_(std::move(text)), ir_(std::move(ir)) {}

  // Brings host memory to the device and back: for callers of one kernel. Programs keep tensors on the device.
  void run(std::span<void* const> memory, std::span<const int64_t> sizes, bool) const override {
    check(ir_.has_value(), "a segment of a device runs as part of a program");
    check_arguments(*ir_, memory, sizes);
    symbolic::Bindings bindings;
    const std::vector<Symbol> symbols = ir_->size_symbols();
    for (size_t i = 0; i < symbols.size(); ++i) bindings[symbols[i]] = sizes[i];
    call_runtime([&] { run_once(memory, bindings); });
  }

  std::string dump() const override { return text_; }
  std::shared_ptr<const DeviceProgram> device_program() const override { return program_; }
  std::vector<Expr> launch_sizes() const override { return sizes_; }

 private:
  std::vector<int64_t> bytes_of_arrays(const symbolic::Bindings& bindings) const {
    std::vector<int64_t> bytes;
    for (const auto& nodes : {ir_->reads(), ir_->writes()}) {
      for (loops::NodeRef node : nodes) {
        const TensorType type = ir_->type(node);
        bytes.push_back(size_of(type.dtype));
        for (int64_t size : evaluate(type.shape, bindings)) bytes.back() *= size;
      }
    }
    return bytes;
  }

  void run_once(std::span<void* const> memory, const symbolic::Bindings& bindings) const {
    Device& device = program_->device();
    const std::vector<int64_t> bytes = bytes_of_arrays(bindings);
    std::vector<DeviceBlock> blocks;
    std::vector<void*> buffers;
    for (size_t i = 0; i < memory.size(); ++i) {
      blocks.emplace_back(program_->shared_device(), bytes[i]);
      buffers.push_back(blocks.back().data());
      if (i < ir_->reads().size()) device.wait(device.copy_in(buffers[i], memory[i], bytes[i]));
    }
    std::vector<int64_t> sizes;
    for (const Expr& size : sizes_) sizes.push_back(evaluate(size, bindings));
    const DeviceBlock scratch(program_->shared_device(), program_->scratch_bytes());
    const tenon_launch launch{sizeof(tenon_launch), buffers.data(), buffers.size(),
                              sizes.data(),         sizes.size(),   scratch.data()};
    device.wait(device.submit(program_->get(), launch));
    for (size_t i = ir_->reads().size(); i < memory.size(); ++i)
      device.wait(device.copy_out(memory[i], buffers[i], bytes[i]));
  }

  std::shared_ptr<const DeviceProgram> program_;
  std::vector<Expr> sizes_;
  std::string text_;
  std::optional<loops::IR> ir_;  // of a kernel
};

}  // namespace

std::unique_ptr<Compiled> device_kernel(std::shared_ptr<const DeviceProgram> program, std::vector<Expr> sizes,
                                        std::string text, std::optional<loops::IR> ir) {
  return std::make_unique<DeviceKernel>(std::move(program), std::move(sizes), std::move(text), std::move(ir));
}

Device::Code code_from(std::string_view kept) {
  Device::Code code;
  if (kept.size() < sizeof code.scratch_bytes) fail("the code of a device is cut off");
  std::memcpy(&code.scratch_bytes, kept.data(), sizeof code.scratch_bytes);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(kept.substr(sizeof code.scratch_bytes)));
  code.bytes.assign(bytes.begin(), bytes.end());
  return code;
}

}  // namespace tenon
