#include "training/model.h"

#include <algorithm>

namespace tenon {
namespace {

Imported import_in(ModelMode mode, const pt2::ExportedProgram& program) {
  Imported imported = import_program(program, mode).value();
  check_supported(imported.unsupported,
                  "there is no PyTorch here to run them and their gradients. In Python, "
                  "tenon.LocalTrainingInstance(\"model.pt2\", ...).save(\"model.tenon\") makes a file that names them, "
                  "for tenon.load and for programs that register functions of their own");
  return imported;
}

size_t result_count(const Imported& imported) {
  size_t count = 0;
  for (const ImportedOutput& output : imported.outputs) {
    if (output.output) count = std::max(count, *output.output + 1);
  }
  return count;
}

// The further names of tied weights, each with the first name in the order of the model.
std::map<std::string, std::string> further_names(const pt2::ExportedProgram& program) {
  std::vector<std::pair<std::string, Tensor>> first;
  std::map<std::string, std::string> names;
  for (const pt2::InputSpec& input : program.inputs) {
    const pt2::Weight* const weight = program.find_data(input);
    if (!weight || !weight->tensor.defined()) continue;
    const auto found =
        std::ranges::find_if(first, [&](const auto& other) { return is_same_memory(other.second, weight->tensor); });
    if (found == first.end()) {
      first.emplace_back(input.target, weight->tensor);
    } else {
      names[input.target] = found->first;
    }
  }
  return names;
}

std::vector<std::string> frozen_parameters(const pt2::ExportedProgram& program, const TrainingModel& model) {
  std::vector<std::string> frozen;
  for (const auto& [name, weight] : program.weights) {
    if (!weight.is_parameter || weight.requires_grad || model.names.contains(name)) continue;
    if (model.training.leaf_named(name)) frozen.push_back(name);
  }
  return frozen;
}

}  // namespace

ExportedModel read_exported_model(const std::string& path) {
  const pt2::ExportedProgram program = read_pt2(path).value();
  Imported training = import_in(ModelMode::kTraining, program);
  Imported inference = import_in(ModelMode::kInference, program);
  const size_t outputs = result_count(training);
  ExportedModel result;
  result.model = {std::move(training.graph), std::move(inference.graph), outputs, training.key_input,
                  further_names(program)};
  result.frozen = frozen_parameters(program, result.model);
  result.assertions = std::move(training.assertions);
  return result;
}

}  // namespace tenon
