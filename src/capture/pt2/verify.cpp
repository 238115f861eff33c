#include "capture/pt2/verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

namespace tenon::pt2 {
namespace {

template <class... Overloads>
struct Overloaded : Overloads... {
  using Overloads::operator()...;
};

// Calls the visitor with each name that an argument mentions: tensor(name), sym_int(name), ..., graph(graph).
template <class Visitor>
void visit_names(const Argument& argument, Visitor& visitor) {
  const auto optional = [&](const OptionalTensor& tensor) {
    if (tensor) visitor.tensor(tensor->name);
  };
  const auto sym_int = [&](const SymInt& number) {
    if (number.name()) visitor.sym_int(*number.name());
  };
  const auto sym_bool = [&](const SymBool& number) {
    if (number.name()) visitor.sym_bool(*number.name());
  };
  const auto sym_float = [&](const SymFloat& number) {
    if (number.name()) visitor.sym_float(*number.name());
  };
  const auto tensors = [&](const std::vector<TensorName>& list) {
    for (const TensorName& tensor : list) visitor.tensor(tensor.name);
  };
  std::visit(
      Overloaded{[&](const TensorName& tensor) { visitor.tensor(tensor.name); }, tensors, optional, sym_int, sym_bool,
                 sym_float, [&](const std::vector<OptionalTensor>& list) { std::ranges::for_each(list, optional); },
                 [&](const std::vector<SymInt>& list) { std::ranges::for_each(list, sym_int); },
                 [&](const std::vector<SymBool>& list) { std::ranges::for_each(list, sym_bool); },
                 [&](const std::vector<SymFloat>& list) { std::ranges::for_each(list, sym_float); },
                 [&](const std::vector<std::vector<TensorName>>& lists) { std::ranges::for_each(lists, tensors); },
                 [&](const std::vector<NamedValue>& entries) {
                   for (const NamedValue& entry : entries) visit_names(entry.value, visitor);
                 },
                 [&](const GraphArgument& nested) { visitor.graph(*nested.graph); }, [](const auto&) {}},
      argument.data);
}

class GraphVerifier {
 public:
  GraphVerifier(const ExportedGraph& graph, std::string path) : graph_(graph), path_(std::move(path)) {}

  void run() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) define(graph_.inputs[i], fmt::format("inputs[{}]", i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) node(graph_.nodes[i], i);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) use(graph_.outputs[i], fmt::format("outputs[{}]", i));
  }

 private:
  struct Definition {
    GraphVerifier& verifier;
    const std::string& place;
    void tensor(const std::string& name) { verifier.add(name, verifier.graph_.tensors, "tensor_values", place); }
    void sym_int(const std::string& name) { verifier.add(name, verifier.graph_.sym_ints, "sym_int_values", place); }
    void sym_bool(const std::string& name) { verifier.add(name, verifier.graph_.sym_bools, "sym_bool_values", place); }
    void sym_float(const std::string& name) {
      verifier.add(name, verifier.graph_.sym_floats, "sym_float_values", place);
    }
    void graph(const ExportedGraph&) { verifier.fail_at(place, "a graph can't be a result"); }
  };

  struct Use {
    GraphVerifier& verifier;
    const std::string& place;
    void tensor(const std::string& name) { verifier.find(name, verifier.graph_.tensors, "tensor", place); }
    void sym_int(const std::string& name) { verifier.find(name, verifier.graph_.sym_ints, "symbolic integer", place); }
    void sym_bool(const std::string& name) { verifier.find(name, verifier.graph_.sym_bools, "symbolic bool", place); }
    void sym_float(const std::string& name) {
      verifier.find(name, verifier.graph_.sym_floats, "symbolic float", place);
    }
    void graph(const ExportedGraph& nested) {
      GraphVerifier(nested, fmt::format("{}.{}.as_graph.graph", verifier.path_, place)).run();
    }
  };

  void node(const ExportedNode& node, size_t index) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      use(node.inputs[i].value, fmt::format("nodes[{}].inputs[{}].arg", index, i));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      define(node.outputs[i], fmt::format("nodes[{}].outputs[{}]", index, i));
    }
  }

  void define(const Argument& argument, const std::string& place) {
    Definition definition{*this, place};
    visit_names(argument, definition);
  }

  void use(const Argument& argument, const std::string& place) {
    Use use{*this, place};
    visit_names(argument, use);
  }

  template <class T>
  void add(const std::string& name, const Dictionary<T>& values, std::string_view table, const std::string& place) {
    if (!values.contains(name)) fail_at(place, "'{}' is not in {}", name, table);
    if (!defined_.insert(name).second) fail_at(place, "'{}' is defined twice", name);
  }

  template <class T>
  void find(const std::string& name, const Dictionary<T>& values, std::string_view kind, const std::string& place) {
    if (!defined_.contains(name)) fail_at(place, "'{}' is not defined before it is used", name);
    if (!values.contains(name)) fail_at(place, "'{}' is no {}", name, kind);
  }

  template <class... Args>
  [[noreturn]] void fail_at(const std::string& place, MessageFor<Args...> format, const Args&... args) const {
    fail("{}.{}: {}", path_, place, fill_in(format, args...));
  }

  const ExportedGraph& graph_;
  std::string path_;
  std::unordered_set<std::string_view> defined_;
};

