// The reference backend: evaluates any graph on the CPU straight from the op table. Slow and obviously right; every
// other backend is judged against it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "support/checked.h"

namespace tenon {

// The graph's outputs for these inputs, in the graph's input order. Sizes bind the symbols of the input types; a
// conflict is an error. At the end the graph's updates are written into the memory of buffers and inputs; a failure
// before that changes no memory. The targets of updates must be writable and must not share memory with each other.
// Outputs share memory with nothing. `most_elements` limits the elements that nodes compute, also inside of composites.
Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                     int64_t most_elements = kInt64Max);

}  // namespace tenon
