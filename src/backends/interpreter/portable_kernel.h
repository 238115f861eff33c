// Encodes a scheduled kernel for the runtime's interpreter, which runs it on any machine (format/kernel.fbs).
#pragma once

#include <string>

#include "loops/loop_tree.h"

namespace tenon {

// Deterministic. Nodes keep their numbers of the IR, and sizes are in the order of ir.size_symbols(). All guards are
// kept, even those proven to hold, and no loop is cut into stretches, so that tests can compare other backends with it.
// Parallel and vectorized loops are marked as having no order of iterations.
std::string portable_kernel(const loops::LoopTree& tree);

}  // namespace tenon
