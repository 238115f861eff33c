// The stage from compiled kernels to tasks over slots. It also computes everything that depends on constants alone:
// weights are laid out as kernels read them, and groups of constants run once.
#pragma once

#include "driver/module.h"

namespace tenon {

// Sets Module::program and Module::history.
void make_tasks(Module& module, const BuildTarget& target, const ProgramOptions& options);

}  // namespace tenon
