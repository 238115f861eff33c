// Random valid graphs made of the op table's samples: every op, dtype and attribute kind, with names, locations,
// symbols, all kinds of leaves, several outputs, and updates.
#pragma once

#include "graph/graph.h"
#include "tests/graph/support_values.h"

namespace tenon::test {

Graph random_graph(Random& random, int nodes);

// A chain of `nodes` elementwise nodes with duplicates, dead ends and foldable constants: work for every pass.
Graph layered_graph(int nodes);

}  // namespace tenon::test
