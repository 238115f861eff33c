// What a run of a graph gives: shown, as JSON, or in NumPy files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::cli {

struct Outcome {
  std::string name;  // unique, and good for a file
  Tensor tensor;
  bool updated = false;  // the new value of a buffer or an input
};

// The outputs under their names in the graph, then what the graph updated: in `inputs`, and in the buffers themselves.
std::vector<Outcome> outcomes_of(const Graph& graph, const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& outputs);

void show(const std::vector<Outcome>& outcomes, bool as_json);
// Each to DIR/name.npy, or all to FILE.npz.
void write(const std::vector<Outcome>& outcomes, const std::string& output);

}  // namespace tenon::cli
