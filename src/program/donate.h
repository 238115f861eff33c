// Results that need no memory of their own, so that a step of training needs no second copy of the parameters.
//
//   - One takes the memory of an input that the caller gives away. It becomes an update of the input
//     (program/in_place.h): it is computed in its memory where that can be, and copied there at the end where it
//     cannot. So an input is paired only with a result of its type that is computed of it by values of its shape, for
//     there the task that computes the result is likely to read what it overwrites: the new parameter of the old one.
//     Of several, with the one that is fewest nodes away.
//   - Where the caller never writes to results, those that are the same value, or that value with its dimensions in
//     another order, share one memory.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Where a result of the original graph is after the run.
struct ResultPlace {
  std::optional<uint32_t> input;    // it is in this input's memory,
  uint32_t output = 0;              // else this output of the new graph
  std::vector<int64_t> order = {};  // of the dimensions of what is there; empty: as they are
};

struct Donation {
  Graph graph;
  std::vector<ResultPlace> results;  // of each output of the original graph
};

// `given` are numbers of inputs; `shares` says whether results may share memory.
Donation donate_inputs(const Graph& graph, const std::set<uint32_t>& given, bool shares = false);

}  // namespace tenon
