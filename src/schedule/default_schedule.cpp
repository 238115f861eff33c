#include "schedule/default_schedule.h"

namespace tenon {

loops::LoopTree default_schedule(const loops::IR& kernel, const Machine& machine) {
  if (std::optional<loops::LoopTree> tree = schedule_window(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = schedule_convolution(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = schedule_contraction(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = schedule_attention(kernel, machine)) return *std::move(tree);
  return schedule_stream(kernel, machine);
}

}  // namespace tenon
