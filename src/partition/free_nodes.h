// Inside of partition: which claimant runs the nodes that cost nothing.
//
// A view, a reshape, a fill or the cast of one number takes no time where its operand is, so it goes where it saves
// transfers, among the claimants that accept it: a slice to the side that makes its operand, a broadcast to the side
// that reads its result. Such a node has at most one operand that must be brought to it, so these nodes form trees
// below the values of other nodes, and the best place of each is found in two passes over the graph.
#pragma once

#include <vector>

#include "partition/claims.h"
#include "partition/crossings.h"

namespace tenon {

// Changes `owners` of free nodes. A tree that touches no other node keeps the claimant that is preferred.
void place_free_nodes(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
                      std::vector<uint32_t>& owners);

// Whether a node's work is not worth a transfer.
bool is_free(const Graph& graph, const Node& node);

}  // namespace tenon
