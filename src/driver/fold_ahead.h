// Batch norms in the weights of the convolutions before them, as data.
#pragma once

#include "graph/graph.h"

namespace tenon {

// What `fold_norms` makes of a graph whose weights do not change, with the weights that it scaled and shifted computed,
// so that a program and its file have those in place of what they come of.
Graph fold_norms_ahead(const Graph& graph, const std::string& backend);

}  // namespace tenon
