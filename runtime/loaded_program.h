// A program that is loaded: its tasks, the memory of its constants, the code of its kernels. Immutable; contexts
// (runtime/context.h) run it, from as many threads as there are contexts.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/container.h"
#include "runtime/kernel.h"
#include "runtime/library.h"
#include "runtime/portable_kernel.h"
#include "runtime/task_graph.h"
#include "runtime/tensor_view.h"

namespace tenon::runtime {

// A result of a fallback call: row-major memory of the promised dtype, kept alive by `owner`.
struct FallbackResult {
  std::vector<int64_t> shape;
  void* data;
  std::shared_ptr<void> owner;
};
// `symbols` are the sizes, kUnknown where a task has yet to find one out.
using FallbackCall = std::function<std::vector<FallbackResult>(uint32_t task, std::span<const TensorView> operands,
                                                               std::span<const int64_t> symbols)>;
inline constexpr int64_t kUnknown = INT64_MIN;

// The first of these that is there runs.
struct KernelEntry {
  tenon_kernel native = nullptr;
  std::shared_ptr<const void> code = {};                // keeps it in memory
  std::shared_ptr<const PortableKernel> portable = {};  // of a file always: it says what the arguments must be
  std::function<void(std::span<void* const> memory, std::span<const int64_t> sizes)> call = {};
  std::function<std::string(int64_t node)> node_name = {};  // for error messages; optional
};

// Everything for one set of sizes: where each slot lies, and how large it is.
struct Frame {
  std::vector<int64_t> symbols;   // that inputs tell
  std::vector<int64_t> sizes;     // of all slots, one after the other; those of late slots are not set
  std::vector<int64_t> elements;  // of each slot; -1 where it is late
  std::vector<int64_t> offsets;   // in the arena, of each home that lies there; else -1
  int64_t arena_bytes = 0;
  int64_t least_bytes = 0;  // that any plan would need
};

class LoadedProgram {
 public:
  struct Parts {
    std::span<const std::byte> tables;  // format::Program, verified as FlatBuffers
    std::vector<const std::byte*> constants;
    std::vector<const std::byte*> states;
    std::vector<KernelEntry> kernels;
    FallbackCall fallback = {};
    std::shared_ptr<const Container> container = {};  // of all that memory; null where somebody else owns it
  };

  // Throws a StatusError for tables that break the rules of the format.
  explicit LoadedProgram(Parts parts);

  const TaskGraph& graph() const { return graph_; }
  const LibraryFunction& function(uint32_t task) const { return *functions_[task]; }
  const KernelEntry& kernel(uint32_t i) const { return parts_.kernels[i]; }
  const std::byte* constant(uint32_t i) const { return parts_.constants[i]; }
  const std::byte* state(uint32_t i) const { return parts_.states[i]; }
  void forget_states() const;  // gives back memory that holds how they start, where a file has it too
  const FallbackCall& fallback() const { return parts_.fallback; }
  size_t first_size(uint32_t slot) const { return first_size_[slot]; }  // in Frame::sizes
  size_t total_sizes() const { return first_size_.back(); }

  // The last few are kept. Throws a StatusError where the sizes do not fit each other.
  std::shared_ptr<const Frame> frame(std::span<const int64_t> symbols) const;
  std::shared_ptr<const Frame> last_frame() const;  // null before the first

 private:
  void check_task(const TaskNode& task);

  Parts parts_;
  TaskGraph graph_;
  std::vector<size_t> first_size_;
  std::vector<const LibraryFunction*> functions_;  // of each task that calls one
  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<const Frame>> frames_;  // the last used one first
};

// Whether the arguments of a kernel are as large as it takes them; of a task whose sizes are all known.
void check_arguments(const TaskNode& task, const PortableKernel& kernel, const int64_t* sizes,
                     std::span<const int64_t> elements);

std::shared_ptr<const Frame> make_frame(const LoadedProgram& program, std::span<const int64_t> symbols);

// "needs 12,345 bytes; the largest: ..." of a frame: what a budget must hold, and what takes most of it.
std::string largest_tensors(const TaskGraph& graph, const Frame& frame);

}  // namespace tenon::runtime
