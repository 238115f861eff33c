// Cutting a graph in two.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tenon {

// The part of a graph that computes `outputs` and `updates`. The values in `given` become its last inputs, in order,
// and are not computed. If `given` is not empty, the part has only the inputs of the graph that it needs, else all
// inputs.
Graph part_of(const Graph& graph, const std::vector<ValueRef>& given, const std::vector<ValueRef>& outputs,
              const std::vector<Update>& updates);

// What a later run reads of an earlier one, and what it computes again: less memory, more work.
enum class Keep : uint8_t {
  kAll,     // all that it needs; fills and views are computed again
  kCostly,  // sums of products, and what costs as much
  kInputs,  // nothing but inputs, and states as they were
};

// The values to keep from a run that computed `first`, so that `later` can be computed without the graph's inputs.
std::vector<ValueRef> kept_for(const Graph& graph, const std::vector<ValueRef>& first,
                               const std::vector<ValueRef>& later, Keep keep);

}  // namespace tenon
