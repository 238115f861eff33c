// How much a kernel does, whatever its loops: for profiles, and to compare schedules.
#pragma once

#include "loops/loop_tree.h"

namespace tenon::loops {

Expr flops(const LoopTree& tree);  // scalar operations, folds included
// Memory that it reads and writes, each element once. Of an input that is read through views (a slice, a gather) only
// the elements that these can name count: a gather reads at most as many rows as it has indices.
Expr bytes(const LoopTree& tree);

}  // namespace tenon::loops
