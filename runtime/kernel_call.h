// Kernels of a program by name, one at a time: behind tenon_call_kernel.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/loaded_program.h"

namespace tenon::runtime {

// A task of a program that is code: of the CPU or of a device. The arguments are its operands that are no constants,
// and its results.
struct CallableKernel {
  uint32_t task;
  std::string name;  // of the task; the second of that name is "relu#1"
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
};
std::vector<CallableKernel> kernels_of(const TaskGraph& graph);

// Memory of the caller: row-major, and of the slots' sizes.
struct KernelArguments {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// Checks dtypes and shapes: `what` is "input". Throws a StatusError.
void check_argument(const TaskGraph& graph, const CallableKernel& kernel, const char* what, size_t number,
                    uint32_t slot, const tenon_tensor& tensor);
// Returns when the kernel is done. Throws a StatusError.
void call_kernel(const LoadedProgram& program, const CallableKernel& kernel, const KernelArguments& arguments);

}  // namespace tenon::runtime
