// Inside of partition: what claimants answer, asked at most once for each node.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "partition/partition.h"

namespace tenon {

class ClaimTable {
 public:
  ClaimTable(const Graph& graph, std::span<const Claimant> claimants);

  size_t claimant_count() const { return claimants_.size(); }
  const Claimant& claimant(uint32_t position) const { return claimants_[position]; }
  bool accepts(uint32_t claimant, uint32_t node) { return answer(claimant, node).state == State::kAccepted; }
  double seconds(uint32_t claimant, uint32_t node) { return answer(claimant, node).seconds; }  // below 0: unknown
  // The first claimant from this one on that accepts the node.
  uint32_t first_acceptor(uint32_t node, uint32_t from = 0);

  uint32_t reason(uint32_t claimant, uint32_t node) { return answer(claimant, node).reason; }  // if it declines
  uint32_t add_reason(const std::string& text);
  std::vector<std::string> take_reasons() { return std::move(reasons_); }

 private:
  enum class State : uint8_t { kNotAsked, kAccepted, kDeclined };
  struct Answer {
    double seconds = -1;
    uint32_t reason = 0;
    State state = State::kNotAsked;
  };

  const Answer& answer(uint32_t claimant, uint32_t node);
  Claim ask(uint32_t claimant, NodeRef node) const;

  const Graph& graph_;
  std::span<const Claimant> claimants_;
  std::vector<Answer> answers_;  // by node, then by claimant
  std::vector<std::string> reasons_;
  std::unordered_map<std::string, uint32_t> known_reasons_;
};

}  // namespace tenon
