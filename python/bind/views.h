// What Python holds of a graph's nodes and leaves: a position and the graph, which only grows.
#pragma once

#include <memory>

#include "graph/graph.h"

namespace tenon::python {

struct GraphNode {
  std::shared_ptr<Graph> graph;
  NodeRef ref;

  const Node& node() const { return graph->node(ref); }
};

struct GraphLeaf {
  std::shared_ptr<Graph> graph;
  size_t position;

  const Leaf& leaf() const { return graph->leaves()[position]; }
};

}  // namespace tenon::python
