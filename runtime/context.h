// A Context runs a program, repeatedly, in its own memory. One thread may use a context at a time.
//
// All arguments of all tasks are resolved to flat pointer tables before a run. New sizes change the tables (the program
// caches the last few frames); otherwise only the pointers to the caller's memory change. A run with the same sizes as
// the last one allocates nothing, unless a task computes a size (nonzero), the fallback runs, a tensor of the caller is
// not row-major, or an input is updated.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/allocator.h"
#include "runtime/loaded_program.h"
#include "runtime/retriever.h"
#include "runtime/states.h"
#include "runtime/strided.h"

namespace tenon::runtime {

class Context;

struct ContextOptions {
  // Bytes of the arena, of scratch, of results outside the caller's memory, and of the context's own states.
  int64_t budget = kNoBudget;
  // Bytes of a device's memory, by its name or spec: of its arena, constants, states, and scratch. Others have no
  // limit.
  DeviceBudgets device_budgets = {};
  int64_t threads = 0;           // 0: the setting of the calling thread
  tenon_executor executor = {};  // runs parallel loops; without a function, the thread pool does
  bool telemetry = false;
  bool checks_memory = false;  // Reject or copy tensors of the caller that overlap. Off: the caller guarantees that
                               // only inputs overlap inputs.
  int64_t step_limit = PortableKernel::kNoLimit;  // Stop a portable kernel after this many steps. For untrusted files.
  // Called after each task, whose tensors Context::tensor then gives. Null: nobody looks.
  void (*after_task)(void* observer, const Context& context, uint32_t task) = nullptr;
  // Called for each launch of a device, which it must make and wait for. Null: the device's queue gets the launch.
  void (*launch)(void* observer, const Context& context, uint32_t task, const tenon_launch& launch) = nullptr;
  void* observer = nullptr;
};

struct Event {
  uint32_t task;
  int64_t start_ns;  // of a monotonic clock
  int64_t end_ns;
  bool is_of_device = false;  // The device told how long it took.
};

// A result. `owner` is empty if the memory is the caller's, or the context's until its next run.
struct Output {
  TensorView view;
  std::shared_ptr<void> owner = {};
};

class Context {
 public:
  // Uses these states, which must include all states of the program by name and type. Without them, the context makes
  // its own states, which count for its budget.
  Context(std::shared_ptr<const LoadedProgram> program, const ContextOptions& options,
          std::shared_ptr<States> states = {});
  ~Context();
  Context(const Context&) = delete;

  // The caller owns the memory, and keeps it until the run ends. Throws a StatusError if the tensor does not fit.
  void set_input(size_t i, const tenon_tensor& tensor);
  // Sets the memory of a result. This call checks the address only; the run checks the size. An empty tensor (null
  // data, rank 0) makes the context allocate the result again.
  void set_output(size_t i, const tenon_tensor& tensor);
  // Likewise, of a tensor in a device's memory; `tensor` tells its type, and its data is not read. The run copies only
  // what its tasks do not find, or leave, in that memory. The context keeps the tensor until another is set.
  void set_input(size_t i, const tenon_tensor& tensor, std::shared_ptr<DeviceTensor> on_device);
  void set_output(size_t i, const tenon_tensor& tensor, std::shared_ptr<DeviceTensor> on_device);
  // Seeds the random numbers. Each run then draws new numbers that follow from the seed. Without a seed, each run draws
  // its own. An input that is set as the key of random numbers takes precedence.
  void set_seed(int64_t seed);
  // Computes all sizes from the sizes of the inputs, and allocates memory. Optional: a run does it if needed.
  void prepare();
  // Throws a StatusError. Sizes, the caller's tensors and memory are checked first: a failed check updates nothing. If
  // a task fails, or data breaks an assertion of the model, then earlier tasks may already have updated values in place
  // (TensorSlot::is_overwritten); other updates do not happen.
  void run();
  Output output(size_t i) const;  // of the last run
  tenon_tensor output_tensor(size_t i) const;
  // Hands the memory of a result of the last run to the caller, if the context allocated it. The budget no longer
  // counts it, and the context lacks this result until the next run.
  std::shared_ptr<void> take_output(size_t i);
  void forget_results();  // drops the results of the last run, and the memory set for results

  std::span<const int64_t> shape_of_output(size_t i) const;  // after prepare(); empty if a task computes the size
  bool is_late(size_t output) const;
  bool is_on_device(size_t output) const { return outputs_[output].on_device != nullptr; }
  uint32_t failed_task() const { return failed_task_; }  // of the last run; kNone if no task failed
  const Allocator& allocator() const { return *allocator_; }
  const std::shared_ptr<States>& states() const { return states_; }
  const Frame* frame() const { return frame_.get(); }  // null before the first run
  bool has_run() const { return has_run_; }            // whether the last run finished
  int64_t bytes_of_task(uint32_t task) const;  // bytes read and written in the last run; -1 if a size is not known
  int64_t flops_of_task(uint32_t task) const;  // -1 if unknown
  // An output of a task, in the memory of its slot's space. Its memory is another tensor's after later tasks.
  TensorView tensor(uint32_t task, size_t output) const { return view_of(graph_.tasks[task].outputs[output]); }
  std::span<const Event> events() const { return events_; }  // of the last run, with telemetry

