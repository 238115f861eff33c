// Inside of partition: how the nodes of one claimant are cut into segments.
//
// Each node has a level. Along every dependency the level stays or grows, and it grows where the claimant changes. The
// nodes of one claimant and one level are a segment.
//
// Segments are convex. Let a path lead from node u to node v of one segment. The level never falls along the path, and
// it is the same at both ends, so every node between them has this level. No dependency of the path changes the
// claimant: the level would grow there. So every node between u and v is of the segment.
//
// Segments form no cycle, and can run by level. A dependency between two segments either changes the claimant, and then
// the level grows; or it stays with the claimant, and then the levels differ, because the segments do, so it grows,
// too.
#pragma once

#include <vector>

#include "partition/flow.h"

namespace tenon {

// The level of each node, for owners by node. Starts with the least levels; then whole segments and single nodes move
// to a later segment of their claimant where that makes fewer segments, or fewer bytes pass from segment to segment.
std::vector<uint32_t> choose_levels(const Graph& graph, const Flow& flow, const std::vector<uint32_t>& owners);

// The least levels.
std::vector<uint32_t> least_levels(const Flow& flow, const std::vector<uint32_t>& owners);

}  // namespace tenon
