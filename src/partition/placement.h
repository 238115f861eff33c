// Who runs each node of a model, and why devices that come first do not: the record that the stage `partition` leaves
// for people. A Program keeps it; `tenon explain`, `tenon inspect` and Python's `tenon.explain` show it.
#pragma once

#include "partition/partition.h"

namespace tenon {

struct Placement {
  Graph graph;      // as it was partitioned
  Partition parts;  // of its nodes
};

// A node of a Placement, which must outlive it.
struct PlacedNode {
  struct Declined {
    std::string_view device;
    std::string_view reason;
  };

  std::string name;  // of its first result: "%relu"
  std::string_view op;
  Location location;
  std::string_view device;         // that runs it; "cpu" and "pytorch" are devices here
  uint32_t segment;                // its number in the partition
  std::vector<Declined> declined;  // by devices that come before
};

std::vector<PlacedNode> placed_nodes(const Placement& placement);  // in the order of the graph

// How many nodes each device runs; and for each device that declined nodes, the reasons, most frequent first, each with
// its number of nodes and the first of them:
//
//     npu runs 12 of 30 nodes, in 3 segments
//     npu declined 18 nodes
//       18 it has no rule for add: add %a, add %b, add %c, ...
std::string summary_of(const Placement& placement);

}  // namespace tenon
