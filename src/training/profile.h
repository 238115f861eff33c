// Inside of training: what the tasks of a program took, and which part of a step they are.
#pragma once

#include <optional>

#include "runtime/context.h"
#include "training/instance.h"

namespace tenon {

// Of the last run. Where the program is no single phase: forward is what the first output, the loss, is computed of; an
// update is what gives a state its value, and the rest is backward. A kernel that computes a gradient and updates with
// it counts as update.
std::vector<ProfiledTask> profile_of(const Program& program, const runtime::Context& context,
                                     std::optional<Phase> phase);

}  // namespace tenon
