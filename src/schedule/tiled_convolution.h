// Inside of schedule: convolutions by instructions that multiply tiles of rows and columns.
#pragma once

#include <optional>

#include "loops/loop_tree.h"
#include "machine/machine.h"

namespace tenon {

// Empty if the kernel is no convolution of narrow numbers, if the machine has no such instruction for it, or if the
// convolution would fill too small a part of it.
std::optional<loops::LoopTree> schedule_tiled_convolution(const loops::IR& ir, const Machine& machine);

}  // namespace tenon
