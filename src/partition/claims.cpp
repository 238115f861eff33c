#include "partition/claims.h"

#include <cmath>

namespace tenon {

ClaimTable::ClaimTable(const Graph& graph, std::span<const Claimant> claimants)
    : graph_(graph), claimants_(claimants), answers_(graph.nodes().size() * claimants.size()) {}

uint32_t ClaimTable::first_acceptor(uint32_t node, uint32_t from) {
  const auto last = static_cast<uint32_t>(claimants_.size() - 1);
  while (from < last && !accepts(from, node)) ++from;
  return from;
}

uint32_t ClaimTable::add_reason(const std::string& text) {
  const auto [found, is_new] = known_reasons_.try_emplace(text, static_cast<uint32_t>(reasons_.size()));
  if (is_new) reasons_.push_back(text);
  return found->second;
}

const ClaimTable::Answer& ClaimTable::answer(uint32_t claimant, uint32_t node) {
  Answer& answer = answers_[node * claimants_.size() + claimant];
  if (answer.state != State::kNotAsked) return answer;
  const Claim claim = ask(claimant, {node});
  answer.state = claim.accepted ? State::kAccepted : State::kDeclined;
  if (claim.accepted) {
    answer.seconds = std::isfinite(claim.seconds) ? claim.seconds : -1;
  } else {
    answer.reason = add_reason(claim.reason.empty() ? "not claimed" : claim.reason);
  }
  return answer;
}

// PyTorch's calls are PyTorch's, and the last claimant takes what is left, whatever they answer.
Claim ClaimTable::ask(uint32_t claimant, NodeRef node) const {
  const Claimant& asked = claimants_[claimant];
  const bool is_last = claimant + 1 == claimants_.size();
  if (!is_last && asked.name != "pytorch" && role_of(*graph_.node(node).op) == Role::kExternal)
    return {.reason = "only PyTorch runs this call"};
  Claim claim = asked.claim ? asked.claim(graph_, node) : Claim{.accepted = true};
  claim.accepted |= is_last;
  return claim;
}

}  // namespace tenon