 private:
  class Services;
  struct Argument {
    tenon_tensor tensor = {};
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    bool is_set = false;
    bool is_row_major = true;
    Block copy = {};  // of an input that is not row-major, or of a result outside the caller's memory
    std::shared_ptr<DeviceTensor> on_device = {};
    bool is_left = false;  // of a result on a device: its task writes it there

    Extent extent() const {
      if (tensor.data == nullptr) return {};
      return extent_of(tensor.data, tenon_dtype_size(tensor.dtype), shape, strides);
    }
  };
  // The memory of a late root (its size is known during the run): a block of the context, or a result of the fallback.
  struct Held {
    std::shared_ptr<void> owner = {};
    Block* block = nullptr;  // null: memory of the fallback
  };
  // A launch or a copy of a device that is under way.
  struct Pending {
    uint32_t task;
    Ticket ticket;
  };
  // Consecutive kernels that run without checks in between, or one task that needs checks.
  struct Launch {
    uint32_t first;
    uint32_t end;
    bool is_plain;
  };

  void find_states();
  void draw_key();
  void fuse();
  void bind();
  void check_sizes() const;
  void check_guards() const;
  void check_conditions();
  [[noreturn]] void fail_type(size_t input, tenon_dtype dtype, std::span<const int64_t> shape) const;
  void take_frame();
  void place_own();
  void place_callers();
  void check_memory() const;
  void check_output_memory(size_t i) const;
  void check_updated_input(size_t i) const;
  bool lies_in_results(const Extent& memory) const;
  bool lies_in_states(const Extent& memory) const;
  bool overwrites_another() const;
  void stage(Argument& input);
  void set_output_type(size_t i, const tenon_tensor* given);
  void place_output(size_t i);
  void run_tasks();
  void launch_noted(uint32_t i);
  void launch(uint32_t i);
  void run_kernel(uint32_t i);
  void launch_late(uint32_t i);
  void run_fallback(uint32_t i);
  void run_library(uint32_t i);
  void run_device(uint32_t i);
  void time_device(uint32_t i, Ticket ticket);
  void take_device_times(int64_t now_ns);
  Ticket start_transfer(const TaskNode& task, uint32_t i);
  Ticket start_launch(const TaskNode& task, uint32_t i);
  void wait_for(uint32_t task);
  void drain() noexcept;
  void place_arenas(const Frame& frame);
  std::byte* arena_place(uint32_t slot) const;
  // Transfers of this run that have nothing to do, and where states and the caller's tensors lie on devices.
  void place_moves();
  void place_arrival(const Arrival& arrival);
  void place_departure(const Departure& departure);
  void bring_to_host();
  void check_device_memory() const;
  bool is_updated(uint32_t slot) const;
  void finish_outputs();
  void finish_moves();
  DeviceTensor* tensor_of(uint32_t slot) const;  // of an input or a state; null: it lies in the host's memory only
  bool is_skipped(uint32_t task) const { return !skips_.empty() && skips_[task] != 0; }
  static TensorView make_output(void* self, size_t output, std::span<const int64_t> shape);
  void check_late(uint32_t i) const;
  void fail_kernel(const TaskNode& task, const int64_t (&error)[4]) const;
  void place_late(uint32_t slot);
  void hold(uint32_t root, void* data, std::shared_ptr<void> owner, Block* block);
  int64_t elements_of(uint32_t slot) const;
  void size_late(uint32_t slot);
  void bind_late(uint32_t slot, std::span<const int64_t> shape);
  void cleanup(uint32_t task);
  void copy_outputs();
  void apply_updates();
  Block new_block(int64_t bytes);
  Block allocate(int64_t bytes, std::string_view what);
  [[noreturn]] void fail_memory(std::string_view what, int64_t bytes, const Frame* frame) const;
  TensorView view_of(uint32_t slot) const;
  int64_t known_value(const Expr& expr) const;
  void check_known(size_t symbol) const;
  int64_t bytes_of(uint32_t slot) const;

  std::shared_ptr<const LoadedProgram> program_;
  const TaskGraph& graph_;
  ContextOptions options_;
  std::shared_ptr<Allocator> allocator_;
  std::unique_ptr<Services> services_;
  const tenon_services* kernel_services_;  // the same
  std::vector<Argument> inputs_;
  std::vector<Argument> outputs_;
  std::optional<uint64_t> seed_;  // the seed of the next run
  int64_t key_[2] = {};           // the last key drawn
  bool sizes_changed_ = true;
  std::vector<int64_t> symbols_;  // kUnknown if not known yet
  std::shared_ptr<const Frame> frame_;
  Block arena_;
  std::vector<DeviceBlock> device_arenas_;  // of the spaces of devices
  std::vector<Pending> pending_;            // in the order of tasks
  std::vector<Pending> timed_;              // of this run: the device tells when they ran
  std::vector<uint8_t> skips_;              // by task: 1 for transfers that this run skips; empty without devices
  std::shared_ptr<States> states_;
  std::vector<size_t> state_numbers_;  // for each state of the program, its number in states_
  Retriever retriever_;
  std::vector<Launch> launches_;
  std::vector<int64_t> late_sizes_;  // the sizes of late slots, laid out as Frame::sizes
  std::vector<Held> held_;           // of late roots
  std::vector<Event> events_;
  uint32_t failed_task_ = kNone;
  bool has_run_ = false;
  bool has_moves_;  // tensors, besides states that others use, may lie in the memory of devices
};

}  // namespace tenon::runtime
