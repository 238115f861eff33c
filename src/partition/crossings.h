// Inside of partition: what it costs that values pass from claimant to claimant.
//
// A value is brought to each memory once, however many nodes read it there. Weights and constants are everywhere: they
// are brought once for all runs, and a state stays where its next value is computed. Inputs of the graph lie in the
// memory of the host, and outputs are read there.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "partition/flow.h"
#include "partition/partition.h"

namespace tenon {

// The claimants that have a value, first the one that it begins with, and what it cost to bring the value to them.
struct Brought {
  double seconds;
  std::vector<uint32_t> to;
  bool has(uint32_t claimant) const { return std::ranges::find(to, claimant) != to.end(); }
};

class Crossings {
 public:
  static constexpr uint32_t kEverywhere = ~0u;

  Crossings(const Graph& graph, const Flow& flow, std::span<const Claimant> claimants);

  uint32_t host() const { return static_cast<uint32_t>(claimants_.size() - 1); }
  // The claimant in whose memory a value begins.
  uint32_t origin(ValueRef value, const std::vector<uint32_t>& owners) const;
  // Seconds until one more claimant has the value.
  double seconds(ValueRef value, const Brought& brought, uint32_t to) const;
  // Brings the value to one more claimant.
  void bring(ValueRef value, uint32_t to, Brought& brought) const;

 private:
  bool share_memory(uint32_t a, uint32_t b) const { return a == b || (is_host_[a] && is_host_[b]); }
  double transfer(uint32_t claimant, double bytes) const;

  const Graph& graph_;
  const Flow& flow_;
  std::span<const Claimant> claimants_;
  std::vector<bool> is_host_;  // by claimant: in the memory of the host
};

}  // namespace tenon
