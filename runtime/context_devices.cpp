// The part of Context that runs tasks of devices. They may return before they are done: a task of the host waits for
// the transfers that it needs (TaskNode::wait_for), and a run ends when everything is done.
#include <algorithm>

#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/launch_guard.h"
#include "runtime/plugin_call.h"

namespace tenon::runtime {

void Context::place_arenas(const Frame& frame) {
  check_device_budgets(graph_, frame, options_.device_budgets);
  for (size_t i = 0; i < device_arenas_.size(); ++i) {
    if (frame.device_bytes[i] <= device_arenas_[i].bytes()) continue;
    device_arenas_[i] = DeviceBlock();
    device_arenas_[i] = DeviceBlock(program_->device(static_cast<uint32_t>(i + 1)), frame.device_bytes[i]);
  }
}

// ---- tensors that are in a device's memory already ------------------------------------------------------------------

DeviceTensor* Context::tensor_of(uint32_t slot) const {
  const TensorSlot& from = graph_.slots[slot];
  if (from.kind == SlotKind::State) return &states_->tensor(state_numbers_[from.position]);
  return inputs_[from.position].on_device.get();
}

void Context::place_moves() {
  std::ranges::fill(skips_, 0);
  for (const Arrival& arrival : graph_.arrivals) place_arrival(arrival);
  for (const Departure& departure : graph_.departures) place_departure(departure);
  bring_to_host();
  check_device_memory();
}

void Context::place_arrival(const Arrival& arrival) {
  const std::shared_ptr<Device>& device = program_->device(graph_.slots[arrival.to].space);
  DeviceTensor* const tensor = tensor_of(arrival.from);
  const bool is_there = tensor != nullptr && tensor->is_current_on(*device);
  const bool stays = graph_.slots[arrival.to].stays;
  skips_[arrival.task] = is_there;
  if (stays && !is_there) tensor->on_host();  // that the transfer reads
  retriever_.place(arrival.to, is_there || stays ? tensor->memory_on(device) : arena_place(arrival.to));
}

void Context::place_departure(const Departure& departure) {
  const std::shared_ptr<Device>& device = program_->device(graph_.slots[departure.from].space);
  std::byte* place = arena_place(departure.from);
  bool leaves = true;
  if (departure.state != kNone) {
    place = states_->tensor(state_numbers_[departure.state]).next_on(device);
    leaves = departure.is_read_on_host;
  } else {
    Argument& output = outputs_[departure.output];
    output.is_left = output.on_device && output.on_device->device() == device &&
                     output.on_device->bytes() == bytes_of(departure.from);
    if (output.is_left) place = output.on_device->memory_on(device);
    leaves = !output.is_left || departure.is_read_on_host;
  }
  skips_[departure.task] = !leaves;
  retriever_.place(departure.from, place);
}

// The host's copies that tasks of the host read or change.
void Context::bring_to_host() {
  for (size_t i = 0; i < graph_.states.size(); ++i) {
    DeviceTensor& tensor = states_->tensor(state_numbers_[i]);
    if (graph_.states[i].is_on_host) tensor.on_host();
    if (graph_.states[i].changes_on_host) tensor.written_on_host();
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].on_device) continue;
    const uint32_t slot = graph_.inputs[i].slot;
    const auto reads_on_device = std::ranges::count_if(
        graph_.arrivals, [&](const Arrival& arrival) { return arrival.from == slot && is_skipped(arrival.task); });
    const bool is_on_host = is_updated(slot) || graph_.slots[slot].references > static_cast<uint32_t>(reads_on_device);
    inputs_[i].tensor.data = is_on_host ? inputs_[i].on_device->on_host() : nullptr;
    if (is_updated(slot)) inputs_[i].on_device->written_on_host();
  }
}

bool Context::is_updated(uint32_t slot) const {
  return std::ranges::any_of(graph_.updates, [&](const auto& update) { return update.first == slot; });
}

// Results in a device's memory overlap nothing else that the caller gave.
void Context::check_device_memory() const {
  const auto extent = [](const DeviceTensor& tensor) {
    const std::byte* const begin = tensor.device_memory();
    return Extent{begin, begin + tensor.bytes()};
  };
  const auto check = [&](size_t i, const Argument& other, std::string_view kind, std::string_view name) {
    const DeviceTensor& output = *outputs_[i].on_device;
    if (!other.on_device || other.on_device->device() != output.device()) return;
    if (meet(extent(output), extent(*other.on_device)))
      fail(TENON_INVALID_ARGUMENT, "the memory of output '", graph_.outputs[i].name, "' on ",
           output.device()->info().name, " overlaps that of ", kind, " '", name, "'");
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].on_device) continue;
    for (size_t k = 0; k < inputs_.size(); ++k) check(i, inputs_[k], "input", graph_.inputs[k].name);
    for (size_t k = 0; k < i; ++k) check(i, outputs_[k], "output", graph_.outputs[k].name);
  }
}

// Copies results to devices that their tasks do not run on. A device may fail: nothing is updated yet.
void Context::finish_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].on_device) continue;
    DeviceTensor& tensor = *outputs_[i].on_device;
    Device& device = *tensor.device();
    if (!outputs_[i].is_left)
      device.wait(device.copy_in(tensor.memory_on(tensor.device()), output(i).view.data, tensor.bytes()));
    tensor.written_on(device);
  }
}

// After a run that did not fail: where the values are now.
void Context::finish_moves() {
  for (const Arrival& arrival : graph_.arrivals) {
    const TensorSlot& from = graph_.slots[arrival.from];
    if (from.kind != SlotKind::State || graph_.states[from.position].is_renewed) continue;
    tensor_of(arrival.from)->arrived_on(*program_->device(graph_.slots[arrival.to].space));
  }
  for (const Departure& departure : graph_.departures) {
    if (departure.state == kNone) continue;
    states_->tensor(state_numbers_[departure.state])
        .next_is_written(*program_->device(graph_.slots[departure.from].space), departure.is_read_on_host);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::shared_ptr<DeviceTensor>& tensor = inputs_[i].on_device;
    if (tensor && is_updated(graph_.inputs[i].slot)) tensor->on_device(tensor->device());
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
    Event& event = *std::ranges::lower_bound(events_, each.task, {}, &Event::task);
    const auto begin = static_cast<int64_t>(when.begin_ns), end = static_cast<int64_t>(when.end_ns);
    if (begin >= event.start_ns && end <= now_ns) event.start_ns = begin;
    event.end_ns = event.start_ns + (end - begin);
    event.is_of_device = true;
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
  if (options_.launch != nullptr) {
    options_.launch(options_.observer, *this, i, launch);
    return kDone;
  }
  if (!device_settings().guards) return program.device().submit(program.get(), launch);
  std::vector<LaunchBuffer> buffers;
  for (const auto& slots : {task.inputs, task.outputs}) {
    for (uint32_t slot : slots)
      buffers.push_back({static_cast<std::byte*>(launch.buffers[buffers.size()]), bytes_of(slot),
                         slots.data() == task.outputs.data()});
  }
  run_between_guards(program, launch, buffers, task.name);
  return kDone;
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
