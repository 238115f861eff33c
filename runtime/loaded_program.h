// A LoadedProgram has the tasks of a program, the memory of its constants, and the code of its kernels. It is
// immutable: many contexts (runtime/context.h) run it at the same time.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/calls.h"
#include "runtime/container.h"
#include "runtime/device.h"
#include "runtime/kernel.h"
#include "runtime/library.h"
#include "runtime/portable_kernel.h"
#include "runtime/task_graph.h"
#include "runtime/tensor_view.h"

namespace tenon::runtime {

// Runs calls of a program that was made in this process. `symbols` are the values of the size symbols; kUnknown for a
// size that a task has yet to compute.
using FallbackCall = std::function<std::vector<FallbackResult>(uint32_t task, std::span<const TensorView> operands,
                                                               std::span<const int64_t> symbols)>;
inline constexpr int64_t kUnknown = INT64_MIN;

// How a kernel runs: by the first of these members that is set.
struct KernelEntry {
  tenon_kernel native = nullptr;
  std::shared_ptr<const void> code = {};  // owns the memory of `native`
  // always set for a kernel from a file: it says which arguments are valid
  std::shared_ptr<const PortableKernel> portable = {};
  std::function<void(std::span<void* const> memory, std::span<const int64_t> sizes)> call = {};
  std::function<std::string(int64_t node)> node_name = {};  // for error messages; optional
  std::shared_ptr<const DeviceProgram> device = {};         // code of a device, which none of the above is
  uint32_t space = kHost;                                   // of that device
};

// Everything that follows from one set of sizes: the size and the position of each slot.
struct Frame {
  std::vector<int64_t> symbols;   // values of the symbols that inputs determine
  std::vector<int64_t> sizes;     // the shapes of all slots, concatenated; unset for late slots
  std::vector<int64_t> elements;  // of each slot; -1 if it is late
  std::vector<int64_t> offsets;   // positions of homes in the arena; -1 for others
  int64_t arena_bytes = 0;
  int64_t least_bytes = 0;               // the minimum over all possible plans
  std::vector<int64_t> device_bytes;     // of the arena in each space of a device
  std::vector<int64_t> kept_bytes;       // of constants and states there
  std::vector<int64_t> scratch_offsets;  // of tasks of devices, in that arena; -1 for tasks without scratch
};

class LoadedProgram {
 public:
  struct Parts {
    std::span<const std::byte> tables;  // format::Program, verified as FlatBuffers
    std::vector<const std::byte*> constants;
    std::vector<const std::byte*> states;
    std::vector<KernelEntry> kernels;
    FallbackCall fallback = {};
    CallFinder calls = {};  // of a program without a fallback
    std::vector<std::shared_ptr<Device>> devices =
        {};                                           // of the program's spaces; null: it cannot run, only be verified
    std::shared_ptr<const Container> container = {};  // owns that memory; null if the caller does
  };

  // Throws a StatusError if the tables break a rule of the format.
  explicit LoadedProgram(Parts parts);

  const TaskGraph& graph() const { return graph_; }
  const LibraryFunction& function(uint32_t task) const { return *functions_[task]; }
  const KernelEntry& kernel(uint32_t i) const { return parts_.kernels[i]; }
  const std::byte* constant(uint32_t i) const { return parts_.constants[i]; }
  const std::byte* state(uint32_t i) const { return parts_.states[i]; }
  void forget_states() const;  // drops cached pages of initial values, if they come from a file
  const FallbackCall& fallback() const { return parts_.fallback; }  // empty: calls are of the host
  const HostCall& host_call(uint32_t task) const { return calls_[task]; }
  const std::shared_ptr<Device>& device(uint32_t space) const { return parts_.devices[space - 1]; }
  void* device_constant(uint32_t slot) const { return uploads_[slot].data(); }  // of a constant in a device's space
  size_t first_size(uint32_t slot) const { return first_size_[slot]; }          // in Frame::sizes
  size_t total_sizes() const { return first_size_.back(); }

  // Returns a cached frame, or makes one. Throws a StatusError if the sizes contradict each other.
  std::shared_ptr<const Frame> frame(std::span<const int64_t> symbols) const;
  std::shared_ptr<const Frame> last_frame() const;  // null before the first run

 private:
  void check_weights() const;
  void check_task(const TaskNode& task);
  void upload_constants();

  Parts parts_;
  TaskGraph graph_;
  std::vector<size_t> first_size_;
  std::vector<const LibraryFunction*> functions_;  // by task; null for other kinds of tasks
  std::vector<HostCall> calls_;                    // by task; none with a fallback
  std::vector<DeviceBlock> uploads_;               // constants in the memory of devices, by slot; none without devices
  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<const Frame>> frames_;  // most recently used first
};

// Throws a StatusError if an argument of a kernel has another size than the kernel takes. All sizes of the task must be
// known.
void check_arguments(const TaskNode& task, const PortableKernel& kernel, const int64_t* sizes,
                     std::span<const int64_t> elements);

std::shared_ptr<const Frame> make_frame(const LoadedProgram& program, std::span<const int64_t> symbols);

// Bytes of the memory of devices, by name or spec: of the arena with its scratch, of constants and of states.
using DeviceBudgets = std::vector<std::pair<std::string, int64_t>>;

// Throws a StatusError if a program needs more. It names the largest tensors.
void check_device_budgets(const TaskGraph& graph, const Frame& frame, const DeviceBudgets& budgets);

// The largest tensors of a space, a line each.
std::string largest_tensors(const TaskGraph& graph, const Frame& frame, uint32_t space);

}  // namespace tenon::runtime
