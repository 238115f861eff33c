// Programs that get along with less memory than they would take.
#pragma once

#include <functional>

#include "driver/module.h"
#include "fusion/fuse.h"

namespace tenon {

// Compiles a module with another list of groups; the program of the result can run.
using BuildFn = std::function<Module(const std::vector<FusedGroup>&)>;

// The module with these groups, or with a list that computes some of their values twice (fusion/rematerialize.h) and
// stays within the budget of the options; what it took is in `report`. Throws an Error that names the least budget and
// what takes the memory where none does.
Module build_within(const ProgramOptions& options, const std::vector<FusedGroup>& groups, const BuildFn& build,
                    MemoryReport& report);

// The largest sizes that a graph can meet. Throws an Error for a size without an upper end.
symbolic::Bindings largest_sizes(const Graph& graph);
// The bytes of values at those sizes.
int64_t largest_bytes(const Graph& graph, std::span<const ValueRef> values);

}  // namespace tenon
