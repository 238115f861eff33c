#include "schedule/plan.h"

namespace tenon {

loops::LoopTree plan(const loops::IR& kernel, const Machine& machine) {
  if (std::optional<loops::LoopTree> tree = plan_window(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = plan_convolution(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = plan_contraction(kernel, machine)) return *std::move(tree);
  if (std::optional<loops::LoopTree> tree = plan_attention(kernel, machine)) return *std::move(tree);
  return plan_stream(kernel, machine);
}

}  // namespace tenon
