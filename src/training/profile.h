// Inside of training: the times of a program's tasks, by phase.
#pragma once

#include <optional>

#include "runtime/context.h"
#include "training/instance.h"

namespace tenon {

// The tasks of the last run. For a program of several phases: the tasks that the first output, the loss, depends on are
// forward, tasks that write a state are update, all others are backward. A kernel that computes a gradient and updates
// a state with it is update.
std::vector<ProfiledTask> profile_of(const Program& program, const runtime::Context& context,
                                     std::optional<Phase> phase);

}  // namespace tenon
