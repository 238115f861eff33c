// The text forms of pt2.h.
#include <fmt/ranges.h>

#include <array>

#include "capture/pt2/pt2.h"
#include "graph/type.h"
#include "symbolic/format.h"

namespace tenon::pt2 {
namespace {

constexpr std::array<std::string_view, 8> kLayouts = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                                      "sparse_bsr", "sparse_bsc", "mkldnn",     "strided"};
constexpr std::array<std::string_view, 5> kMemoryFormats = {"unknown", "contiguous_format", "channels_last",
                                                            "channels_last_3d", "preserve_format"};
constexpr std::array<std::string_view, 6> kInputKinds = {"user_input", "constant_input",  "parameter",
                                                         "buffer",     "tensor_constant", "token"};
constexpr std::array<std::string_view, 8> kOutputKinds = {
    "user_output",         "loss_output",           "buffer_mutation",        "parameter_mutation",
    "user_input_mutation", "gradient_to_parameter", "gradient_to_user_input", "token"};

std::string text(const None&) { return "None"; }
std::string text(bool flag) { return flag ? "True" : "False"; }
std::string text(int64_t number) { return std::to_string(number); }
std::string text(double number) {
  std::string digits = fmt::format("{}", number);
  const bool looks_integral = digits.find_first_not_of("-0123456789") == std::string::npos;
  return looks_integral ? digits + ".0" : digits;
}
std::string text(const std::string& string) { return fmt::format("{:?}", string); }
std::string text(const std::complex<double>& number) {
  return fmt::format("({}, {})", text(number.real()), text(number.imag()));
}
std::string text(const TensorName& tensor) { return "%" + tensor.name; }
std::string text(const OptionalTensor& tensor) { return tensor ? text(*tensor) : "None"; }
std::string text(const TorchDType& dtype) { return dtype.name(); }
std::string text(const Layout& layout) { return std::string(name_of(layout)); }
std::string text(const MemoryFormat& format) { return std::string(name_of(format)); }
std::string text(const TorchDevice& device) {
  return device.index ? fmt::format("{}:{}", device.type, *device.index) : device.type;
}
std::string text(const GraphArgument& nested) { return fmt::format("graph {}", nested.name); }
std::string text(const CustomObject& object) { return fmt::format("{} {}", object.class_name, object.name); }
std::string text(const Operator& op) { return op.target; }
std::string text(const NamedValue& entry) { return fmt::format("{:?}: {}", entry.name, to_string(entry.value)); }
std::string text(const SymValue& value) { return value.problem.empty() ? symbolic::to_string(value.expr) : "?"; }
template <class T>
std::string text(const Sym<T>& number) {
  return number.name() != nullptr ? "%" + *number.name() : text(*number.value());
}
template <class T>
std::string text(const std::vector<T>& values) {
  std::string result;
  for (const auto& value : values) result += (result.empty() ? "" : ", ") + text(value);
  return fmt::format("[{}]", result);
}

std::string text(const NamedArgument& argument) {
  return argument.name.empty() ? to_string(argument.value)
                               : fmt::format("{}={}", argument.name, to_string(argument.value));
}

// A list without its brackets.
template <class T, class Text>
std::string joined(const std::vector<T>& values, Text&& text_of) {
  std::string result;
  for (const T& value : values) result += (result.empty() ? "" : ", ") + text_of(value);
  return result;
}

std::string indented(const ExportedGraph& graph, const std::string& indent);

// The graphs that a node takes, each below it.
std::string nested_graphs(const ExportedNode& node, const std::string& indent) {
  std::string result;
  for (const NamedArgument& input : node.inputs) {
    const auto* nested = input.value.get<GraphArgument>();
    if (nested == nullptr) continue;
    result += fmt::format("{}{}:\n{}", indent, nested->name, indented(*nested->graph, indent + "  "));
  }
  return result;
}

std::string typed(const ExportedGraph& graph, const Argument& argument) {
  const auto* tensor = argument.get<TensorName>();
  const auto meta = tensor != nullptr ? graph.tensors.find(tensor->name) : graph.tensors.end();
  return to_string(argument) + (meta == graph.tensors.end() ? "" : ": " + to_string(meta->second));
}

std::string indented(const ExportedGraph& graph, const std::string& indent) {
  const auto with_type = [&](const Argument& argument) { return typed(graph, argument); };
  std::string result = fmt::format("{}inputs {}\n", indent, joined(graph.inputs, with_type));
  for (const ExportedNode& node : graph.nodes) {
    result += fmt::format("{}{}\n{}", indent, to_string(node), nested_graphs(node, indent + "  "));
  }
  return result + fmt::format("{}outputs {}\n", indent, joined(graph.outputs, with_type));
}

std::string line_of(const ExportedGraph& graph, const InputSpec& input) {
  const std::string target = input.target.empty() ? "" : " " + text(input.target);
  const std::string_view note = input.persistent ? "" : " not persistent";
  return fmt::format("  {}{} {}{}\n", name_of(input.kind), target, typed(graph, input.argument), note);
}

std::string line_of(const OutputSpec& output) {
  const std::string target = output.target.empty() ? "" : " " + text(output.target);
  return fmt::format("  {}{} {}\n", name_of(output.kind), target, to_string(output.argument));
}

}  // namespace

std::string_view name_of(Layout layout) { return kLayouts[static_cast<size_t>(layout)]; }
std::string_view name_of(MemoryFormat format) { return kMemoryFormats[static_cast<size_t>(format)]; }
std::string_view name_of(InputKind kind) { return kInputKinds[static_cast<size_t>(kind)]; }
std::string_view name_of(OutputKind kind) { return kOutputKinds[static_cast<size_t>(kind)]; }

std::string to_string(const Argument& argument) {
  return std::visit([](const auto& value) { return text(value); }, argument.data);
}

std::string to_string(const TensorMeta& meta) { return meta.dtype.name() + text(meta.sizes); }

std::string to_string(const ExportedNode& node) {
  const auto as_text = [](const NamedArgument& argument) { return text(argument); };
  const auto result = [](const Argument& argument) { return to_string(argument); };
  const std::string results = joined(node.outputs, result);
  const std::string place = node.location.known() ? " @ " + to_string(node.location) : "";
  return fmt::format("{}{}{}({}){}", results, results.empty() ? "" : " = ", node.target, joined(node.inputs, as_text),
                     place);
}

std::string to_string(const ExportedGraph& graph) { return indented(graph, ""); }

std::string to_string(const ExportedProgram& program) {
  std::string result = fmt::format("program {} (schema {}.{}, torch {})\n", program.name, program.schema.major,
                                   program.schema.minor, program.torch_version);
  for (const auto& [symbol, range] : program.ranges) {
    result += fmt::format("  symbol {} in {}\n", symbol.name(), symbolic::to_string(range));
  }
  for (const auto& [expr, range] : program.derived_ranges) {
    result += fmt::format("  size {} in {}\n", expr, symbolic::to_string(range));
  }
  for (const InputSpec& input : program.inputs) result += line_of(program.graph, input);
  for (const ExportedNode& node : program.graph.nodes) {
    result += fmt::format("  {}\n{}", to_string(node), nested_graphs(node, "    "));
  }
  for (const OutputSpec& output : program.outputs) result += line_of(output);
  return result;
}

}  // namespace tenon::pt2
