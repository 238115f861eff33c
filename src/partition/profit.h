// Inside of partition: segments that are not worth their transfers.
#pragma once

#include <vector>

#include "partition/claims.h"
#include "partition/crossings.h"

namespace tenon {

// Moves the nodes of one segment that hang together to later claimants, where the seconds that both sides state say
// that this saves time, transfers included. Again, until nothing moves any more. Stores the reason of each node that it
// moves in `moved`, as a position among the reasons of `claims` plus 1. Returns whether anything moved.
bool move_unprofitable(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
                       std::vector<uint32_t>& owners, std::vector<uint32_t>& moved);

}  // namespace tenon
