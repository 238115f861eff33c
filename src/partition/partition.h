// Partition: who runs which node of a graph.
//
// Claimants are asked in order of preference: devices first, then PyTorch (external calls) and the reference evaluator,
// and last the CPU, which takes everything else. The nodes of one claimant are cut into segments. A segment runs as a
// whole: its inputs are there before it starts, its outputs after it ends.
//
//   - Every node is in exactly one segment.
//   - Segments are convex: no path leaves a segment and comes back. So segments form no cycle.
//   - Segments are listed in an order in which they can run. A segment that needs nothing but a size comes after the
//     segment that finds the size.
//   - A node that costs nothing (a view, a fill) goes to the side where it saves transfers, of those that accept it.
//   - A claimant that states seconds loses a segment that gains less than its transfers cost, to a later claimant that
//     states seconds as well. Without stated seconds, preference decides.
//   - The same graph and the same claims give the same partition.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// The answer of a claimant that is asked for one node.
struct Claim {
  bool accepted = false;
  std::string reason;   // Why it declines.
  double seconds = -1;  // Estimated time of the node on the claimant; below 0 if it is unknown.
};

struct Claimant {
  std::string name;
  std::function<Claim(const Graph&, NodeRef)> claim;  // A pure function. Empty: accepts everything.
  double crossing_seconds = 0;                        // Latency of one transfer to its memory, or from it.
  double bytes_per_second = std::numeric_limits<double>::infinity();  // Of such transfers.
  bool shares_host_memory = false;
};

// Accepts external nodes and nothing else. No other claimant gets them.
Claimant pytorch_claimant();
// Accepts the nodes of ops that have neither a lowering to loops nor a function of the runtime.
Claimant reference_claimant();
// Accepts everything.
Claimant cpu_claimant();

struct Segment {
  uint32_t claimant;              // A position in Partition::claimants.
  std::vector<NodeRef> nodes;     // In the order of the graph.
  std::vector<ValueRef> inputs;   // What it reads of other segments and of leaves, by id.
  std::vector<ValueRef> outputs;  // What others need of it: nodes, the graph's outputs and updates, sizes. By id.
  bool operator==(const Segment&) const = default;
};

// Why a node went past a claimant that is preferred to its own.
struct DeclinedClaim {
  NodeRef node;
  uint32_t claimant;
  uint32_t reason;  // A position in Partition::reasons.
  bool operator==(const DeclinedClaim&) const = default;
};

struct Partition {
  std::vector<std::string> claimants;
  std::vector<Segment> segments;        // In an order in which they can run.
  std::vector<DeclinedClaim> declined;  // By node, then by claimant.
  std::vector<std::string> reasons;
  bool operator==(const Partition&) const = default;
};

// `claimants` are in order of preference, with distinct names; the last one gets what no other accepts. Leaves and the
// graph's outputs lie in the memory of the last one. Time grows with the number of nodes and operands.
Partition partition(const Graph& graph, std::span<const Claimant> claimants);

// Why the claimant does not run the node; empty if it was not asked, or if it runs the node.
std::string_view reason_of(const Partition& partition, NodeRef node, uint32_t claimant);

}  // namespace tenon
