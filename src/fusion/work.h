// About how long nodes take, to compare them with each other.
#pragma once

#include "fusion/fuse.h"

namespace tenon {

// Nanoseconds of one thread of the default Machine, without reading operands from memory.
double work_of(const Graph& graph, const Node& node, const symbolic::Bindings& sizes);
// The same for a group, with the time to move its inputs and outputs.
double work_of(const Graph& graph, const FusedGroup& group, const symbolic::Bindings& sizes);

// Elements of its operand in other places, or a fill: nothing is computed.
bool only_moves(const Node& node);

}  // namespace tenon
