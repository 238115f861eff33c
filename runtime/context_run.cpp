// The part of Context that every run goes through, task by task.
#include <chrono>

#include "runtime/context.h"
#include "runtime/error.h"

namespace tenon::runtime {
namespace {

constexpr size_t kMostLibraryArguments = 16;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

// Not part of run(), which is compiled for size.
[[gnu::noinline]] void Context::run_tasks() {
  const struct Drain {
    Context& context;
    ~Drain() { context.drain(); }
  } drain_at_end{*this};
  for (const Launch& launch : launches_) {
    if (options_.telemetry || options_.after_task || !launch.is_plain) {
      for (uint32_t i = launch.first; i < launch.end; ++i) launch_noted(i);
    } else {
      for (failed_task_ = launch.first; failed_task_ < launch.end; ++failed_task_) run_kernel(failed_task_);
    }
  }
  if (!pending_.empty()) wait_for(kNone);
  for (uint32_t space = 1; space <= graph_.spaces.size(); ++space) program_->device(space)->check_zones();
  if (!timed_.empty()) take_device_times(now_ns());
  failed_task_ = kNone;
}

void Context::launch_noted(uint32_t i) {
  if (is_skipped(i)) return;
  failed_task_ = i;
  const int64_t start = options_.telemetry ? now_ns() : 0;
  launch(i);
  if (options_.telemetry) events_.push_back({i, start, now_ns()});
  if (!options_.after_task) return;
  if (is_device_task(graph_.tasks[i])) wait_for(i);
  options_.after_task(options_.observer, *this, i);
}

void Context::launch(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  if (task.wait_for != kNone) wait_for(task.wait_for);
  if (is_device_task(task)) return run_device(i);
  if (task.is_late) return launch_late(i);
  if (task.kind == TaskKind::Kernel) return run_kernel(i);
  run_library(i);
}

void Context::run_kernel(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  const KernelEntry& kernel = program_->kernel(task.kernel);
  void* const* const memory = retriever_.tensors(i);
  const int64_t* const sizes = retriever_.args(i);
  int64_t error[4] = {};
  if (kernel.native != nullptr) [[likely]] {
    if (kernel.native(memory, sizes, error, kernel_services_) != 0) [[unlikely]]
      fail_kernel(task, error);
  } else if (kernel.portable) {
    if (kernel.portable->run(memory, sizes, error, kernel_services_, options_.step_limit) != 0)
      fail_kernel(task, error);
  } else {
    kernel.call({memory, task.inputs.size() + task.outputs.size()}, {sizes, task.sizes.size()});
  }
}

TensorView Context::view_of(uint32_t slot) const {
  const std::vector<int64_t>& sizes = frame_->elements[slot] < 0 ? late_sizes_ : frame_->sizes;
  return {graph_.slots[slot].dtype,
          {sizes.data() + program_->first_size(slot), graph_.slots[slot].shape.size()},
          retriever_.place_of(slot)};
}

// The views, numbers and results of a call, on the stack.
void Context::run_library(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  const LibraryFunction& function = program_->function(i);
  TensorView views[kMostLibraryArguments];
  int64_t numbers[kMostLibraryArguments];
  size_t count = 0;
  for (uint32_t slot : task.inputs) views[count++] = view_of(slot);
  for (uint32_t slot : task.outputs) {
    if (!function.makes_output) place_late(slot);
    views[count++] = view_of(slot);
  }
  for (size_t k = 0; k < task.numbers.size(); ++k) numbers[k] = known_value(task.numbers[k]);
  std::pair<Context*, const TaskNode*> self(this, &task);
  LibraryCall call{{views, task.inputs.size()},
                   {views + task.inputs.size(), task.outputs.size()},
                   {numbers, task.numbers.size()},
                   task.text,
                   kernel_services_,
                   make_output,
                   &self};
  try {
    runtime::run(function, call);
  } catch (const StatusError& error) {
    if (error.status() != TENON_OUT_OF_MEMORY || function.makes_output) throw;
    fail_memory(text_of("the scratch of ", task.name), 0, frame_.get());
  }
}

TensorView Context::make_output(void* self, size_t output, std::span<const int64_t> shape) {
  const auto& [context, task] = *static_cast<std::pair<Context*, const TaskNode*>*>(self);
  const uint32_t slot = task->outputs[output];
  context->bind_late(slot, shape);
  context->place_late(slot);
  return context->view_of(slot);
}

}  // namespace tenon::runtime
