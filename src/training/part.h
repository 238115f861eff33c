// Cutting a graph in two.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tenon {

// The part of a graph that computes `outputs` and `updates`. Values that are `given` become its last inputs, in order,
// and so what only they need is left out. It has those inputs of the graph that it needs, if something is given, else
// all.
Graph part_of(const Graph& graph, const std::vector<ValueRef>& given, const std::vector<ValueRef>& outputs,
              const std::vector<Update>& updates);

// What must be kept of a run that computed `first`, so that `later` can be computed without the graph's inputs. Fills
// and views are not kept: they are computed again, of what they are made of.
std::vector<ValueRef> kept_for(const Graph& graph, const std::vector<ValueRef>& first,
                               const std::vector<ValueRef>& later);

}  // namespace tenon
