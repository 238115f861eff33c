#include "model.h"

#include <algorithm>

#include "bind.h"
#include "outcomes.h"
#include "terminal.h"

namespace tenon::cli {

bool is_pt2(const std::string& path) { return path.ends_with(".pt2"); }

Model read_model(const ModelOptions& options) {
  if (is_pt2(options.path)) {
    if (!options.parameters.empty() || options.seed) fail_at({options.path}, "a .pt2 file has its own parameters");
    Imported imported = import_pt2(options.path).value();
    return {std::move(imported.graph), std::move(imported.inputs), std::move(imported.outputs),
            std::move(imported.unsupported), std::move(imported.key_input)};
  }
  Graph graph = read_graph(options.path);
  load_parameters(graph, options.parameters);
  if (options.seed) fill_parameters(graph, *options.seed);
  require_parameters(graph);
  return {std::move(graph)};
}

void require_supported(const Model& model) {
  check_supported(model.unsupported, "there is no PyTorch here to run what is left");
}

std::vector<Tensor> inputs_for(const Model& model, const std::vector<std::string>& arguments, int64_t seed) {
  if (model.key_input.empty()) return load_inputs(model.graph, arguments);
  Tensor key = Tensor::zeros(DType::kI64, {2});
  key.set_integer(0, seed);
  return load_inputs(model.graph, arguments, {{model.key_input, key}});
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
