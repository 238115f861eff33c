// Models as the command line takes them: a .pt2 file, or a graph's text.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "capture/import_pt2.h"
#include "graph/graph.h"
#include "graph/npy.h"
#include "program/program.h"

namespace tenon::cli {

struct ModelOptions {
  std::string path;
  std::vector<std::string> parameters = {};  // for a graph's text: see bind.h
  std::optional<int64_t> seed = {};
  std::vector<std::string> devices = {};  // in order of preference; the CPU runs the rest
};

// --device, of a command that compiles a model.
void add_device_option(CLI::App& app, ModelOptions& options);

// Notes which of the devices that were asked for run no node of a program.
void note_idle_devices(const std::vector<std::string>& devices, const Program& program);

using Model = Imported;  // a graph's text is only a graph

bool is_pt2(const std::string& path);

// Every parameter has its data. A call that Tenon does not support is no error yet.
Model read_model(const ModelOptions& options);
// Here it is one, which lists them all.
void require_supported(const Model& model);

// Fails where the model asserts something of its sizes that does not hold for these inputs.
void check_sizes(const Model& model, const std::vector<Tensor>& inputs);
// Fails where it asserts something else that does not hold; else gives the results without those of assertions.
std::vector<Tensor> checked_results(const Model& model, std::vector<Tensor> results);

// Tensors for the inputs, in order: see load_inputs. Random numbers are drawn from `seed`.
std::vector<Tensor> inputs_for(const Model& model, const std::vector<std::string>& arguments, int64_t seed);

// What random numbers are drawn from, as the input of a graph that draws some.
Tensor random_key(int64_t seed);

// What the model returns, given what its graph does: also arguments and weights that it returns as they are. A result
// that is no tensor is left out.
NamedTensors results_of(const Model& model, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

}  // namespace tenon::cli
