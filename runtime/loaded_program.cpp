#include "runtime/loaded_program.h"

#include <algorithm>
#include <ranges>

#include "runtime/allocator.h"
#include "runtime/arena_plan.h"
#include "runtime/checked.h"
#include "runtime/kernels/order.h"
#include "runtime/shared.h"

namespace tenon::runtime {
namespace {

constexpr size_t kMostFrames = 8;
constexpr size_t kNamedTensors = 5;

int64_t constant_size(const TaskGraph& graph, const Expr& size) {
  verify(size, graph.code, 0);
  const int64_t value = evaluate(size, graph.code, {});
  if (value < 0) fail(TENON_BAD_FILE, "a constant has a size of ", value);
  return value;
}

}  // namespace

LoadedProgram::LoadedProgram(Parts parts) : parts_(std::move(parts)) {
  graph_ = read_task_graph(*format::GetProgram(parts_.tables.data()));
  first_size_.push_back(0);
  for (const TensorSlot& slot : graph_.slots) first_size_.push_back(first_size_.back() + slot.shape.size());
  if (graph_.spaces.size() != parts_.devices.size())
    fail(TENON_BAD_FILE, "program ", graph_.name, " needs ", graph_.spaces.size(), " devices, and has ",
         parts_.devices.size());
  if (parts_.container) check_weights();
  if (!parts_.fallback) calls_ = find_calls(graph_, parts_.calls);
  for (const TaskNode& task : graph_.tasks) check_task(task);
  upload_constants();
  if (graph_.bindings.empty()) frame({});
}

void LoadedProgram::check_task(const TaskNode& task) {
  const LibraryFunction* function = nullptr;
  if (task.kind == TaskKind::Library) {
    function = find_library_function(task.function);
    if (function == nullptr) fail(TENON_UNSUPPORTED, task.name, ": this release has no function '", task.function, "'");
    if (task.inputs.size() != function->inputs || task.outputs.size() != function->outputs ||
        task.numbers.size() != function->numbers) {
      fail(TENON_BAD_FILE, task.name, " does not call '", task.function, "' as it is called");
    }
  }
  const bool has_code = task.kind == TaskKind::Kernel || task.kind == TaskKind::Device;
  if (has_code && parts_.kernels[task.kernel].space != task.space)
    fail(TENON_BAD_FILE, "the code of task ", task.name, " is for space ", parts_.kernels[task.kernel].space,
         ", and its slots are in ", task.space);
  functions_.push_back(function);
  const PortableKernel* const kernel =
      task.kind == TaskKind::Kernel ? parts_.kernels[task.kernel].portable.get() : nullptr;
  if (kernel == nullptr) return;
  bool fits = task.inputs.size() == kernel->inputs() && task.outputs.size() == kernel->outputs() &&
              task.sizes.size() == kernel->sizes();
  for (size_t i = 0; fits && i < task.inputs.size() + task.outputs.size(); ++i) {
    const uint32_t slot = i < task.inputs.size() ? task.inputs[i] : task.outputs[i - task.inputs.size()];
    fits = graph_.slots[slot].dtype == kernel->argument_dtype(i);
  }
  if (!fits) fail(TENON_BAD_FILE, "the slots of task ", task.name, " are not what its kernel takes");
}

// A constant of a file has as many bytes as its slot, whose shape has no symbols.
void LoadedProgram::check_weights() const {
  for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
    const TensorSlot& slot = graph_.slots[id];
    const bool is_stored = slot.kind == SlotKind::Constant || slot.kind == SlotKind::State;
    if (slot.root != id || !is_stored) continue;
    int64_t bytes = static_cast<int64_t>(tenon_dtype_size(slot.dtype));
    for (const Expr& size : slot.shape) bytes = checked_mul(bytes, constant_size(graph_, size));
    const Blob& blob =
        slot.kind == SlotKind::Constant ? graph_.constants[slot.position] : graph_.initial[slot.position];
    if (static_cast<uint64_t>(bytes) != blob.size()) {
      fail(TENON_BAD_FILE, "slot ", id, " needs ", bytes, " bytes of the weights, and has ", blob.size());
    }
  }
}

// Constants go to a device once; all contexts read them there.
void LoadedProgram::upload_constants() {
  if (graph_.spaces.empty()) return;
  uploads_.resize(graph_.slots.size());
  for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
    const TensorSlot& slot = graph_.slots[id];
    if (slot.kind != SlotKind::Constant || slot.space == kHost || slot.root != id) continue;
    auto bytes = static_cast<int64_t>(tenon_dtype_size(slot.dtype));
    for (const Expr& size : slot.shape) bytes = checked_mul(bytes, evaluate(size, graph_.code, {}));
    const std::shared_ptr<Device>& device = parts_.devices[slot.space - 1];
    if (!device) continue;
    DeviceBlock& block = uploads_[id] = DeviceBlock(device, bytes);
    device->wait(device->copy_in(block.data(), parts_.constants[slot.position], bytes));
  }
}

