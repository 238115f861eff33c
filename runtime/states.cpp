#include "runtime/states.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/shared.h"
#include "runtime/strided.h"

namespace tenon::runtime {
namespace {

StateInfo info_of(const LoadedProgram& program, uint32_t i) {
  const TaskGraph& graph = program.graph();
  const TensorSlot& slot = graph.slots[graph.states[i].slot];
  StateInfo info{graph.states[i].name, slot.dtype, {}, static_cast<int64_t>(graph.initial[i].size()), program.state(i)};
  for (const Expr& size : slot.shape) info.shape.push_back(evaluate(size, graph.code, {}));
  return info;
}

bool is_same_type(const StateInfo& info, tenon_dtype dtype, std::span<const int64_t> shape) {
  return info.dtype == dtype && std::ranges::equal(info.shape, shape);
}

void check_same(const StateInfo& a, const StateInfo& b) {
  if (!is_same_type(a, b.dtype, b.shape)) {
    fail(TENON_BAD_FILE, "state '", a.name, "' is ", type_text(a), " for one entry and ", type_text(b), " for another");
  }
  const bool is_equal = a.initial == b.initial || std::memcmp(a.initial, b.initial, static_cast<size_t>(a.bytes)) == 0;
  if (!is_equal) fail(TENON_BAD_FILE, "state '", a.name, "' does not start with the same values for two entries");
}

}  // namespace

std::string type_text(const StateInfo& info) { return text_of(tenon_dtype_name(info.dtype), info.shape); }

std::vector<StateInfo> states_of(const Programs& programs) {
  std::vector<StateInfo> all;
  std::map<std::string, size_t, std::less<>> numbers;
  for (const auto& program : programs) {
    for (uint32_t i = 0; i < program->graph().states.size(); ++i) {
      StateInfo info = info_of(*program, i);
      const auto [found, is_new] = numbers.try_emplace(info.name, all.size());
      if (!is_new) check_same(all[found->second], info);
      if (is_new) all.push_back(std::move(info));
    }
  }
  return all;
}

States::States(Programs programs, std::shared_ptr<Allocator> allocator)
    : programs_(std::move(programs)), all_(states_of(programs_)), allocator_(std::move(allocator)) {
  for (const StateInfo& info : all_) {
    blocks_.emplace_back(allocator_, info.bytes);
    tensors_.push_back(std::make_unique<DeviceTensor>(blocks_.back().data(), info.bytes));
    if (blocks_.back().data() != nullptr) continue;
    const int64_t needed = allocator_->would_need();
    if (needed == 0)
      fail(TENON_OUT_OF_MEMORY, "there is no memory for state '", info.name, "', ", info.bytes, " bytes");
    fail(TENON_OVER_BUDGET, "the states up to '", info.name, "' need at least ", needed, " bytes, and the budget is ",
         allocator_->budget());
  }
  reset();
}

States::States(std::vector<StateInfo> infos) : all_(std::move(infos)), allocator_(new_shared<Allocator>()) {
  for (const StateInfo& info : all_)
    tensors_.push_back(std::make_unique<DeviceTensor>(const_cast<std::byte*>(info.initial), info.bytes));
}

std::byte* States::write(size_t i) {
  tensors_[i]->written_on_host();
  return memory(i);
}

void States::reset() {
  for (size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].bytes > 0) std::memcpy(write(i), all_[i].initial, static_cast<size_t>(all_[i].bytes));
  }
  // Drop cached pages only after every state is reset: reading one state can page in its neighbours.
  for (const auto& program : programs_) program->forget_states();
}

size_t States::find(std::string_view name) const {
  return static_cast<size_t>(std::ranges::find(all_, name, &StateInfo::name) - all_.begin());
}

void States::check_type(size_t i, const StateInfo& wanted) const {
  if (i == all_.size()) fail(TENON_INVALID_ARGUMENT, "these states have no '", wanted.name, "'");
  if (is_same_type(all_[i], wanted.dtype, wanted.shape)) return;
  fail(TENON_INVALID_ARGUMENT, "state '", wanted.name, "' is ", type_text(all_[i]), ", and not ", type_text(wanted));
}

void States::set(size_t i, const tenon_tensor& tensor) {
  const StateInfo& info = all_[i];
  const std::span<const int64_t> shape(tensor.shape, static_cast<size_t>(tensor.rank));
  if (!is_same_type(info, tensor.dtype, shape)) {
    fail(TENON_INVALID_ARGUMENT, "state '", info.name, "' is ", type_text(info), ", got ",
         tenon_dtype_name(tensor.dtype), shape);
  }
  std::vector<int64_t> row_major(shape.size());
  row_major_strides(shape, row_major);
  const std::span<const int64_t> strides = tensor.strides ? std::span(tensor.strides, shape.size()) : row_major;
  const size_t element = tenon_dtype_size(info.dtype);
  const Extent own{memory(i), memory(i) + info.bytes};
  if (!meet(own, extent_of(tensor.data, element, shape, strides)))
    return copy_strided(shape, element, write(i), row_major, tensor.data, strides);
  const Block copy(allocator_, info.bytes);
  if (copy.data() == nullptr) {
    fail(allocator_->would_need() == 0 ? TENON_OUT_OF_MEMORY : TENON_OVER_BUDGET, "the new value of state '", info.name,
         "' lies in the state itself, and there is no memory for a copy of ", info.bytes, " bytes");
  }
  copy_strided(shape, element, copy.data(), row_major, tensor.data, strides);
  std::memcpy(write(i), copy.data(), static_cast<size_t>(info.bytes));
}

States::Use::Use(States& states) : states_(states) {
  if (!states.is_used_.exchange(true, std::memory_order_acquire)) return;
  fail(TENON_INVALID_ARGUMENT, "the states are in use: a run or another call has not returned yet");
}

}  // namespace tenon::runtime
