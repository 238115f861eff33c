// The C interface of kernels: those of a program, called one at a time by name.
#include <mutex>

#include "runtime/api.h"
#include "runtime/elements.h"
#include "runtime/error.h"
#include "runtime/kernel_call.h"
#include "runtime/strided.h"

using namespace tenon::runtime;  // NOLINT: this file is a face of it

namespace {

// A tensor of the caller as row-major memory: its own, or a copy.
class RowMajor {
 public:
  RowMajor(const tenon_tensor& tensor, bool is_read)
      : tensor_(tensor), shape_(tensor.shape, tensor.shape + tensor.rank) {
    row_major_.resize(shape_.size());
    row_major_strides(shape_, row_major_);
    const bool is_row_major =
        tensor.strides == nullptr || std::equal(row_major_.begin(), row_major_.end(), tensor.strides);
    if (is_row_major) return;
    size_t elements = 1;
    for (int64_t size : shape_) elements *= static_cast<size_t>(size);
    copy_.resize(elements * tenon_dtype_size(tensor.dtype));
    if (is_read) copy_strided(shape_, tenon_dtype_size(tensor.dtype), copy_.data(), row_major_, tensor.data, strides());
  }

  void* data() { return copy_.empty() ? tensor_.data : copy_.data(); }
  // After a kernel wrote it.
  void finish() {
    if (!copy_.empty())
      copy_strided(shape_, tenon_dtype_size(tensor_.dtype), tensor_.data, strides(), copy_.data(), row_major_);
  }

 private:
  std::span<const int64_t> strides() const { return {tensor_.strides, shape_.size()}; }

  tenon_tensor tensor_;
  std::vector<int64_t> shape_, row_major_;
  std::vector<std::byte> copy_;
};

std::vector<RowMajor> checked(const TaskGraph& graph, const CallableKernel& kernel, const char* what,
                              const std::vector<uint32_t>& slots, const tenon_tensor* tensors, uint64_t count) {
  if (count != slots.size())
    fail(TENON_INVALID_ARGUMENT, "kernel ", kernel.name, " has ", slots.size(), " ", what, "s, got ", count);
  demand(tensors != nullptr || count == 0, "the tensors of a kernel are null");
  std::vector<RowMajor> result;
  for (size_t i = 0; i < count; ++i) {
    check_tensor(tensors[i]);
    check_argument(graph, kernel, what, i, slots[i], tensors[i]);
    result.emplace_back(tensors[i], what[0] == 'i');
  }
  return result;
}

const std::vector<NamedKernel>& kernels_of(const tenon_program* program) {
  demand(program != nullptr, "the program is null");
  std::call_once(program->names_kernels, [&] {
    const LoadedProgram& loaded = *program->shared->program;
    const TaskGraph& graph = loaded.graph();
    for (CallableKernel& kernel : kernels_of(graph)) {
      const TaskNode& task = graph.tasks[kernel.task];
      NamedKernel named{.device = task.space == kHost ? "cpu" : std::string(graph.spaces[task.space - 1].device)};
      for (size_t i = 0; i < kernel.inputs.size(); ++i)
        named.arguments.push_back(describe(loaded, text_of("in", i), kernel.inputs[i]));
      for (size_t i = 0; i < kernel.outputs.size(); ++i)
        named.arguments.push_back(describe(loaded, text_of("out", i), kernel.outputs[i]));
      named.kernel = std::move(kernel);
      program->kernels.push_back(std::move(named));
    }
  });
  return program->kernels;
}

const CallableKernel& find_kernel(const std::vector<NamedKernel>& kernels, std::string_view name) {
  std::string names;
  for (const NamedKernel& each : kernels) {
    if (each.kernel.name == name) return each.kernel;
    names += (names.empty() ? "" : ", ") + each.kernel.name;
  }
  fail(TENON_INVALID_ARGUMENT, "the program has no kernel '", name, "'; its kernels are ", names);
}

}  // namespace

size_t tenon_kernel_count(const tenon_program* program) {
  size_t count = 0;
  guarded([&] { count = kernels_of(program).size(); });
  return count;
}

tenon_status tenon_describe_kernel(const tenon_program* program, size_t kernel, tenon_kernel_info* info) {
  return guarded([=] {
    const std::vector<NamedKernel>& kernels = kernels_of(program);
    demand(info != nullptr, "the place for the description is null");
    demand_below(kernel, kernels.size(), "kernel");
    const NamedKernel& it = kernels[kernel];
    *info = {it.kernel.name.c_str(), it.device.c_str(), it.kernel.inputs.size(), it.kernel.outputs.size()};
  });
}

tenon_status tenon_kernel_argument(const tenon_program* program, size_t kernel, size_t number,
                                   tenon_tensor_info* info) {
  return guarded([=] {
    const std::vector<NamedKernel>& kernels = kernels_of(program);
    demand(info != nullptr, "the place for the description is null");
    demand_below(kernel, kernels.size(), "kernel");
    demand_below(number, kernels[kernel].arguments.size(), "argument");
    const Description& it = kernels[kernel].arguments[number];
    *info = {it.name.c_str(), it.dtype, static_cast<int32_t>(it.dims.size()), it.dims.data()};
  });
}

tenon_status tenon_call_kernel(const tenon_program* program, const char* name, const tenon_tensor* inputs,
                               uint64_t input_count, const tenon_tensor* outputs, uint64_t output_count) {
  return guarded([=] {
    const std::vector<NamedKernel>& kernels = kernels_of(program);
    demand(name != nullptr, "tenon_call_kernel needs a name");
    const LoadedProgram& loaded = *program->shared->program;
    const TaskGraph& graph = loaded.graph();
    const CallableKernel& kernel = find_kernel(kernels, name);
    std::vector<RowMajor> in = checked(graph, kernel, "input", kernel.inputs, inputs, input_count);
    std::vector<RowMajor> out = checked(graph, kernel, "output", kernel.outputs, outputs, output_count);
    KernelArguments arguments;
    for (RowMajor& tensor : in) arguments.inputs.push_back(tensor.data());
    for (RowMajor& tensor : out) arguments.outputs.push_back(tensor.data());
    call_kernel(loaded, kernel, arguments);
    for (RowMajor& tensor : out) tensor.finish();
  });
}
