// A graph as text, without the bulk of its data.
#pragma once

#include "graph/graph.h"

namespace tenon {

inline constexpr int64_t kMostPrinted = 16;  // elements of a constant that stays in the text

// Larger constants as parameters, whose data is not part of the text.
Graph with_constants_as_parameters(const Graph& graph);

}  // namespace tenon
