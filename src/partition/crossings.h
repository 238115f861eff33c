// Inside of partition: what it costs that values pass from claimant to claimant.
//
// A value is brought to each memory once, however many nodes read it there. Weights and constants are everywhere: they
// are brought once for all runs. Inputs of the graph lie in the memory of the host, and outputs are read there.
#pragma once

#include <span>
#include <vector>

#include "partition/flow.h"
#include "partition/partition.h"

namespace tenon {

class Crossings {
 public:
  static constexpr uint32_t kEverywhere = ~0u;

  Crossings(const Graph& graph, const Flow& flow, std::span<const Claimant> claimants);

  uint32_t host() const { return static_cast<uint32_t>(claimants_.size() - 1); }
  // The claimant in whose memory a value begins.
  uint32_t origin(ValueRef value, const std::vector<uint32_t>& owners) const;
  // Seconds until `to` has a value, where the claimants in `have` have it already. The first of them is its origin.
  double seconds(double bytes, std::span<const uint32_t> have, uint32_t to) const;
  // Seconds until all readers of a value have it.
  double seconds(ValueRef value, const std::vector<uint32_t>& owners) const;

 private:
  bool share_memory(uint32_t a, uint32_t b) const { return a == b || (is_host_[a] && is_host_[b]); }
  double transfer(uint32_t claimant, double bytes) const;

  const Graph& graph_;
  const Flow& flow_;
  std::span<const Claimant> claimants_;
  std::vector<bool> is_host_;  // by claimant: in the memory of the host
};

}  // namespace tenon
