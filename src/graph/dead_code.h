// Drops the nodes and leaves of a graph that no output or update needs. Inputs stay.
#pragma once

#include "graph/graph.h"

namespace tenon {

Graph eliminate_dead_code(const Graph& graph);

}  // namespace tenon
