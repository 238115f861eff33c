// What a run of a graph gives: shown, as JSON, or in NumPy files.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/npy.h"
#include "runtime/task_graph.h"

namespace tenon::cli {

struct Outcome {
  std::string name;  // unique, and good for a file
  Tensor tensor;
  bool updated = false;  // the new value of a buffer or an input
};

// Output `position` of the graph is called as its value is.
std::string output_name(const Graph& graph, size_t position);
// The outputs of the graph under their names.
NamedTensors named_outputs(const Graph& graph, const std::vector<Tensor>& outputs);
// The results, then what the graph updated: in `inputs`, and in the buffers themselves.
std::vector<Outcome> outcomes_of(const Graph& graph, const std::vector<Tensor>& inputs, const NamedTensors& results);
// Of an artifact: its own names. What it keeps for its next run is no outcome.
std::vector<Outcome> outcomes_of(const runtime::TaskGraph& graph, const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& results);

void show(const std::vector<Outcome>& outcomes, bool as_json);
// Throws an Error where write() could not: said before the work.
void require_writable_results(const std::string& output);
// Each to DIR/name.npy, or all to FILE.npz.
void write(const std::vector<Outcome>& outcomes, const std::string& output);

}  // namespace tenon::cli
