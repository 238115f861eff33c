// Programs that get along with less memory than they would take.
#pragma once

#include <functional>

#include "driver/module.h"
#include "fusion/fuse.h"

namespace tenon {

// Compiles a module with another list of groups; the program of the result can run.
using BuildFn = std::function<Module(const std::vector<FusedGroup>&)>;

// The module with these groups, or with a list that computes some of their values twice (fusion/rematerialize.h) and
// needs no more than `budget` bytes; what it took is in `report`. Throws an Error that names the least budget where
// none does.
Module build_within(int64_t budget, const std::vector<FusedGroup>& groups, const BuildFn& build, MemoryReport& report);

}  // namespace tenon