bool is_data(InputKind kind) {
  return kind == InputKind::kParameter || kind == InputKind::kBuffer || kind == InputKind::kTensorConstant;
}

class SignatureVerifier {
 public:
  SignatureVerifier(const ExportedProgram& program, std::string path) : program_(program), path_(std::move(path)) {}

  void run() const {
    const std::vector<Argument>& graph_inputs = program_.graph.inputs;
    const std::vector<Argument>& graph_outputs = program_.graph.outputs;
    check_count("input_specs", program_.inputs.size(), "inputs", graph_inputs.size());
    check_count("output_specs", program_.outputs.size(), "outputs", graph_outputs.size());
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      input(program_.inputs[i], graph_inputs[i], fmt::format("{}.input_specs[{}]", path_, i));
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      output(program_.outputs[i], graph_outputs[i], fmt::format("{}.output_specs[{}]", path_, i));
    }
  }

 private:
  void check_count(std::string_view specs, size_t count, std::string_view values, size_t expected) const {
    if (count != expected) fail("{}.{}: {} of them, but the graph has {} {}", path_, specs, count, expected, values);
  }

  static void check_same(const Argument& spec, const Argument& argument, const std::string& place) {
    const std::string stated = to_string(spec);
    const std::string actual = to_string(argument);
    if (stated != actual) fail("{}: it says {}, but the graph has {} there", place, stated, actual);
  }

  void input(const InputSpec& spec, const Argument& argument, const std::string& place) const {
    if (spec.kind != InputKind::kToken) check_same(spec.argument, argument, place);
    if (is_data(spec.kind)) return data(spec, place);
    const auto* tensor = spec.argument.get<TensorName>();
    if (spec.kind != InputKind::kUserInput || tensor == nullptr) return;
    for (const SymValue& size : program_.graph.tensors.find(tensor->name)->second.sizes) {
      if (!size.problem.empty()) fail("{}: input '{}': {}", place, tensor->name, size.problem);
    }
  }

  void data(const InputSpec& spec, const std::string& place) const {
    const Weight* weight = program_.find_data(spec);
    if (weight == nullptr) fail("{}: there is no data of '{}' in the archive", place, spec.target);
    if (weight->pickled) fail("{}: {}", place, weight->problem);
    const TensorMeta& meta = program_.graph.tensors.find(spec.argument.get<TensorName>()->name)->second;
    const bool has_shape = weight->tensor.defined();
    const bool fits = meta.dtype == weight->dtype && (!has_shape || same_shape(meta, weight->tensor));
    if (!fits) {
      fail("{}: '{}' is {} in the graph, but its data is {}{}", place, spec.target, to_string(meta),
           weight->dtype.name(), shape_text(weight->tensor));
    }
  }

  static std::string shape_text(const Tensor& tensor) {
    return tensor.defined() ? fmt::format("[{}]", fmt::join(tensor.shape(), ", ")) : "";
  }

  static bool same_shape(const TensorMeta& meta, const Tensor& tensor) {
    return std::ranges::equal(meta.sizes, tensor.shape(), [](const SymValue& size, int64_t actual) {
      return size.problem.empty() && size.expr.is_constant(actual);
    });
  }

  void output(const OutputSpec& spec, const Argument& argument, const std::string& place) const {
    if (spec.kind != OutputKind::kToken) check_same(spec.argument, argument, place);
    const std::optional<InputKind> kind = target_kind(spec.kind);
    if (!kind) return;
    const bool is_found = std::ranges::any_of(program_.inputs, [&](const InputSpec& input) {
      return input.kind == *kind && target_name(input) == spec.target;
    });
    if (!is_found) fail("{}: {} of '{}', which is not such an input", place, name_of(spec.kind), spec.target);
  }

  static std::optional<InputKind> target_kind(OutputKind kind) {
    switch (kind) {
      case OutputKind::kBufferMutation:
        return InputKind::kBuffer;
      case OutputKind::kParameterMutation:
      case OutputKind::kGradientToParameter:
        return InputKind::kParameter;
      case OutputKind::kUserInputMutation:
      case OutputKind::kGradientToUserInput:
        return InputKind::kUserInput;
      default:
        return std::nullopt;
    }
  }

  // By which outputs call it.
  static std::string_view target_name(const InputSpec& input) {
    if (input.kind != InputKind::kUserInput) return input.target;
    const auto* tensor = input.argument.get<TensorName>();
    return tensor == nullptr ? std::string_view() : tensor->name;
  }

  const ExportedProgram& program_;
  std::string path_;
};

}  // namespace

void verify(const ExportedProgram& program, std::string_view entry) {
  GraphVerifier(program.graph, fmt::format("{}: graph_module.graph", entry)).run();
  SignatureVerifier(program, fmt::format("{}: graph_module.signature", entry)).run();
}

}  // namespace tenon::pt2
