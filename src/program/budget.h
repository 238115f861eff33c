// Inside of program: programs that get along with less memory than they would take.
#pragma once

#include <functional>

#include "fusion/fuse.h"
#include "program/program.h"

namespace tenon {

// Compiles a list of groups of one graph.
using BuildFn = std::function<Program(const std::vector<FusedGroup>&)>;

// The program of these groups, or of a list that computes some of their values twice (fusion/rematerialize.h) and needs
// no more than `budget` bytes; what it took is in `report`. Throws an Error that names the least budget where none
// does.
Program build_within(int64_t budget, const std::vector<FusedGroup>& groups, const BuildFn& build, MemoryReport& report);

}  // namespace tenon
