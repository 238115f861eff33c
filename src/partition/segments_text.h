// The text form of a partition's segments, and the check of a partition.
//
//     npu(%x, %w) -> %y: linear %a, relu %y
//     cpu(%y) -> %z: softmax %z
//
// A line is a segment: its claimant, the values that it reads, the values that others need of it, and its nodes in
// order (graph/part_text.h). Lines are in an order in which the segments can run.
#pragma once

#include "partition/partition.h"

namespace tenon {

std::string to_string(const Graph& graph, const Partition& partition);

// Any list of segments of the graph's nodes: `verify_partition` says whether it can run. `claimants` are the names that
// may occur, in order of preference. The text does not say why nodes were declined. `file` names the text in
// diagnostics, which carry line and column.
Result<Partition> parse_partition(const Graph& graph, std::string_view text, std::vector<std::string> claimants,
                                  std::string file = {});

// Checks that the segments compute the graph when they run in this order:
//   - every node is in exactly one segment, and the nodes of a segment are in the order of the graph;
//   - a segment's inputs are exactly what its nodes read of other segments and of leaves;
//   - its outputs are exactly what other segments, the graph's outputs and updates read of it, and the values that show
//     a size which it finds out;
//   - an earlier segment writes each input that is not a leaf, and finds out each size that a node mentions. So no path
//     leaves a segment and comes back;
//   - external nodes are PyTorch's, if PyTorch is a claimant;
//   - what is said of declined nodes is about claimants that come before the node's own.
Status verify_partition(const Graph& graph, const Partition& partition);

}  // namespace tenon
