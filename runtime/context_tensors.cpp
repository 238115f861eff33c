// The part of Context that handles the caller's tensors: inputs, results and updates.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/checked.h"
#include "runtime/context.h"
#include "runtime/elements.h"
#include "runtime/strided.h"

namespace tenon::runtime {

// ---- inputs ---------------------------------------------------------------------------------------------------------

void Context::fail_type(size_t input, tenon_dtype dtype, std::span<const int64_t> shape) const {
  fail(TENON_INVALID_ARGUMENT, "input '", graph_.inputs[input].name, "' must be ",
       type_text(graph_, graph_.slots[graph_.inputs[input].slot]), ", got ", tenon_dtype_name(dtype), shape);
}

void Context::set_input(size_t i, const tenon_tensor& tensor) {
  Argument& input = inputs_[i];
  const TensorSlot& slot = graph_.slots[graph_.inputs[i].slot];
  const std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(std::max(tensor.rank, 0)));
  if (tensor.dtype != slot.dtype || shape.size() != slot.shape.size()) {
    fail_type(i, tensor.dtype, shape);
  }
  input.tensor = tensor;
  input.on_device = nullptr;
  input.is_set = true;
  if (!std::ranges::equal(input.shape, shape)) {
    std::ranges::copy(shape, input.shape.begin());
    sizes_changed_ = true;
  }
  row_major_strides(input.shape, input.strides);
  input.is_row_major = tensor.strides == nullptr || is_row_major(shape, {tensor.strides, shape.size()});
  if (!input.is_row_major) std::copy_n(tensor.strides, shape.size(), input.strides.begin());
}

namespace {

void check_device_tensor(std::string_view kind, std::string_view name, const tenon_tensor& tensor,
                         const DeviceTensor& on_device) {
  int64_t bytes = size_of(tensor.dtype);
  for (int32_t i = 0; i < tensor.rank; ++i) bytes = checked_mul(bytes, tensor.shape[i]);
  if (bytes == on_device.bytes()) return;
  fail(TENON_INVALID_ARGUMENT, kind, " '", name, "' has ", bytes, " bytes, and the tensor on ",
       on_device.device()->info().name, " has ", on_device.bytes());
}

}  // namespace

void Context::set_input(size_t i, const tenon_tensor& tensor, std::shared_ptr<DeviceTensor> on_device) {
  check_device_tensor("input", graph_.inputs[i].name, tensor, *on_device);
  set_input(i, {nullptr, tensor.dtype, tensor.rank, tensor.shape, nullptr});
  inputs_[i].on_device = std::move(on_device);
  has_moves_ = true;
}

void Context::stage(Argument& input) {
  const size_t element = tenon_dtype_size(input.tensor.dtype);
  int64_t elements = 1;
  for (int64_t size : input.shape) elements = checked_mul(elements, size);
  const int64_t bytes = checked_mul(elements, static_cast<int64_t>(element));
  if (input.copy.data() == nullptr || input.copy.bytes() != bytes) {
    input.copy = Block();
    input.copy = allocate(bytes, "a row-major copy of an input");
  }
  int64_t strides[64];
  const std::span<int64_t> row_major(strides, input.shape.size());
  row_major_strides(input.shape, row_major);
  copy_strided(input.shape, element, input.copy.data(), row_major, input.tensor.data, input.strides);
}

// ---- results --------------------------------------------------------------------------------------------------------

void Context::set_output(size_t i, const tenon_tensor& tensor) {
  set_output_type(i, tensor.data != nullptr ? &tensor : nullptr);
  outputs_[i].is_set = tensor.data != nullptr;
}

// The run writes it to the context's memory, unless its task leaves it on the device.
void Context::set_output(size_t i, const tenon_tensor& tensor, std::shared_ptr<DeviceTensor> on_device) {
  check_device_tensor("output", graph_.outputs[i].name, tensor, *on_device);
  const tenon_tensor type{nullptr, tensor.dtype, tensor.rank, tensor.shape, nullptr};
  set_output_type(i, &type);
  outputs_[i].on_device = std::move(on_device);
  has_moves_ = true;
}

