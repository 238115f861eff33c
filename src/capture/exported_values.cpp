#include "capture/exported_values.h"

#include <fmt/format.h>

namespace tenon {
namespace {

using pt2::Argument;

// Turns the data of an argument into what entries of the registry take.
struct Reader {
  const ExportedValues& values;
  ArgumentReading& reading;

  void note_problem(std::string problem) const {
    if (reading.problem.empty()) reading.problem = std::move(problem);
  }

  AtenArg named(const std::string& name) const {
    const ExportedValue& found = values.find(name)->second;
    note_problem(found.problem);
    reading.names.push_back(name);
    return found.value;
  }

  // A graph, an operator, a custom object, a complex number.
  template <class Other>
  AtenArg opaque(const Other& other) const {
    const std::string text = to_string(Argument{other});
    note_problem(fmt::format("it takes {}", text));
    return AtenSetting{text};
  }

  AtenArg operator()(const None&) const { return None{}; }
  AtenArg operator()(bool flag) const { return flag; }
  AtenArg operator()(int64_t number) const { return number; }
  AtenArg operator()(double number) const { return number; }
  AtenArg operator()(const std::string& text) const { return text; }
  AtenArg operator()(const pt2::TensorName& tensor) const { return named(tensor.name); }
  AtenArg operator()(const pt2::OptionalTensor& tensor) const { return tensor ? named(tensor->name) : AtenArg(); }
  template <class T>
  AtenArg operator()(const pt2::Sym<T>& number) const {
    return number.name() != nullptr ? named(*number.name()) : AtenArg(*number.value());
  }
  template <class T>
  AtenArg operator()(const std::vector<T>& items) const {
    AtenArg::List list;
    for (const auto& item : items) list.push_back((*this)(item));
    return list;
  }
  AtenArg operator()(const pt2::NamedValue& entry) const { return std::visit(*this, entry.value.data); }
  AtenArg operator()(const pt2::TorchDType& dtype) const {
    if (const auto known = dtype.dtype()) return *known;
    note_problem(fmt::format("it takes the dtype {}", dtype.name()));
    return AtenSetting{dtype.name()};
  }
  AtenArg operator()(const pt2::TorchDevice& device) const { return AtenSetting{to_string(Argument{device})}; }
  AtenArg operator()(const pt2::Layout& layout) const { return AtenSetting{std::string(name_of(layout))}; }
  AtenArg operator()(const pt2::MemoryFormat& format) const { return AtenSetting{std::string(name_of(format))}; }
  AtenArg operator()(const pt2::GraphArgument& graph) const { return opaque(graph); }
  AtenArg operator()(const pt2::CustomObject& object) const { return opaque(object); }
  AtenArg operator()(const pt2::Operator& op) const { return opaque(op); }
  AtenArg operator()(const std::complex<double>& number) const { return opaque(number); }
};

}  // namespace

const std::string* number_name(const Argument& argument) {
  if (const auto* number = argument.get<pt2::SymInt>()) return number->name();
  if (const auto* number = argument.get<pt2::SymBool>()) return number->name();
  if (const auto* number = argument.get<pt2::SymFloat>()) return number->name();
  return nullptr;
}

const std::string* name_in(const Argument& argument) {
  const auto* tensor = argument.get<pt2::TensorName>();
  return tensor != nullptr ? &tensor->name : number_name(argument);
}

AtenArg read_argument(const ExportedValues& values, const Argument& argument, ArgumentReading& reading) {
  return std::visit(Reader{values, reading}, argument.data);
}

ReadArguments read_arguments(const ExportedValues& values, const pt2::ExportedNode& node) {
  ReadArguments result;
  ArgumentReading named;
  for (const pt2::NamedArgument& input : node.inputs) {
    if (input.is_named()) {
      result.named.emplace_back(input.name, read_argument(values, input.value, named));
    } else {
      result.positional.push_back(read_argument(values, input.value, result.reading));
    }
  }
  result.reading.names.insert(result.reading.names.end(), named.names.begin(), named.names.end());
  if (result.reading.problem.empty()) result.reading.problem = named.problem;
  return result;
}

const Argument* argument_named(const pt2::ExportedNode& node, size_t position, std::string_view name) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const pt2::NamedArgument& input = node.inputs[i];
    if (input.name == name || (input.name.empty() && i == position)) return &input.value;
  }
  return nullptr;
}

}  // namespace tenon
