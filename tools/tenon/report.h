// A page about a model, in one file that needs no network: its graph, its kernels, its memory over time, and where the
// time of a run goes.
#pragma once

#include <string>
#include <vector>

#include "layer_costs.h"
#include "runnable.h"

namespace tenon::cli {

// Runs the model with random inputs of these sizes. `layers` are those of tile machines, measured: the page compares
// them with what the machine can do at best. Throws an Error.
void write_report(const std::string& path, const std::string& model, const Runnable& runnable,
                  const symbolic::Bindings& sizes, const std::vector<LayerCost>& layers = {});

}  // namespace tenon::cli
