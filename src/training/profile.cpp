#include "training/profile.h"

#include <set>

namespace tenon {
namespace {

std::vector<Phase> phases_of(const Program& program) {
  const std::vector<Slot>& slots = program.slots;
  const auto root = [&](uint32_t slot) { return slots[slot].root; };
  std::set<uint32_t> of_loss = {root(program.outputs[0].slot)};
  std::set<uint32_t> updating;
  for (const SlotUpdate& update : program.updates) updating.insert(root(update.value));
  const auto any_in = [&](const std::vector<uint32_t>& list, const std::set<uint32_t>& set) {
    return std::ranges::any_of(list, [&](uint32_t slot) { return set.contains(root(slot)); });
  };
  std::vector<Phase> phases(program.tasks.size(), Phase::kBackward);
  for (size_t i = phases.size(); i-- > 0;) {
    const Task& task = program.tasks[i];
    if (any_in(task.outputs, of_loss)) {
      phases[i] = Phase::kForward;
      for (uint32_t slot : task.inputs) of_loss.insert(root(slot));
    } else if (any_in(task.outputs, updating)) {
      phases[i] = Phase::kUpdate;
    }
  }
  return phases;
}

}  // namespace

std::vector<ProfiledTask> profile_of(const Program& program, const runtime::Context& context,
                                     std::optional<Phase> phase) {
  const std::vector<Phase> phases = phase ? std::vector(program.tasks.size(), *phase) : phases_of(program);
  std::vector<ProfiledTask> tasks;
  for (const runtime::Event& event : context.events()) {
    const Task& task = program.tasks[event.task];
    tasks.push_back({phases[event.task], task.name, task.location,
                     static_cast<double>(event.end_ns - event.start_ns) / 1000, context.bytes_of_task(event.task)});
  }
  return tasks;
}

}  // namespace tenon
