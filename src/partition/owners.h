// Inside of partition: which claimant runs each node.
#pragma once

#include <span>
#include <vector>

#include "partition/flow.h"
#include "partition/partition.h"

namespace tenon {

struct Owners {
  std::vector<uint32_t> of;  // By node: a position in the list of claimants.
  std::vector<DeclinedClaim> declined;
  std::vector<std::string> reasons;
};

Owners choose_owners(const Graph& graph, const Flow& flow, std::span<const Claimant> claimants);

}  // namespace tenon