void check_arguments(const TaskNode& task, const PortableKernel& kernel, const int64_t* sizes,
                     std::span<const int64_t> elements) {
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t wanted = kernel.argument_elements(i, sizes);
    if (wanted == elements[i]) continue;
    fail(TENON_BAD_FILE, "argument ", i, " of task ", task.name, " has ", elements[i],
         " elements, and its kernel takes ", wanted);
  }
}

void LoadedProgram::forget_states() const {
  if (!parts_.container) return;
  for (size_t i = 0; i < parts_.states.size(); ++i)
    parts_.container->forget({parts_.states[i], static_cast<size_t>(graph_.initial[i].size())});
}

std::shared_ptr<const Frame> LoadedProgram::frame(std::span<const int64_t> symbols) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(frames_, [&](const auto& frame) { return std::ranges::equal(frame->symbols, symbols); });
  if (found != frames_.end()) {
    frames_.splice(frames_.begin(), frames_, found);
  } else {
    frames_.push_front(make_frame(*this, symbols));
    if (frames_.size() > kMostFrames) frames_.pop_back();
  }
  return frames_.front();
}

std::shared_ptr<const Frame> LoadedProgram::last_frame() const {
  const std::lock_guard lock(mutex_);
  return frames_.empty() ? nullptr : frames_.front();
}

// ---- frames ---------------------------------------------------------------------------------------------------------

namespace {

class FrameBuilder {
 public:
  FrameBuilder(const LoadedProgram& program, std::span<const int64_t> symbols)
      : program_(program), graph_(program.graph()), frame_(new_shared<Frame>()) {
    frame_->symbols.assign(symbols.begin(), symbols.end());
    frame_->sizes.resize(program.total_sizes());
    frame_->elements.assign(graph_.slots.size(), -1);
    frame_->offsets.assign(graph_.slots.size(), -1);
  }

  std::shared_ptr<const Frame> run() {
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) size_slot(id);
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) check_home(id);
    for (const auto& [target, value] : graph_.updates) check_update(target, value);
    for (const TaskNode& task : graph_.tasks) check_kernel(task);
    frame_->scratch_offsets.assign(graph_.tasks.size(), -1);
    plan(kHost);
    for (uint32_t space = 1; space <= graph_.spaces.size(); ++space) plan(space);
    return frame_;
  }

 private:
  void size_slot(uint32_t id) {
    const TensorSlot& slot = graph_.slots[id];
    if (std::ranges::any_of(slot.shape, [&](const Expr& size) { return !graph_.is_bound(size); })) return;
    int64_t* const sizes = frame_->sizes.data() + program_.first_size(id);
    int64_t elements = 1;
    for (size_t dim = 0; dim < slot.shape.size(); ++dim) {
      sizes[dim] = evaluate(slot.shape[dim], graph_.code, frame_->symbols);
      if (sizes[dim] < 0) fail(TENON_INVALID_ARGUMENT, "slot ", id, " would have a size of ", sizes[dim]);
      elements = checked_mul(elements, sizes[dim]);
    }
    frame_->elements[id] = elements;
    checked_mul(elements, static_cast<int64_t>(tenon_dtype_size(slot.dtype)));
  }

  void check_home(uint32_t id) const {
    const uint32_t home = graph_.slots[id].home;
    if (home != id && frame_->elements[id] >= 0 && frame_->elements[home] >= 0 &&
        frame_->elements[id] != frame_->elements[home]) {
      fail(TENON_BAD_FILE, "slot ", id, " of ", frame_->elements[id], " elements lies in one of ",
           frame_->elements[home]);
    }
  }

  void check_update(uint32_t target, uint32_t value) const {
    if (frame_->elements[value] >= 0 && frame_->elements[target] != frame_->elements[value]) {
      fail(TENON_BAD_FILE, "an update of slot ", target, " changes its size");
    }
  }

  void check_kernel(const TaskNode& task) {
    if (task.kind == TaskKind::Transfer && !task.is_late &&
        frame_->elements[task.inputs[0]] != frame_->elements[task.outputs[0]])
      fail(TENON_BAD_FILE, "transfer ", task.name, " changes the size of its tensor");
    if (task.kind != TaskKind::Kernel || task.is_late || !program_.kernel(task.kernel).portable) return;
    sizes_.clear();
    for (uint32_t symbol : task.sizes) sizes_.push_back(frame_->symbols[symbol]);
    elements_.clear();
    for (uint32_t slot : task.inputs) elements_.push_back(frame_->elements[slot]);
    for (uint32_t slot : task.outputs) elements_.push_back(frame_->elements[slot]);
    check_arguments(task, *program_.kernel(task.kernel).portable, sizes_.data(), elements_);
  }

  // The arena of a space: its temporaries, and the scratch of a device's tasks.
  void plan(uint32_t space) {
    std::vector<int64_t*> offsets;
    std::vector<Lifetime> lifetimes;
    const Device* const device = space == kHost ? nullptr : program_.device(space).get();
    const int64_t alignment = device == nullptr ? kAlignment : device->info().alignment;
    const auto add = [&](int64_t bytes, int64_t first, int64_t last, int64_t& offset) {
      lifetimes.push_back({checked_mul(checked_add(bytes, alignment - 1) / alignment, alignment), first, last});
      offsets.push_back(&offset);
    };
    int64_t kept = 0;
    for (uint32_t id = 0; id < graph_.slots.size(); ++id) {
      const TensorSlot& slot = graph_.slots[id];
      if (slot.space != space || slot.home != id || slot.is_late) continue;
      if (slot.stays || (slot.kind == SlotKind::Constant && space != kHost)) {
        kept = checked_add(kept, bytes_of(id));
      } else if (slot.kind == SlotKind::Temporary && slot.source.task != kNone) {
        add(bytes_of(id), slot.source.task, slot.last_task, frame_->offsets[id]);
      }
    }
    for (uint32_t i = 0; device != nullptr && i < graph_.tasks.size(); ++i) {
      const TaskNode& task = graph_.tasks[i];
      const bool is_own = task.kind == TaskKind::Device && task.space == space;
      const int64_t bytes = is_own ? program_.kernel(task.kernel).device->scratch_bytes() : 0;
      if (bytes > 0) add(bytes, i, i, frame_->scratch_offsets[i]);
    }
    const ArenaPlan plan = plan_arena(lifetimes);
    for (size_t i = 0; i < offsets.size(); ++i) *offsets[i] = plan.offsets[i];
    if (space != kHost) {
      frame_->device_bytes.push_back(plan.bytes);
      frame_->kept_bytes.push_back(kept);
    } else {
      frame_->arena_bytes = plan.bytes;
      frame_->least_bytes = least_arena(lifetimes);
    }
  }

  int64_t bytes_of(uint32_t id) const {
    return frame_->elements[id] * static_cast<int64_t>(tenon_dtype_size(graph_.slots[id].dtype));
  }

  const LoadedProgram& program_;
  const TaskGraph& graph_;
  std::shared_ptr<Frame> frame_;
  std::vector<int64_t> sizes_, elements_;
};

}  // namespace

