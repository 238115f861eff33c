// A model as an artifact holds it: every tensor and number that the model returns is an output of the graph, also the
// arguments and weights that it returns as they are, and a CallForm says how it is called.
#pragma once

#include <span>

#include "capture/call_form.h"
#include "capture/import_pt2.h"

namespace tenon {

// What a result of a model is: one of the three.
struct ModelResult {
  std::optional<size_t> output = {};  // of the graph
  std::optional<size_t> input = {};   // of the graph; after the run: the model may have written it
  Tensor weight = {};                 // a parameter, buffer or constant
  std::string name = {};              // of such a weight
};

struct WholeModel {
  Graph graph;  // its outputs are the results, then those that assertions are about
  std::vector<Assertion> assertions;
};
WholeModel whole_model(const Graph& graph, std::span<const ModelResult> results, std::vector<Assertion> assertions);

// Of an imported file, or of a graph that nobody imported: that has no form. Throws an Error for a model that no
// artifact can hold.
struct SavedModel {
  WholeModel whole;
  std::optional<CallForm> form;
};
SavedModel saved_model(const Imported& model);

// How the model nests: leaf i of the arguments and of the results is number i of `inputs` and `outputs`.
CallForm nesting_of(const Imported& model);

}  // namespace tenon
