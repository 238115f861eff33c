#include "runtime/kernel_call.h"

#include <algorithm>
#include <map>

#include "runtime/error.h"
#include "runtime/services.h"

namespace tenon::runtime {
namespace {

bool is_constant(const TaskGraph& graph, uint32_t slot) { return graph.root_of(slot).kind == SlotKind::Constant; }

// The sizes of a slot; a StatusError where they are symbols.
std::vector<int64_t> shape_of(const TaskGraph& graph, const CallableKernel& kernel, uint32_t slot) {
  std::vector<int64_t> shape;
  for (const Expr& size : graph.slots[slot].shape) {
    const Instruction& first = graph.code[size.first()];
    if (size.count() != 1 || first.op() != format::ExprOp::Constant)
      fail(TENON_UNSUPPORTED, "kernel ", kernel.name, " takes ", type_text(graph, graph.slots[slot]),
           ", whose sizes are symbols: compile the model for fixed sizes to call its kernels");
    shape.push_back(first.value());
  }
  return shape;
}

int64_t bytes_of(const TaskGraph& graph, const CallableKernel& kernel, uint32_t slot) {
  auto bytes = static_cast<int64_t>(tenon_dtype_size(graph.slots[slot].dtype));
  for (int64_t size : shape_of(graph, kernel, slot)) bytes *= size;
  return bytes;
}

class KernelRun {
 public:
  KernelRun(const LoadedProgram& program, const CallableKernel& kernel, const KernelArguments& arguments)
      : program_(program), graph_(program.graph()), kernel_(kernel), arguments_(arguments) {}

  void run_on_cpu() {
    size_t given = 0;
    for (uint32_t slot : task().inputs) {
      const bool is_given = !is_constant(graph_, slot);
      const void* const data = is_given ? arguments_.inputs[given++] : program_.constant(graph_.root_of(slot).position);
      memory_.push_back(const_cast<void*>(data));
    }
    memory_.insert(memory_.end(), arguments_.outputs.begin(), arguments_.outputs.end());
    const KernelEntry& entry = program_.kernel(task().kernel);
    const tenon_services* const services = tenon_default_services();
    int64_t error[4] = {};
    if (entry.native != nullptr) entry.native(memory_.data(), nullptr, error, services);
    if (entry.native == nullptr)
      entry.portable->run(memory_.data(), nullptr, error, services, PortableKernel::kNoLimit);
    if (error[0] == kTenonOutOfMemory)
      fail(TENON_OUT_OF_MEMORY, "there is no memory for the scratch of ", kernel_.name);
    if (error[0] != 0) fail(TENON_RUN_FAILED, kernel_.name, ": ", entry.portable->describe(error));
  }

  void run_on_device() {
    const DeviceProgram& code = *program_.kernel(task().kernel).device;
    device_ = code.shared_device();
    for (size_t i = 0, given = 0; i < task().inputs.size(); ++i) {
      const uint32_t slot = task().inputs[i];
      is_constant(graph_, slot) ? memory_.push_back(program_.device_constant(graph_.slots[slot].root))
                                : upload(slot, arguments_.inputs[given++]);
    }
    const size_t first_output = memory_.size();
    for (uint32_t slot : kernel_.outputs) upload(slot, nullptr);
    const DeviceBlock scratch(device_, code.scratch_bytes());
    const tenon_launch launch{.size = sizeof(tenon_launch),
                              .buffers = memory_.data(),
                              .buffer_count = memory_.size(),
                              .scratch = code.scratch_bytes() == 0 ? nullptr : scratch.data()};
    device_->wait(device_->submit(code.get(), launch));
    for (size_t i = 0; i < kernel_.outputs.size(); ++i)
      device_->wait(device_->copy_out(arguments_.outputs[i], memory_[first_output + i],
                                      bytes_of(graph_, kernel_, kernel_.outputs[i])));
  }

 private:
  const TaskNode& task() const { return graph_.tasks[kernel_.task]; }

  void upload(uint32_t slot, const void* data) {
    const DeviceBlock& block = blocks_.emplace_back(device_, bytes_of(graph_, kernel_, slot));
    memory_.push_back(block.data());
    if (data != nullptr) device_->wait(device_->copy_in(block.data(), data, block.bytes()));
  }

  const LoadedProgram& program_;
  const TaskGraph& graph_;
  const CallableKernel& kernel_;
  const KernelArguments& arguments_;
  std::shared_ptr<Device> device_;
  std::vector<DeviceBlock> blocks_;
  std::vector<void*> memory_;
};

}  // namespace

std::vector<CallableKernel> kernels_of(const TaskGraph& graph) {
  std::vector<CallableKernel> kernels;
  std::map<std::string, size_t, std::less<>> seen;
  for (uint32_t i = 0; i < graph.tasks.size(); ++i) {
    const TaskNode& task = graph.tasks[i];
    if (task.kind != TaskKind::Kernel && task.kind != TaskKind::Device) continue;
    CallableKernel kernel{.task = i, .name = std::string(task.name)};
    const auto before = seen.try_emplace(kernel.name, 0).first;
    if (before->second > 0) kernel.name += text_of("#", before->second);
    ++before->second;
    for (uint32_t slot : task.inputs) {
      if (!is_constant(graph, slot)) kernel.inputs.push_back(slot);
    }
    kernel.outputs.assign(task.outputs.begin(), task.outputs.end());
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void check_argument(const TaskGraph& graph, const CallableKernel& kernel, const char* what, size_t number,
                    uint32_t slot, const tenon_tensor& tensor) {
  const std::vector<int64_t> shape = shape_of(graph, kernel, slot);
  const std::span<const int64_t> given(tensor.shape, static_cast<size_t>(tensor.rank));
  if (tensor.dtype == graph.slots[slot].dtype && std::ranges::equal(given, shape)) return;
  fail(TENON_INVALID_ARGUMENT, "kernel ", kernel.name, " wants ", type_text(graph, graph.slots[slot]), " as ", what,
       " ", number, ", got ", tenon_dtype_name(tensor.dtype), given);
}

void call_kernel(const LoadedProgram& program, const CallableKernel& kernel, const KernelArguments& arguments) {
  KernelRun run(program, kernel, arguments);
  program.graph().tasks[kernel.task].kind == TaskKind::Device ? run.run_on_device() : run.run_on_cpu();
}

}  // namespace tenon::runtime