std::shared_ptr<const Frame> make_frame(const LoadedProgram& program, std::span<const int64_t> symbols) {
  return FrameBuilder(program, symbols).run();
}

void check_device_budgets(const TaskGraph& graph, const Frame& frame, const DeviceBudgets& budgets) {
  for (const auto& [device, budget] : budgets) {
    for (size_t i = 0; i < graph.spaces.size(); ++i) {
      const std::string_view spec = graph.spaces[i].device;
      const int64_t arena = frame.device_bytes[i], kept = frame.kept_bytes[i];
      if ((device != spec && device != name_of_spec(spec)) || arena <= budget - kept) continue;
      fail(TENON_OVER_BUDGET, "program ", graph.name, " needs ", checked_add(arena, kept), " bytes of the memory of ",
           spec, ", ", kept, " of them for constants and states, and the budget is ", budget,
           ". Its largest tensors there are:", largest_tensors(graph, frame, static_cast<uint32_t>(i + 1)));
    }
  }
}

std::string largest_tensors(const TaskGraph& graph, const Frame& frame, uint32_t space) {
  std::vector<WideEntry> tensors;  // the key is the size, the position the slot
  for (uint32_t id = 0; id < graph.slots.size(); ++id) {
    const TensorSlot& slot = graph.slots[id];
    const bool is_kept = slot.kind == SlotKind::Constant && space != kHost;
    if (slot.home != id || slot.space != space || frame.elements[id] < 0) continue;
    if (slot.source.task == kNone && !is_kept) continue;
    const auto elements = static_cast<uint64_t>(frame.elements[id]);
    tensors.push_back(WideEntry::make(elements * tenon_dtype_size(slot.dtype), id));
  }
  sort_entries(tensors.data(), tensors.data() + tensors.size());
  std::string text;
  for (const WideEntry& tensor : tensors | std::views::reverse | std::views::take(kNamedTensors)) {
    const TensorSlot& slot = graph.slots[static_cast<size_t>(tensor.position())];
    const bool is_made = slot.source.task != kNone;
    text += text_of("\n  ", tensor.key(), " bytes: ", type_text(graph, slot), " of ",
                    is_made ? graph.tasks[slot.source.task].name : std::string_view("the weights"));
  }
  return text;
}

}  // namespace tenon::runtime
