// A run of a program, again and again, in memory of its own. A context belongs to one thread at a time.
//
// Everything is resolved to flat tables: where each argument of each task lies. They change when sizes change (the
// program keeps the plans of the last few), and otherwise only where the caller's own memory moved. A run with the same
// sizes as the one before allocates nothing, unless a task finds out a size (nonzero), the fallback is called, a tensor
// of the caller's is not row-major, or something is updated.
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

struct ContextOptions {
  int64_t budget =
      kNoBudget;        // of the arena, of scratch, of results that are not in the caller's memory, of own states
  int64_t threads = 0;  // 0: what the calling thread has
  bool telemetry = false;
  bool checks_memory = false;  // Reject or copy tensors of the caller that overlap. Off: the caller guarantees that
                               // only inputs overlap inputs.
  int64_t most_steps = PortableKernel::kNoLimit;  // of a portable kernel: for who runs what may never end
};

struct Event {
  uint32_t task;
  int64_t start_ns;  // of a clock that never goes back
  int64_t end_ns;
};

// A result. `owner` is empty where its memory is the caller's, or the context's until its next run.
struct Output {
  TensorView view;
  std::shared_ptr<void> owner = {};
};

class Context {
 public:
  // Over these states, which must have all of the program's (by name and type), or over some of its own, which count
  // for its budget.
  Context(std::shared_ptr<const LoadedProgram> program, const ContextOptions& options,
          std::shared_ptr<States> states = {});
  ~Context();
  Context(const Context&) = delete;

  // The memory is the caller's, and must stay until the run is over. Throws a StatusError for a tensor that does not
  // fit.
  void set_input(size_t i, const tenon_tensor& tensor);
  // Where a result goes. Only its address is looked at now; the run tells whether it fits. An empty tensor (null data,
  // rank 0) goes back to memory of the context.
  void set_output(size_t i, const tenon_tensor& tensor);
  // From now on random numbers follow from the seed, in each run others. Without a seed each run draws one. An input
  // that is set as the key of random numbers counts more.
  void set_seed(int64_t seed);
  // The sizes of the inputs decide everything else; what is needed is allocated. A run does that by itself.
  void prepare();
  // Throws a StatusError. Sizes, the caller's tensors and the arena's memory are checked first: then nothing has been
  // updated. Where a task fails, or the data breaks a promise of the model, what earlier tasks computed in place
  // (TensorSlot::is_overwritten) is updated, the rest is not.
  void run();
  Output output(size_t i) const;  // of the last run
  tenon_tensor output_tensor(size_t i) const;
  // The memory of a result of the last run that is not in the caller's memory. It is the caller's from now on, and
  // counts for the budget no more; the context has no such result until it runs again.
  std::shared_ptr<void> take_output(size_t i);
  void forget_results();  // nothing of the last run is kept any more, nor where results went

  std::span<const int64_t> shape_of_output(size_t i) const;  // after prepare(); empty where it is late
  bool is_late(size_t output) const;
  uint32_t failed_task() const { return failed_task_; }  // of the last run; kNone where it is no task's fault
  const Allocator& allocator() const { return *allocator_; }
  const std::shared_ptr<States>& states() const { return states_; }
  const Frame* frame() const { return frame_.get(); }  // null before the first run
  bool has_run() const { return has_run_; }            // the last one, to its end
  int64_t bytes_of_task(uint32_t task) const;  // that it read and wrote in the last run; -1 where a size is late
  int64_t flops_of_task(uint32_t task) const;  // -1 where nobody said
  std::span<const Event> events() const { return events_; }  // of the last run, with telemetry

 private:
  class Services;
  struct Argument {
    tenon_tensor tensor = {};
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    bool is_set = false;
    bool is_row_major = true;
    Block copy = {};  // of an input that is not row-major; of a result that is not in the caller's memory

    Extent extent() const { return extent_of(tensor.data, tenon_dtype_size(tensor.dtype), shape, strides); }
  };
  // The memory of a late root: a block of the context, or what the fallback gave.
  struct Held {
    std::shared_ptr<void> owner = {};
    Block* block = nullptr;  // null: the fallback's
  };
  // Tasks that run one after the other without a look at anything else, or one that needs it.
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
  void place_output(size_t i);
  void run_tasks();
  void launch_noted(uint32_t i);
  void launch(uint32_t i);
  void run_kernel(uint32_t i);
  void launch_late(uint32_t i);
  void run_fallback(uint32_t i);
  void run_library(uint32_t i);
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
  std::vector<Argument> inputs_;
  std::vector<Argument> outputs_;
  std::optional<uint64_t> seed_;  // of the next run
  int64_t key_[2] = {};           // that was drawn last
  bool sizes_changed_ = true;
  std::vector<int64_t> symbols_;  // kUnknown where it is not known yet
  std::shared_ptr<const Frame> frame_;
  Block arena_;
  std::shared_ptr<States> states_;
  std::vector<size_t> state_numbers_;  // in them, of each of the program's
  Retriever retriever_;
  std::vector<Launch> launches_;
  std::vector<int64_t> late_sizes_;  // as Frame::sizes, of late slots
  std::vector<Held> held_;           // of late roots
  std::vector<Event> events_;
  uint32_t failed_task_ = kNone;
  bool has_run_ = false;
};

}  // namespace tenon::runtime