void Context::set_output_type(size_t i, const tenon_tensor* given) {
  Argument& output = outputs_[i];
  output.is_set = output.is_left = false;
  output.on_device = nullptr;
  output.tensor = given != nullptr ? *given : tenon_tensor{};
  if (given == nullptr) return;
  const tenon_tensor& tensor = *given;
  const TensorSlot& slot = graph_.slots[graph_.outputs[i].slot];
  if (tensor.dtype != slot.dtype || tensor.rank != static_cast<int32_t>(slot.shape.size())) {
    fail(TENON_INVALID_ARGUMENT, "output '", graph_.outputs[i].name, "' is ", type_text(graph_, slot),
         ", got memory for ", tenon_dtype_name(tensor.dtype),
         std::span(tensor.shape, static_cast<size_t>(std::max(tensor.rank, 0))));
  }
  const std::span<const int64_t> shape(tensor.shape, slot.shape.size());
  std::ranges::copy(shape, output.shape.begin());
  row_major_strides(output.shape, output.strides);
  output.is_row_major = tensor.strides == nullptr || is_row_major(shape, {tensor.strides, shape.size()});
  if (!output.is_row_major) std::copy_n(tensor.strides, shape.size(), output.strides.begin());
}

bool Context::is_late(size_t output) const { return graph_.root_of(graph_.outputs[output].slot).is_late; }

std::span<const int64_t> Context::shape_of_output(size_t i) const {
  const uint32_t slot = graph_.outputs[i].slot;
  if (frame_->elements[slot] < 0) return {};
  return {frame_->sizes.data() + program_->first_size(slot), graph_.slots[slot].shape.size()};
}

// The memory of a result, the caller's or the context's; or the memory that the result is copied from.
void Context::place_output(size_t i) {
  Argument& output = outputs_[i];
  const TensorInfo& info = graph_.outputs[i];
  if (is_late(i) && !info.is_copied) return;
  if (frame_->elements[info.slot] < 0) return;
  const bool has_type = output.is_set || output.on_device;
  if (has_type && !std::ranges::equal(output.shape, shape_of_output(i))) {
    fail(TENON_INVALID_ARGUMENT, "output '", info.name, "' has the shape ", shape_of_output(i), ", got memory for ",
         output.shape);
  }
  const uint32_t source = graph_.root_of(info.slot).source.task;
  if (output.is_left && is_skipped(source)) return;
  const bool is_direct = output.is_set && output.is_row_major;
  const int64_t bytes = bytes_of(info.slot);
  if (!is_direct && (output.copy.data() == nullptr || output.copy.bytes() != bytes)) {
    output.copy = Block();
    output.copy = allocate(bytes, text_of("output '", info.name, "'"));
  }
  if (!info.is_copied)
    retriever_.place(graph_.slots[info.slot].root, is_direct ? output.tensor.data : output.copy.data());
}

// Whether an input that the program overwrites shares memory with another input, which a later task may read.
bool Context::overwrites_another() const {
  const auto is_overwritten = [&](const TensorInfo& input) { return graph_.slots[input.slot].is_overwritten; };
  if (std::ranges::none_of(graph_.inputs, is_overwritten)) return false;
  std::vector<std::pair<int64_t, int64_t>> ends;  // ends of byte ranges: 1 and 2 begin one, -1 and -2 end it
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto [begin, end] = inputs_[i].extent();
    const int64_t kind = is_overwritten(graph_.inputs[i]) ? 2 : 1;
    ends.emplace_back(reinterpret_cast<int64_t>(begin), kind);
    ends.emplace_back(reinterpret_cast<int64_t>(end), -kind);
  }
  std::ranges::sort(ends);  // at the same address, ends come before starts
  int64_t open = 0, overwritten = 0;
  for (const auto& [address, kind] : ends) {
    open += kind > 0 ? 1 : -1;
    overwritten += kind / 2;
    if (open > 1 && overwritten > 0) return true;
  }
  return false;
}

void Context::place_callers() {
  if (options_.checks_memory) check_memory();
  const bool keeps_apart = overwrites_another();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const uint32_t slot = graph_.inputs[i].slot;
    const auto is_written_by_the_run = [&](const Extent& memory) {
      return lies_in_results(memory) || lies_in_states(memory);
    };
    const bool is_copied = !inputs_[i].is_row_major || (keeps_apart && graph_.slots[slot].is_overwritten) ||
                           (options_.checks_memory && is_written_by_the_run(inputs_[i].extent()));
    if (is_copied) stage(inputs_[i]);
    retriever_.place(slot, is_copied ? inputs_[i].copy.data() : inputs_[i].tensor.data);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) place_output(i);
  retriever_.resolve_callers();
}

