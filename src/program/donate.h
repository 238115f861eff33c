// Results that take the memory of inputs which the caller gives away: a step of training needs no second copy of the
// parameters then.
//
// Such a result becomes an update of the input (program/in_place.h): it is computed in its memory where that can be,
// and copied there at the end where it cannot. So an input is paired only with a result of its type that is computed of
// it by values of its shape, for there the task that computes the result is likely to read what it overwrites: the new
// parameter of the old one. Of several, with the one that is fewest nodes away.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace tenon {

struct Donation {
  Graph graph;  // whose outputs are those without a place
  // Of each output of the original graph, in order: the input that holds it after the run.
  std::vector<std::optional<uint32_t>> places;
};

// `given` are numbers of inputs.
Donation donate_inputs(const Graph& graph, const std::set<uint32_t>& given);

}  // namespace tenon
