// A key for kernels: equal keys, equal code.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

// The text of a kernel without its name and with numbers instead of the names of nodes and sizes. Kernels of one key
// can share their code: it takes sizes in the same order, and its errors name the same nodes.
std::string key_of(const IR& ir);

// The text of a kernel without any name: variables, sizes, lookups and nodes are numbered in order of appearance.
// Kernels of one such key compute the same, but may take their sizes in another order.
std::string structural_key_of(const IR& ir);

}  // namespace tenon::loops
