// The reference backend: evaluates any graph on the CPU straight from the op table. Slow and obviously right; every
// other backend is judged against it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "support/checked.h"

namespace tenon {

// The graph's outputs for these inputs, in the graph's input order. Sizes bind the symbols of the input types, and a
// conflict is an error. The graph's updates are then written into the memory of the buffers and inputs they name; when
// anything fails before that, no memory has changed. What is updated must be writable, and share no memory with what
// else is updated. An output shares memory with nothing else.
// `most_elements` limits what nodes compute, those inside of composites among them: more of it is an Error.
Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                                     int64_t most_elements = kInt64Max);

}  // namespace tenon
