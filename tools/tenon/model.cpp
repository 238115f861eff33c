#include "model.h"

#include <fmt/format.h>

#include <algorithm>

#include "bind.h"
#include "outcomes.h"
#include "terminal.h"

namespace tenon::cli {

void add_device_option(CLI::App& app, ModelOptions& options) {
  app.add_option("--device", options.devices,
                 "Run what this device claims on it, and the rest on the CPU; may be repeated, in order of preference")
      ->type_name("NAME[:OPTIONS]")
      ->allow_extra_args(false);
}

void note_idle_devices(const std::vector<std::string>& devices, const Program& program) {
  for (const std::string& device : devices) {
    const bool runs =
        program.placement && std::ranges::any_of(program.placement->parts.segments, [&](const auto& part) {
          return program.placement->parts.claimants[part.claimant] == device;
        });
    if (!runs && device != "cpu")
      print_error(
          fmt::format("note: {} runs no node of the model: `tenon explain --device {}` says why\n", device, device));
  }
}

bool is_pt2(const std::string& path) { return path.ends_with(".pt2"); }

Model read_model(const ModelOptions& options) {
  if (is_pt2(options.path)) {
    if (!options.parameters.empty() || options.seed) fail_at({options.path}, "a .pt2 file has its own parameters");
    return import_pt2(options.path).value();
  }
  Graph graph = read_graph(options.path);
  load_parameters(graph, options.parameters);
  if (options.seed) fill_parameters(graph, *options.seed);
  require_parameters(graph);
  return {.graph = std::move(graph)};
}

void require_supported(const Model& model) {
  check_supported(model.unsupported, "there is no PyTorch here to run what is left");
}

void check_sizes(const Model& model, const std::vector<Tensor>& inputs) {
  if (std::ranges::none_of(model.assertions, [](const auto& assertion) { return assertion.guard.has_value(); })) return;
  std::vector<symbolic::Equation> equations;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueRef input = model.graph.inputs()[i];
    const Shape& shape = model.graph.type(input).shape;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      equations.push_back({shape[dim], inputs[i].shape()[dim],
                           fmt::format("dimension {} of input '{}'", dim, model.graph.leaf(input)->name)});
    }
  }
  const symbolic::Bindings sizes = symbolic::solve(equations, model.graph.ranges()).value();
  for (const Assertion& assertion : model.assertions) {
    if (assertion.guard && symbolic::evaluate(*assertion.guard, sizes) == 0) {
      fail_at(assertion.location, "{}", assertion.message);
    }
  }
}

std::vector<Tensor> checked_results(const Model& model, std::vector<Tensor> results) {
  size_t outputs = results.size();
  for (const Assertion& assertion : model.assertions) {
    if (!assertion.output) continue;
    outputs = std::min(outputs, *assertion.output);
    const Tensor& condition = results[*assertion.output];
    const bool holds = is_float(condition.dtype()) ? condition.real(0) != 0 : condition.integer(0) != 0;
    if (!holds) fail_at(assertion.location, "{}", assertion.message);
  }
  results.resize(outputs);
  return results;
}

std::vector<Tensor> inputs_for(const Model& model, const std::vector<std::string>& arguments, int64_t seed) {
  std::map<std::string, Tensor> known;
  if (!model.key_input.empty()) known.emplace(model.key_input, random_key(seed));
  return load_inputs(input_infos(model.graph), arguments, known);
}

Tensor random_key(int64_t seed) {
  Tensor key = Tensor::zeros(DType::kI64, {2});
  key.set_integer(0, seed);
  return key;
}

NamedTensors results_of(const Model& model, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  if (model.outputs.empty()) return named_outputs(model.graph, outputs);
  NamedTensors results;
  for (const ImportedOutput& output : model.outputs) {
    const auto* tensor = output.argument.get<pt2::TensorName>();
    if (output.output) {
      results.emplace_back(output_name(model.graph, *output.output), outputs[*output.output]);
    } else if (output.weight.defined()) {
      results.emplace_back(tensor->name, output.weight);
    } else if (output.input && tensor != nullptr) {
      const std::optional<size_t> input = model.inputs[*output.input].input;
      if (!input) fail("the model returns '{}', whose dtype Tenon lacks", tensor->name);
      results.emplace_back(tensor->name, inputs[*input]);
    }
  }
  return results;
}

}  // namespace tenon::cli
