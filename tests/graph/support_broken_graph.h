// Breaks what Graph guards, to test who checks it.
#pragma once

#include "graph/graph.h"

namespace tenon {

struct GraphTestPeer {
  static Node& node(Graph& graph, size_t position) { return graph.nodes_[position]; }
  static TensorType& type(Graph& graph, ValueRef value) { return graph.values_[value.id].type; }
  static Leaf& leaf(Graph& graph, size_t position) { return graph.leaves_[position]; }
  static std::vector<Update>& updates(Graph& graph) { return graph.updates_; }
  static std::vector<ValueRef>& outputs(Graph& graph) { return graph.outputs_; }
};

}  // namespace tenon
