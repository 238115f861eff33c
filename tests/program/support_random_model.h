// Random graphs that look like models: chains of ops of all roles that fusion knows, over a few shapes, with values
// that are used more than once.
#pragma once

#include "graph/graph.h"
#include "tests/graph/support_values.h"

namespace tenon::test {

// With `symbolic`, the first dimension is the symbol N, of at least 1.
Graph random_model(Random& random, int nodes, bool symbolic);

}  // namespace tenon::test
