// A model compiled for two devices that run different code: another array, another partition.
#pragma once

#include "launch_diff.h"

namespace tenon::cli {

// Compares results of the graph; where they differ, those of all its nodes, and names the first node that differs.
std::optional<Difference> compare_models(const Graph& graph, const std::string& a, const std::string& b,
                                         const std::vector<Tensor>& inputs, double tolerance);

}  // namespace tenon::cli
