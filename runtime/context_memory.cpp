// The part of Context that checks which memory of the caller may overlap (include/tenon/tenon.h).
#include "runtime/context.h"
#include "runtime/elements.h"
#include "runtime/error.h"

namespace tenon::runtime {

// The results of the last run that the context keeps; this run writes them again.
bool Context::lies_in_results(const Extent& memory) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Block& own = outputs_[i].copy;
    if (meet(memory, {own.data(), own.data() + own.bytes()})) return true;
    const uint32_t slot = graph_.outputs[i].slot;
    if (!is_late(i) || !held_[graph_.slots[slot].root].owner) continue;
    const TensorView late = view_of(slot);
    const auto* const data = static_cast<const std::byte*>(late.data);
    if (meet(memory, {data, data + elements_of(slot) * size_of(late.dtype)})) return true;
  }
  return false;
}

bool Context::lies_in_states(const Extent& memory) const {
  for (size_t i = 0; i < states_->all().size(); ++i) {
    if (meet(memory, {states_->memory(i), states_->memory(i) + states_->all()[i].bytes})) return true;
  }
  return false;
}

namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view name, std::string_view why,
                         std::string_view other = {}) {
  fail(TENON_INVALID_ARGUMENT, what, name, why, other, other.empty() ? "" : "'");
}

constexpr std::string_view kOutput = "the memory of output '", kUpdated = "input '";

}  // namespace

void Context::check_output_memory(size_t i) const {
  const Argument& output = outputs_[i];
  const std::string_view name = graph_.outputs[i].name;
  const Extent memory = output.extent();
  if (may_overlap_itself(output.shape, output.strides)) refuse(kOutput, name, "' overlaps itself");
  for (size_t k = 0; k < inputs_.size(); ++k) {
    if (meet(memory, inputs_[k].extent())) refuse(kOutput, name, "' overlaps that of input '", graph_.inputs[k].name);
  }
  for (size_t k = 0; k < i; ++k) {
    if (outputs_[k].is_set && meet(memory, outputs_[k].extent()))
      refuse(kOutput, name, "' overlaps that of output '", graph_.outputs[k].name);
  }
  if (lies_in_states(memory)) refuse(kOutput, name, "' overlaps that of a state");
  if (lies_in_results(memory)) refuse(kOutput, name, "' is the context's own, of an earlier result");
}

void Context::check_updated_input(size_t i) const {
  const Argument& input = inputs_[i];
  const std::string_view name = graph_.inputs[i].name;
  const Extent memory = input.extent();
  if (may_overlap_itself(input.shape, input.strides)) refuse(kUpdated, name, "' is updated, but overlaps itself");
  if (lies_in_states(memory)) refuse(kUpdated, name, "' is updated, but lies in a state");
  if (lies_in_results(memory)) refuse(kUpdated, name, "' is updated, but lies in an earlier result of the context");
  for (const auto& [target, value] : graph_.updates) {
    const TensorSlot& other = graph_.slots[target];
    if (other.kind != SlotKind::Input || other.position == i || !meet(memory, inputs_[other.position].extent()))
      continue;
    refuse(kUpdated, name, "' is updated, but overlaps what is updated too, '", graph_.inputs[other.position].name);
  }
}

void Context::check_memory() const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].is_set) check_output_memory(i);
  }
  for (const auto& [target, value] : graph_.updates) {
    if (graph_.slots[target].kind == SlotKind::Input) check_updated_input(graph_.slots[target].position);
  }
}

}  // namespace tenon::runtime
