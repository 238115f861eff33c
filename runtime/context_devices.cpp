// The part of Context that runs tasks of devices. They may return before they are done: a task of the host waits for
// the transfers that it needs (TaskNode::wait_for), and a run ends when everything is done.
#include <algorithm>

#include "runtime/context.h"
#include "runtime/error.h"

namespace tenon::runtime {

void Context::place_arenas(const Frame& frame) {
  for (size_t i = 0; i < device_arenas_.size(); ++i) {
    if (frame.device_bytes[i] <= device_arenas_[i].bytes()) continue;
    device_arenas_[i] = DeviceBlock();
    device_arenas_[i] = DeviceBlock(program_->device(static_cast<uint32_t>(i + 1)), frame.device_bytes[i]);
  }
}

void Context::run_device(uint32_t i) {
  const TaskNode& task = graph_.tasks[i];
  if (task.is_late) {
    size_late(task.inputs[0]);
    retriever_.resolve(i, symbols_);
  }
  const Ticket ticket = task.kind == TaskKind::Transfer ? start_transfer(task, i) : start_launch(task, i);
  if (ticket != kDone) pending_.push_back({i, ticket});
  if (options_.telemetry) time_device(i, ticket);
  if (!task.is_late) return;
  wait_for(i);  // what the fallback gave is freed after its last reader
  cleanup(i);
}

// The device tells when the task ran. One that does not is waited for, so that the time of a task is its own.
void Context::time_device(uint32_t i, Ticket ticket) {
  if (!program_->device(graph_.tasks[i].space)->has_events()) return wait_for(i);
  if (ticket != kDone) timed_.push_back({i, ticket});
}

// Times of the host's clock are taken as they are. Of another clock, only how long a task took: it starts when it was
// submitted.
void Context::take_device_times(int64_t now_ns) {
  for (const Pending& each : timed_) {
    const tenon_device_event when = program_->device(graph_.tasks[each.task].space)->event_of(each.ticket);
    if (when.end_ns <= when.begin_ns) continue;
    Event& event = events_[each.task];
    const auto begin = static_cast<int64_t>(when.begin_ns), end = static_cast<int64_t>(when.end_ns);
    if (begin >= event.start_ns && end <= now_ns) event.start_ns = begin;
    event.end_ns = event.start_ns + (end - begin);
  }
}

Ticket Context::start_transfer(const TaskNode& task, uint32_t i) {
  Device& device = *program_->device(task.space);
  void* const from = retriever_.get_tensor(i, 0);
  void* const to = retriever_.get_tensor(i, 1);
  const int64_t bytes = bytes_of(task.outputs[0]);
  if (task.is_late && elements_of(task.inputs[0]) != frame_->elements[task.outputs[0]])
    fail(TENON_RUN_FAILED, "the tensor of transfer ", task.name, " has another size than promised");
  return graph_.slots[task.inputs[0]].space == kHost ? device.copy_in(to, from, bytes)
                                                     : device.copy_out(to, from, bytes);
}

Ticket Context::start_launch(const TaskNode& task, uint32_t i) {
  const DeviceProgram& program = *program_->kernel(task.kernel).device;
  std::vector<int64_t> sizes;
  for (const Expr& number : task.numbers) sizes.push_back(known_value(number));
  const int64_t scratch = frame_->scratch_offsets[i];
  const tenon_launch launch{.size = sizeof(tenon_launch),
                            .buffers = retriever_.tensors(i),
                            .buffer_count = task.inputs.size() + task.outputs.size(),
                            .sizes = sizes.data(),
                            .size_count = sizes.size(),
                            .scratch = scratch < 0 ? nullptr : device_arenas_[task.space - 1].data() + scratch};
  return program.device().submit(program.get(), launch);
}

// Waits for all tasks of devices up to this one. The first that failed is the one that the run reports.
void Context::wait_for(uint32_t task) {
  const auto end = std::ranges::find_if(pending_, [&](const Pending& each) { return each.task > task; });
  const std::vector<Pending> over(pending_.begin(), end);
  pending_.erase(pending_.begin(), end);
  for (size_t k = 0; k < over.size(); ++k) {
    try {
      program_->device(graph_.tasks[over[k].task].space)->wait(over[k].ticket);
    } catch (const StatusError&) {
      failed_task_ = over[k].task;
      pending_.insert(pending_.begin(), over.begin() + static_cast<std::ptrdiff_t>(k) + 1, over.end());
      throw;
    }
  }
}

// After a failure: nothing of this run may touch memory when it ends.
void Context::drain() noexcept {
  for (const Pending& each : pending_) {
    try {
      program_->device(graph_.tasks[each.task].space)->wait(each.ticket);
    } catch (const StatusError&) {  // the first failure is reported
    }
  }
  pending_.clear();
}

}  // namespace tenon::runtime
