#include "runtime/retriever.h"

namespace tenon::runtime {

Retriever::Retriever(const TaskGraph& graph) : graph_(graph), places_(graph.slots.size()) {
  for (const TaskNode& task : graph.tasks) insert_task(task);
}

void Retriever::insert_task(const TaskNode& task) {
  tasks_.push_back({tensors_.size(), args_.size()});
  for (const auto& slots : {task.inputs, task.outputs}) {
    for (uint32_t slot : slots) {
      const uint32_t home = graph_.slots[slot].home;
      const TensorSlot& root = graph_.slots[home];
      const bool is_callers = root.kind == SlotKind::Input || root.kind == SlotKind::Output;
      if ((is_callers && !root.is_late) || root.is_movable) callers_.push_back({tensors_.size(), home});
      tensors_.push_back(nullptr);
    }
  }
  args_.resize(args_.size() + task.sizes.size());
}

void Retriever::resolve(uint32_t task, std::span<const int64_t> symbols) {
  const TaskNode& node = graph_.tasks[task];
  void** tensor = tensors_.data() + tasks_[task].first_tensor;
  for (const auto& slots : {node.inputs, node.outputs}) {
    for (uint32_t slot : slots) *tensor++ = place_of(slot);
  }
  int64_t* arg = args_.data() + tasks_[task].first_arg;
  for (uint32_t symbol : node.sizes) *arg++ = symbols[symbol];
}

void Retriever::resolve(std::span<const int64_t> symbols) {
  for (uint32_t task = 0; task < graph_.tasks.size(); ++task) resolve(task, symbols);
}

void Retriever::resolve_callers() {
  for (const auto& [tensor, home] : callers_) tensors_[tensor] = places_[home];
}

}  // namespace tenon::runtime
