// Inside of partition: how a graph's nodes depend on each other, with fast access in both directions.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Lists of numbers, one for each of `count` owners, in one block of memory.
class NumberLists {
 public:
  struct Entry {
    uint32_t owner;
    uint32_t number;
  };
  NumberLists() = default;
  NumberLists(size_t count, const std::vector<Entry>& entries);  // Each list is in the order of the entries.

  std::span<const uint32_t> operator[](uint32_t owner) const {
    return std::span(numbers_).subspan(begin_[owner], begin_[owner + 1] - begin_[owner]);
  }

 private:
  std::vector<uint32_t> begin_;
  std::vector<uint32_t> numbers_;
};

// A node needs the nodes that make its operands, and those that find out the sizes which it mentions.
struct Flow {
  explicit Flow(const Graph& graph);

  NumberLists needs;               // Of each node: nodes.
  NumberLists users;               // Of each node: nodes that need it.
  NumberLists readers;             // Of each value: nodes with this operand.
  std::vector<bool> is_kept;       // By value: an output of the graph, or the value of an update.
  std::vector<bool> is_on_host;    // Likewise, but not the next value of a state, which stays where it is computed.
  std::vector<bool> defines_size;  // By value: a result whose type shows a size that its node finds out.
  std::vector<double> bytes;       // By value. Sizes that are not known have a typical value.
};

}  // namespace tenon
