// Stages from fused groups to machine code: each group becomes a graph of its own, then loops, then a schedule, then
// code.
#pragma once

#include "driver/module.h"

namespace tenon {

// Sets Module::bodies and Module::kernels, from Module::groups. A body that loops cannot express is left to the
// reference (TaskKind::kReference).
void lower_groups(Module& module, const BuildTarget& target, const ProgramOptions& options);

// Sets GroupKernel::schedule.
void schedule_kernels(Module& module, const BuildTarget& target, const ProgramOptions& options);

// Sets GroupKernel::code.
void compile_kernels(Module& module, const BuildTarget& target, const ProgramOptions& options);

// Whether a leaf keeps the value that it has now.
bool is_frozen(const Graph& graph, const Leaf& leaf, const ProgramOptions& options);

}  // namespace tenon
