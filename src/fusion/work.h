// About how long nodes take, to compare them with each other.
#pragma once

#include "fusion/fuse.h"

namespace tenon {

// Nanoseconds of one thread of a usual machine, for operands that are there.
double work_of(const Graph& graph, const Node& node, const symbolic::Bindings& sizes);
// With what is moved between memory and the kernel.
double work_of(const Graph& graph, const FusedGroup& group, const symbolic::Bindings& sizes);

// A function of one element of each operand.
bool is_pointwise(const Node& node);
// Elements of its operand in other places, or a fill: nothing is computed.
bool only_moves(const Node& node);

}  // namespace tenon