void Context::copy_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Argument& output = outputs_[i];
    const TensorInfo& info = graph_.outputs[i];
    size_late(info.slot);
    const TensorView from = view_of(info.slot);
    if ((output.is_set || output.on_device) && !std::ranges::equal(output.shape, from.shape)) {
      fail(TENON_INVALID_ARGUMENT, "output '", info.name, "' has the shape ", from.shape, ", got memory for ",
           output.shape);
    }
    const bool is_ours = !info.is_copied && !output.is_set;
    const bool is_there = !info.is_copied && output.is_set && output.is_row_major && !is_late(i);
    if (is_ours || is_there) continue;
    int64_t strides[64];
    const std::span<int64_t> row_major(strides, from.shape.size());
    row_major_strides(from.shape, row_major);
    if (!output.is_set && frame_->elements[info.slot] < 0) {
      output.copy = Block();
      output.copy =
          allocate(checked_mul(elements_of(info.slot), size_of(from.dtype)), text_of("output '", info.name, "'"));
    }
    void* const to = output.is_set ? output.tensor.data : output.copy.data();
    copy_strided(from.shape, tenon_dtype_size(from.dtype), to,
                 output.is_set ? std::span<const int64_t>(output.strides) : row_major, from.data, row_major);
  }
}

void Context::forget_results() {
  std::ranges::fill(held_, Held());
  for (Argument& input : inputs_) input.on_device = nullptr;
  for (size_t i = 0; i < outputs_.size(); ++i) set_output_type(i, nullptr);
  has_moves_ = !graph_.spaces.empty();
}

Output Context::output(size_t i) const {
  const Argument& output = outputs_[i];
  const TensorInfo& info = graph_.outputs[i];
  TensorView view = view_of(info.slot);
  if (output.is_set) {
    view.data = output.tensor.data;
    return {view};
  }
  if (info.is_copied) view.data = output.copy.data();
  return {view, is_late(i) && !info.is_copied ? held_[graph_.slots[info.slot].root].owner : nullptr};
}

std::shared_ptr<void> Context::take_output(size_t i) {
  const TensorInfo& info = graph_.outputs[i];
  has_run_ = false;
  if (!is_late(i) || info.is_copied) return outputs_[i].copy.take();
  Held held = std::exchange(held_[graph_.slots[info.slot].root], {});
  return held.block != nullptr ? held.block->take() : std::move(held.owner);
}

tenon_tensor Context::output_tensor(size_t i) const {
  const TensorView view = output(i).view;
  return {view.data, view.dtype, static_cast<int32_t>(view.shape.size()), view.shape.data(),
          outputs_[i].is_set && !outputs_[i].is_row_major ? outputs_[i].strides.data() : nullptr};
}

// ---- updates --------------------------------------------------------------------------------------------------------

// Values that were computed in the memory of their target are in place. A new value may lie in the memory that another
// update overwrites: such a value is copied first.
void Context::apply_updates() {
  std::vector<Block> copies;
  std::vector<const void*> values;
  for (const auto& [target, value] : graph_.updates) {
    size_late(value);
    const TensorSlot& root = graph_.root_of(value);
    const TensorView view = view_of(value);
    if (!std::ranges::equal(view.shape, view_of(target).shape)) {
      fail(TENON_RUN_FAILED, "the new value of slot ", target, " has the shape ", view.shape);
    }
    const bool stays = root.source.task != kNone && is_skipped(root.source.task);  // in a device's memory
    values.push_back(stays ? nullptr : view.data);
    if (stays) continue;
    if ((root.kind != SlotKind::Input && root.kind != SlotKind::State) || graph_.slots[value].root == target) continue;
    copies.push_back(allocate(bytes_of(value), "an update"));
    std::memcpy(copies.back().data(), view.data, static_cast<size_t>(bytes_of(value)));
    values.back() = copies.back().data();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const TensorSlot& target = graph_.slots[graph_.updates[i].first];
    const TensorView view = view_of(graph_.updates[i].first);
    int64_t strides[64];
    const std::span<int64_t> row_major(strides, view.shape.size());
    row_major_strides(view.shape, row_major);
    const bool is_input = target.kind == SlotKind::Input;
    void* const to = is_input ? inputs_[target.position].tensor.data : view.data;
    if (to == values[i] || values[i] == nullptr) continue;
    copy_strided(view.shape, tenon_dtype_size(target.dtype), to,
                 is_input ? std::span<const int64_t>(inputs_[target.position].strides) : row_major, values[i],
                 row_major);
  }
}

}  // namespace tenon::runtime
