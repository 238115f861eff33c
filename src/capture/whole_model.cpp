#include "capture/whole_model.h"

#include <algorithm>

namespace tenon {
namespace {

using Kind = CallTree::Kind;

// ---- the graph ------------------------------------------------------------------------------------------------------

// The value after the run: the model may have written the leaf.
ValueRef last_value(const Graph& graph, ValueRef leaf) {
  const auto update = std::ranges::find(graph.updates(), leaf, &Update::target);
  return update == graph.updates().end() ? leaf : update->value;
}

ValueRef weight_in(Graph& graph, const Tensor& weight, std::string name) {
  for (const Leaf& leaf : graph.leaves()) {
    const bool is_same =
        leaf.data.defined() && leaf.data.data() == weight.data() && leaf.data.strides() == weight.strides();
    if (is_same && to_string(graph.type(leaf.value)) == to_string(type_of(weight))) {
      return last_value(graph, leaf.value);
    }
  }
  while (graph.leaf_named(name)) name += "_";
  return graph.add_parameter(name, type_of(weight), weight);
}

// ---- the form -------------------------------------------------------------------------------------------------------

CallConstant constant_of(const pt2::Argument& argument) {
  if (const auto* flag = argument.get<bool>()) return *flag;
  if (const auto* number = argument.get<int64_t>()) return *number;
  if (const auto* real = argument.get<double>()) return *real;
  if (const auto* text = argument.get<std::string>()) return *text;
  if (const auto* number = argument.get<pt2::SymInt>(); number != nullptr && number->value()) return *number->value();
  if (const auto* flag = argument.get<pt2::SymBool>(); flag != nullptr && flag->value()) return *flag->value();
  if (const auto* real = argument.get<pt2::SymFloat>(); real != nullptr && real->value()) return *real->value();
  if (argument.get<None>() == nullptr) fail("{} is not a value that a file can hold", to_string(argument));
  return None{};
}

CallTree argument_leaf(const ImportedInput& input) {
  if (input.size) {
    if (input.input) return {.kind = Kind::kInt, .position = *input.input};
    return {.kind = Kind::kSize, .size = input.size};
  }
  if (input.input) return {.kind = Kind::kTensor, .position = *input.input};
  if (input.argument.get<pt2::TensorName>() != nullptr) {
    fail("the model takes '{}', whose dtype Tenon lacks", input.name);
  }
  return {.kind = Kind::kConstant, .constant = constant_of(input.argument)};
}

Kind kind_of_result(const pt2::Argument& argument) {
  if (argument.get<pt2::SymInt>() != nullptr) return Kind::kInt;
  if (argument.get<pt2::SymFloat>() != nullptr) return Kind::kFloat;
  return argument.get<pt2::SymBool>() != nullptr ? Kind::kBool : Kind::kTensor;
}

// A function that gives the leaves one after the other.
auto taken_in_order(std::vector<CallTree> leaves, std::string_view what) {
  return [leaves = std::move(leaves), what, next = size_t{0}]() mutable {
    if (next == leaves.size()) fail("the file says that there are more {} than the {} of its graph", what, next);
    return leaves[next++];
  };
}

CallForm form_of(const Imported& model, std::vector<CallTree> arguments, std::vector<CallTree> results) {
  if (!model.signature) {
    CallForm form{{}, {.kind = Kind::kTuple, .children = std::move(results)}};
    for (size_t i = 0; i < arguments.size(); ++i) form.parameters.push_back({model.inputs[i].name, arguments[i]});
    return form;
  }
  const auto& [in_spec, out_spec, names] = *model.signature;
  if (in_spec.leaf_count() != arguments.size() || out_spec.leaf_count() != results.size()) {
    fail("the file says that its model takes {} values and gives {}, but its graph takes {} and gives {}",
         in_spec.leaf_count(), out_spec.leaf_count(), arguments.size(), results.size());
  }
  CallForm form{call_parameters(in_spec, names, taken_in_order(std::move(arguments), "arguments")), {}};
  form.results = call_tree(out_spec, taken_in_order(std::move(results), "results"));
  return parse_call_form(to_string(form)).value();  // what it breaks is an error now, not when it is loaded
}

std::vector<CallTree> numbered_leaves(size_t count) {
  std::vector<CallTree> leaves;
  for (size_t i = 0; i < count; ++i) leaves.push_back({.kind = Kind::kTensor, .position = i});
  return leaves;
}

}  // namespace

WholeModel whole_model(const Graph& source, std::span<const ModelResult> results, std::vector<Assertion> assertions) {
  WholeModel whole{source, std::move(assertions)};
  std::vector<ValueRef> outputs;
  for (const ModelResult& result : results) {
    if (result.output) {
      outputs.push_back(source.outputs()[*result.output]);
    } else if (result.input) {
      outputs.push_back(last_value(source, source.inputs()[*result.input]));
    } else {
      outputs.push_back(weight_in(whole.graph, result.weight, result.name));
    }
  }
  for (Assertion& assertion : whole.assertions) {
    if (!assertion.output) continue;
    outputs.push_back(source.outputs()[*assertion.output]);
    assertion.output = outputs.size() - 1;
  }
  whole.graph.set_outputs(std::move(outputs));
  return whole;
}

SavedModel saved_model(const Imported& model) {
  const bool is_imported = model.signature || !model.inputs.empty() || !model.outputs.empty();
  if (!is_imported) return {{model.graph, model.assertions}, {}};
  std::vector<CallTree> arguments, leaves;
  for (const ImportedInput& input : model.inputs) arguments.push_back(argument_leaf(input));
  std::vector<ModelResult> results;
  for (const ImportedOutput& output : model.outputs) {
    const auto* const tensor = output.argument.get<pt2::TensorName>();
    const std::string name = tensor != nullptr ? tensor->name : "";
    if (output.foreign || !output.kept.empty()) fail("the model returns '{}', whose dtype Tenon lacks", name);
    if (output.input) {
      leaves.push_back({.kind = Kind::kArgument, .position = *output.input});
      if (tensor == nullptr) continue;
      const std::optional<size_t> input = model.inputs[*output.input].input;
      if (!input) fail("the model returns '{}', whose dtype Tenon lacks", name);
      results.push_back({.input = input});
    } else if (output.output || output.weight.defined()) {
      leaves.push_back({.kind = kind_of_result(output.argument), .position = results.size()});
      results.push_back({.output = output.output, .weight = output.weight, .name = name});
    } else {
      leaves.push_back({.kind = Kind::kConstant, .constant = constant_of(output.argument)});
    }
  }
  return {whole_model(model.graph, results, model.assertions), form_of(model, std::move(arguments), std::move(leaves))};
}

CallForm nesting_of(const Imported& model) {
  return form_of(model, numbered_leaves(model.inputs.size()), numbered_leaves(model.outputs.size()));
}

}  // namespace tenon
