// Random graphs that can be one kernel, with data and what the reference makes of it.
#pragma once

#include "loops/ir.h"
#include "tests/graph/support_random_graph.h"

namespace tenon::test {

struct LoweredGraph {
  Graph graph;
  loops::IR ir;
  std::vector<Tensor> arguments;  // of the kernel: the graph's inputs, then its other leaves
  symbolic::Bindings sizes;
  std::vector<Tensor> expected;
};

bool needs_library(const Graph& graph);  // an op of it is no loops

// Gives leaves that have no data some, and `inputs` a tensor each. The symbol N stands for `n`.
Graph with_data(Graph graph, Random& random, std::vector<Tensor>& inputs, int64_t n = 3);

// The kernel's arguments for a graph's inputs.
std::vector<Tensor> kernel_arguments(const Graph& graph, const std::vector<Tensor>& inputs);

// Nothing where the graph of the seed is no kernel, or has no result (an index out of range).
std::optional<LoweredGraph> random_lowered(uint64_t seed);

}  // namespace tenon::test
