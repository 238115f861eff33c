// Kernels by what they do.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

// The text of a kernel without its name, and with numbers for the names of nodes and sizes: kernels of the same key are
// the same code, which takes its size arguments in the same order, and whose errors name the same nodes.
std::string key_of(const IR& ir);

}  // namespace tenon::loops
