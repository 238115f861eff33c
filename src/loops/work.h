// The work of a kernel, which is the same for all schedules: for profiles.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

Expr flops(const LoopTree& tree);  // scalar operations, folds included
// Bytes of inputs and outputs, each element counted once. An input that is read through views (a slice, a gather)
// counts with the elements that the views can read: a gather reads at most as many rows as it has indices.
Expr bytes(const LoopTree& tree);

}  // namespace tenon::loops
