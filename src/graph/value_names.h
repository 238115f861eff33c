// The names of a graph's values in text: "%x" for each value, unique, by the value's id. `to_string(graph)` writes
// these names, and so do the texts of what is said about a graph's values (fusion/groups_text.h).
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon {

std::vector<std::string> value_names(const Graph& graph);

}  // namespace tenon
