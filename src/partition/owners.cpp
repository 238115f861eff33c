#include "partition/owners.h"

#include "partition/claims.h"
#include "partition/crossings.h"
#include "partition/free_nodes.h"
#include "partition/profit.h"

namespace tenon {
namespace {

// For each node, why the claimants before its own do not run it.
std::vector<DeclinedClaim> declined_by(ClaimTable& claims, const std::vector<uint32_t>& owners,
                                       const std::vector<uint32_t>& moved) {
  std::vector<DeclinedClaim> declined;
  for (uint32_t id = 0; id < owners.size(); ++id) {
    for (uint32_t claimant = 0; claimant < owners[id]; ++claimant) {
      uint32_t reason = 0;
      if (!claims.accepts(claimant, id)) {
        reason = claims.reason(claimant, id);
      } else {
        reason = moved[id] > 0 ? moved[id] - 1 : claims.add_reason("costs nothing, and saves transfers elsewhere");
      }
      declined.push_back({{id}, claimant, reason});
    }
  }
  return declined;
}

}  // namespace

Owners choose_owners(const Graph& graph, const Flow& flow, std::span<const Claimant> claimants) {
  ClaimTable claims(graph, claimants);
  const Crossings crossings(graph, flow, claimants);
  Owners owners;
  for (uint32_t id = 0; id < graph.nodes().size(); ++id) owners.of.push_back(claims.first_acceptor(id));
  place_free_nodes(graph, flow, claims, crossings, owners.of);
  std::vector<uint32_t> moved(owners.of.size());
  if (move_unprofitable(graph, flow, claims, crossings, owners.of, moved))
    place_free_nodes(graph, flow, claims, crossings, owners.of);
  owners.declined = declined_by(claims, owners.of, moved);
  owners.reasons = claims.take_reasons();
  return owners;
}

}  // namespace tenon
