// Where a graph's inputs and parameters come from: NumPy files, or random numbers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::cli {

// What an input must be.
struct InputInfo {
  std::string name;
  DType dtype;
  int64_t rank;
  std::string type;  // "f32[N, 4]"
};
std::vector<InputInfo> input_infos(const Graph& graph);

// Tensors for the inputs, in their order. An argument is "x.npy" (the next input that has none), "name=x.npy", or
// "all.npz" (by the names in the archive). `known` are inputs that the caller has already. Throws an Error unless every
// input has exactly one of its dtype and rank.
std::vector<Tensor> load_inputs(std::vector<InputInfo> specs, std::span<const std::string> arguments,
                                const std::map<std::string, Tensor>& known = {});

// For inputs that nothing depends on: reals uniform in [0, 1), integers 0 or 1, from the seed and the name alone.
Tensor random_input(const std::string& name, DType dtype, Sizes shape, int64_t seed);

// Binds parameters and buffers. An argument is "name=w.npy" or "all.npz".
void load_parameters(Graph& graph, std::span<const std::string> arguments);

// Fills those that have no data. The numbers depend on the seed and the name alone. A parameter is uniform in [-k, k)
// with k = 1/sqrt(elements in a row), as PyTorch initializes layers; a buffer is uniform in [0, 1), so that it can be a
// variance. Integers are 0 or 1.
void fill_parameters(Graph& graph, int64_t seed);

// Throws an Error that lists the parameters and buffers without data.
void require_parameters(const Graph& graph);

}  // namespace tenon::cli
