// Encodes a scheduled kernel for the runtime's interpreter, which runs it on any machine (format/kernel.fbs).
#pragma once

#include <string>

#include "loops/loop_tree.h"

namespace tenon {

// The same for the same tree. Nodes have the numbers that they have in the IR; sizes go as ir.size_symbols() does.
// Guards are all there, also those that are proven to hold, and no loop is cut into stretches: what the other backends
// make of them can be checked against it. Of annotations, parallel loops and vectors say that iterations have no order.
std::string portable_kernel(const loops::LoopTree& tree);

}  // namespace tenon
