// Outlining: the segments of devices become nodes of a graph's own kind. A `segment` node stands for the nodes of one
// segment, which move to a graph of their own, the body.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "partition/partition.h"

namespace tenon {

// The body has an input for each operand of the segment node, an output for each result, and the leaves that travel
// with the device: constants, and frozen weights, which share their data with the whole graph. It is complete: it
// declares the symbols that it mentions, and the sizes of its inputs tell all of them. Where they would not (a fill
// mentions a size of the model's inputs), the last input is an empty tensor with these sizes, such as u8[N, 0], which
// costs no transfer.
struct OutlinedSegment {
  std::string claimant;
  Graph body;
};

struct Outlined {
  Graph graph;  // Attribute `number` of a segment node is a position in `segments`.
  std::vector<OutlinedSegment> segments;
};

// Outlines the segments of the claimants that `is_outlined` accepts, and leaves out those that nobody needs anything
// of. Leaves that `is_frozen` accepts keep their values: bodies get them, instead of being passed them; constants
// always. Leaves that only bodies read are no longer leaves of the graph, but for its inputs. Nodes are in the order of
// the segments. Values keep their printed names and nodes their locations. The partition must be valid.
Outlined outline(const Graph& graph, const Partition& partition,
                 const std::function<bool(uint32_t claimant)>& is_outlined,
                 const std::function<bool(const Leaf&)>& is_frozen);

// The graph with the nodes of each body in the place of its segment node. The tensors that told bodies their sizes are
// still made, for nobody.
Graph inlined(const Outlined& outlined);

}  // namespace tenon
