#include "outcomes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "json.h"
#include "output_files.h"
#include "support/cursor.h"
#include "terminal.h"
#include "values.h"

namespace tenon::cli {
namespace {

class Outcomes {
 public:
  void add(const std::string& wish, Tensor tensor, bool updated) {
    outcomes_.push_back({unique(wish), std::move(tensor), updated});
  }
  std::vector<Outcome> take() { return std::move(outcomes_); }

 private:
  std::string unique(std::string wish) {
    const auto is_plain = [](char c) { return is_identifier(std::string{'_', c}); };
    std::ranges::replace_if(wish, [&](char c) { return !is_plain(c); }, '_');
    if (!is_identifier(wish)) wish.insert(0, "_");
    std::string name = wish;
    for (int suffix = 1; !taken_.insert(name).second; ++suffix) name = fmt::format("{}_{}", wish, suffix);
    return name;
  }

  std::vector<Outcome> outcomes_;
  std::set<std::string> taken_;
};

std::string text_of(const Outcome& outcome) {
  const std::string title = outcome.updated ? outcome.name + " (updated)" : outcome.name;
  return fmt::format("{}: {}\n{}\n", title, to_string(type_of(outcome.tensor)), format_values(outcome.tensor));
}

std::string json_of(const Outcome& outcome) {
  return json::object(
      {{"name", json::string(outcome.name)},
       {"updated", json::boolean(outcome.updated)},
       {"dtype", json::string(name_of(outcome.tensor.dtype()))},
       {"shape", json::array_of(outcome.tensor.shape(), [](int64_t size) { return std::to_string(size); })},
       {"data", json_values(outcome.tensor)}});
}

}  // namespace

std::string output_name(const Graph& graph, size_t position) {
  const std::string& name = graph.value_name(graph.outputs()[position]);
  return name.empty() ? fmt::format("out{}", position) : name;
}

NamedTensors named_outputs(const Graph& graph, const std::vector<Tensor>& outputs) {
  NamedTensors named;
  for (size_t i = 0; i < outputs.size(); ++i) named.emplace_back(output_name(graph, i), outputs[i]);
  return named;
}

std::vector<Outcome> outcomes_of(const Graph& graph, const std::vector<Tensor>& inputs, const NamedTensors& results) {
  Outcomes outcomes;
  for (const auto& [name, tensor] : results) outcomes.add(name, tensor, false);
  const std::vector<ValueRef> formal = graph.inputs();
  for (const Update& update : graph.updates()) {
    const Leaf& leaf = *graph.leaf(update.target);
    const auto position = std::ranges::find(formal, update.target) - formal.begin();
    outcomes.add(leaf.name, leaf.kind == LeafKind::kInput ? inputs[static_cast<size_t>(position)] : leaf.data, true);
  }
  return outcomes.take();
}

std::vector<Outcome> outcomes_of(const runtime::TaskGraph& graph, const std::vector<Tensor>& inputs,
                                 const std::vector<Tensor>& results) {
  Outcomes outcomes;
  for (size_t i = 0; i < results.size(); ++i) outcomes.add(std::string(graph.outputs[i].name), results[i], false);
  for (const auto& [target, value] : graph.updates) {
    const runtime::TensorSlot& slot = graph.slots[target];
    if (slot.kind != runtime::SlotKind::Input || slot.position >= inputs.size()) continue;
    outcomes.add(std::string(graph.inputs[slot.position].name), inputs[slot.position], true);
  }
  return outcomes.take();
}

void show(const std::vector<Outcome>& outcomes, bool as_json) {
  if (as_json) return print(json::object({{"outputs", json::array_of(outcomes, json_of)}}) + "\n");
  for (const Outcome& outcome : outcomes) print(text_of(outcome));
}

void require_writable_results(const std::string& output) {
  output.ends_with(".npz") ? require_writable_file(output) : require_writable_folder(output);
}

void write(const std::vector<Outcome>& outcomes, const std::string& output) {
  if (output.ends_with(".npz")) {
    NamedTensors tensors;
    for (const Outcome& outcome : outcomes) tensors.emplace_back(outcome.name, outcome.tensor);
    write_npz(output, tensors).value();
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(output, error);
  if (error) fail_at({output}, "cannot make the folder: {}", error.message());
  for (const Outcome& outcome : outcomes) {
    write_npy((std::filesystem::path(output) / (outcome.name + ".npy")).string(), outcome.tensor).value();
  }
}

}  // namespace tenon::cli
