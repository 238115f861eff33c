#include "capture/import_pt2.h"

#include <algorithm>
#include <map>
#include <set>

namespace tenon {
namespace {

using pt2::Argument;
using pt2::InputKind;
using pt2::InputSpec;
using pt2::OutputKind;
using pt2::OutputSpec;

constexpr std::string_view kOps = "torch.ops.";

// "torch.ops.aten.add.Tensor" is "aten.add.Tensor" in the registry.
std::string registry_name(std::string_view target) {
  if (target.starts_with(kOps)) target.remove_prefix(kOps.size());
  return std::string(target);
}

class ProgramImporter {
 public:
  explicit ProgramImporter(const Pt2Program& program) : program_(program), importer_(program.name) {}

  Imported run() {
    declare_symbols();
    for (const InputSpec& input : program_.inputs) add_input(input);
    for (const pt2::Node& node : program_.graph.nodes) add_node(node);
    std::vector<AtenArg> outputs = finish_outputs();
    result_.graph = importer_.finish(outputs);
    result_.signature = program_.signature;
    result_.unsupported = importer_.unsupported();
    result_.key_input = importer_.key_input();
    return std::move(result_);
  }

 private:
  // ---- inputs ----

  // Those that the sizes of inputs have. Others only exist once the model runs.
  void declare_symbols() {
    for (const InputSpec& input : program_.inputs) {
      const auto* tensor = input.argument.get<pt2::TensorName>();
      if (input.kind != InputKind::kUserInput || tensor == nullptr) continue;
      for (const Expr& size : meta_of(*tensor).shape()) {
        for (const Symbol& symbol : symbolic::symbols_of(size)) symbols_.insert(symbol);
      }
    }
    for (const auto& [symbol, range] : program_.ranges) {
      if (symbols_.contains(symbol)) importer_.graph().declare_symbol(symbol, range);
    }
  }

  void add_input(const InputSpec& input) {
    switch (input.kind) {
      case InputKind::kUserInput:
        return add_user_input(input);
      case InputKind::kConstantInput:
        result_.inputs.push_back({.name = input.target, .argument = input.argument});
        return;
      case InputKind::kToken:
        return;
      default:
        return add_data(input);
    }
  }

  void add_user_input(const InputSpec& input) {
    if (const auto* tensor = input.argument.get<pt2::TensorName>()) {
      const size_t position = input_count_++;
      values_[tensor->name] = importer_.input(unused_name(tensor->name), type_of(*tensor));
      result_.inputs.push_back({tensor->name, position, input.argument});
      return;
    }
    const auto* number = input.argument.get<pt2::SymInt>();
    if (number == nullptr || number->name() == nullptr) {
      fail("input {} is neither a tensor nor an integer: export the model with it as a constant",
           to_string(input.argument));
    }
    const Expr& size = program_.graph.sym_ints.find(*number->name())->second.require();
    if (!is_known(size)) {
      fail("input '{}' is an integer that no size of a tensor gives: export the model with it as a constant",
           *number->name());
    }
    values_[*number->name()] = size;
    result_.inputs.push_back({*number->name(), {}, input.argument, size});
  }

  void add_data(const InputSpec& input) {
    const auto& name = *input.argument.get<pt2::TensorName>();
    const TensorType type = type_of(name);
    const Tensor& data = program_.find_data(input)->require();
    AtenArg& value = values_[name.name];
    if (input.kind == InputKind::kParameter) value = importer_.parameter(unused_name(input.target), type, data);
    if (input.kind == InputKind::kBuffer) value = importer_.buffer(unused_name(input.target), type, data);
    if (input.kind == InputKind::kTensorConstant) value = importer_.constant(data);
  }

  // PyTorch's names of inputs and of weights are apart, those of a graph are not.
  std::string unused_name(std::string name) {
    while (importer_.graph().leaf_named(name) != nullptr) name += "_";
    return name;
  }

  const pt2::TensorMeta& meta_of(const pt2::TensorName& tensor) const {
    return program_.graph.tensors.find(tensor.name)->second;
  }

  TensorType type_of(const pt2::TensorName& tensor) const {
    try {
      const pt2::TensorMeta& meta = meta_of(tensor);
      return {meta.dtype.require(), meta.shape()};
    } catch (const Error& error) {
      fail("'{}': {}", tensor.name, error.diagnostic().message);
    }
  }

  // Whether the inputs give its value.
  bool is_known(const Expr& expr) const {
    return std::ranges::all_of(symbolic::symbols_of(expr), [&](Symbol symbol) { return symbols_.contains(symbol); });
  }

  // ---- arguments ----

  AtenArg value(const std::string& name) const { return values_.find(name)->second; }
  AtenArg value(const None&) const { return None{}; }
  AtenArg value(bool flag) const { return flag; }
  AtenArg value(int64_t number) const { return number; }
  AtenArg value(double number) const { return number; }
  AtenArg value(const pt2::TensorName& tensor) const { return value(tensor.name); }
  AtenArg value(const pt2::OptionalTensor& tensor) const { return tensor ? value(tensor->name) : AtenArg(); }
  template <class T>
  AtenArg value(const pt2::Sym<T>& number) const {
    return number.name() != nullptr ? value(*number.name()) : AtenArg(*number.value());
  }
  template <class T>
  AtenArg value(const std::vector<T>& values) const {
    AtenArg::List list;
    for (const auto& item : values) list.push_back(value(item));
    return list;
  }
  AtenArg value(const std::vector<std::string>& texts) const { return AtenArg::List(texts.begin(), texts.end()); }
  AtenArg value(const pt2::ScalarType& dtype) const {
    const auto known = dtype.dtype();
    return known ? AtenArg(*known) : AtenArg(AtenSetting{dtype.name()});
  }
  AtenArg value(const pt2::NamedValue& entry) const { return argument(entry.value); }
  // What no entry of the registry computes with.
  AtenArg setting(const Argument& argument) const { return AtenSetting{to_string(argument)}; }

  AtenArg argument(const Argument& argument) const {
    if (const auto* text = argument.get<std::string>()) return *text;
    return std::visit(
        [&](const auto& data) -> AtenArg {
          if constexpr (requires { value(data); }) return value(data);
          return setting(argument);
        },
        argument.data);
  }

  // ---- nodes ----

  void add_node(const pt2::Node& node) {
    if (bind_numbers(node)) return;
    AtenRequest request{.target = registry_name(node.target), .location = node.location};
    for (const pt2::NamedArgument& input : node.inputs) {
      const bool by_name = input.kind != pt2::ArgumentKind::kPositional && !input.name.empty();
      if (by_name) {
        request.named.emplace_back(input.name, argument(input.value));
      } else {
        request.positional.push_back(argument(input.value));
      }
    }
    request.results = result_types(node);
    const bool is_list = node.outputs.size() != 1 || node.outputs[0].get<std::vector<pt2::TensorName>>() != nullptr;
    request.returns_list = is_list;
    const size_t external_before = importer_.external_count();
    const AtenArg result = importer_.call(std::move(request));
    bind_results(node, result, importer_.external_count() > external_before);
  }

  // Arithmetic on sizes needs no call: the file says what comes of it.
  bool bind_numbers(const pt2::Node& node) {
    std::map<std::string, AtenArg> numbers;
    for (const Argument& output : node.outputs) {
      const auto* integer = output.get<pt2::SymInt>();
      const auto* flag = output.get<pt2::SymBool>();
      const auto* name = integer != nullptr ? integer->name() : flag != nullptr ? flag->name() : nullptr;
      if (name == nullptr) return false;
      const auto& stored = integer != nullptr ? program_.graph.sym_ints : program_.graph.sym_bools;
      const pt2::SymValue& number = stored.find(*name)->second;
      if (!number.problem.empty() || !is_known(number.expr)) return false;
      numbers[*name] = number.expr;
    }
    values_.merge(numbers);
    return !node.outputs.empty();
  }

  // Nothing where some are not known: then the call cannot be left to a host.
  std::optional<std::vector<std::optional<TensorType>>> result_types(const pt2::Node& node) const {
    std::vector<std::optional<TensorType>> types;
    for (const Argument& output : node.outputs) {
      std::vector<pt2::TensorName> tensors;
      if (const auto* tensor = output.get<pt2::TensorName>()) tensors = {*tensor};
      if (const auto* list = output.get<std::vector<pt2::TensorName>>()) tensors = *list;
      if (tensors.empty() && !output.get<None>() && !output.get<std::vector<pt2::TensorName>>()) return std::nullopt;
      for (const pt2::TensorName& tensor : tensors) {
        const pt2::TensorMeta& meta = meta_of(tensor);
        const bool is_readable = std::ranges::all_of(
            meta.sizes, [&](const pt2::SymValue& size) { return size.problem.empty() && is_known(size.expr); });
        if (!is_readable) return std::nullopt;
        const auto dtype = meta.dtype.dtype();
        types.push_back(dtype ? std::optional(TensorType{*dtype, meta.shape()}) : std::nullopt);
      }
    }
    return types;
  }

  void bind_results(const pt2::Node& node, const AtenArg& result, bool is_external) {
    const auto* list = result.get<AtenArg::List>();
    if (is_external) {
      size_t next = 0;
      for (const Argument& output : node.outputs)
        bind_flat(output, list != nullptr ? *list : AtenArg::List{result}, next);
      return;
    }
    if (node.outputs.empty()) return;
    if (node.outputs.size() == 1) return bind(node, node.outputs[0], result);
    if (list == nullptr || list->size() < node.outputs.size()) fail_results(node, result);
    for (size_t i = 0; i < node.outputs.size(); ++i) bind(node, node.outputs[i], (*list)[i]);
  }

  // The results of an external call are in one list, without those that are None. Their types are those of the file.
  void bind_flat(const Argument& output, const AtenArg::List& results, size_t& next) {
    if (const auto* tensor = output.get<pt2::TensorName>()) values_[tensor->name] = results[next++];
    const auto* tensors = output.get<std::vector<pt2::TensorName>>();
    if (tensors == nullptr) return;
    for (const pt2::TensorName& tensor : *tensors) values_[tensor.name] = results[next++];
  }

  void bind(const pt2::Node& node, const Argument& output, const AtenArg& result) {
    if (output.get<None>() != nullptr) return;
    if (const auto* tensor = output.get<pt2::TensorName>()) {
      check_type(node, *tensor, result);
      values_[tensor->name] = result;
    } else if (const auto* tensors = output.get<std::vector<pt2::TensorName>>()) {
      const auto* list = result.get<AtenArg::List>();
      if (list == nullptr || list->size() != tensors->size()) fail_results(node, result);
      for (size_t i = 0; i < tensors->size(); ++i) bind(node, {(*tensors)[i]}, (*list)[i]);
    } else if (const std::string* name = number_name(output)) {
      values_[*name] = result;
    } else {
      fail_results(node, result);
    }
  }

  static const std::string* number_name(const Argument& output) {
    if (const auto* number = output.get<pt2::SymInt>()) return number->name();
    if (const auto* number = output.get<pt2::SymBool>()) return number->name();
    if (const auto* number = output.get<pt2::SymFloat>()) return number->name();
    return nullptr;
  }

  // A file that says another type than the op gives was not made by this op.
  void check_type(const pt2::Node& node, const pt2::TensorName& name, const AtenArg& result) const {
    const auto* tensor = result.get<AtenTensor>();
    if (tensor == nullptr) fail_results(node, result);
    const pt2::TensorMeta& meta = meta_of(name);
    const TensorType& type = tensor->value.type();
    const auto differ = [](const pt2::SymValue& stated, const Expr& actual) {
      return stated.problem.empty() && stated.expr.is_constant() && actual.is_constant() && stated.expr != actual;
    };
    bool fits = meta.dtype.dtype() == type.dtype && meta.sizes.size() == type.shape.size();
    for (size_t dim = 0; fits && dim < type.shape.size(); ++dim) fits = !differ(meta.sizes[dim], type.shape[dim]);
    if (!fits) {
      fail_at(node.location, "{} gives {}, but the file says that '{}' is {}", node.target, to_string(type), name.name,
              to_string(meta));
    }
  }

  [[noreturn]] static void fail_results(const pt2::Node& node, const AtenArg& result) {
    fail_at(node.location, "{} gives {}, which does not fit what the file says: {}", node.target, to_string(result),
            to_string(node));
  }

  // ---- outputs ----

  // All values are taken before the first update: each is what the model computed.
  std::vector<AtenArg> finish_outputs() {
    std::vector<AtenArg> outputs;
    std::vector<std::pair<AtenArg, AtenArg>> updates;
    for (const OutputSpec& output : program_.outputs) {
      switch (output.kind) {
        case OutputKind::kUserOutput:
        case OutputKind::kLossOutput:
          add_output(output, outputs);
          break;
        case OutputKind::kBufferMutation:
          updates.emplace_back(leaf_of(InputKind::kBuffer, output.target), value_now(output.argument));
          break;
        case OutputKind::kParameterMutation:
          updates.emplace_back(leaf_of(InputKind::kParameter, output.target), value_now(output.argument));
          break;
        case OutputKind::kUserInputMutation:
          updates.emplace_back(value(output.target), value_now(output.argument));
          break;
        case OutputKind::kToken:
          break;
        case OutputKind::kGradientToParameter:
        case OutputKind::kGradientToUserInput:
          fail("the program has an output {} of '{}': export the forward pass alone", name_of(output.kind),
               output.target);
      }
    }
    for (const auto& [target, update] : updates) importer_.update(target, update);
    return outputs;
  }

  AtenArg value_now(const Argument& output) { return importer_.value_of(argument(output)); }

  void add_output(const OutputSpec& output, std::vector<AtenArg>& outputs) {
    const bool is_value = output.argument.get<pt2::TensorName>() != nullptr || number_name(output.argument) != nullptr;
    if (is_value) outputs.push_back(value_now(output.argument));
    result_.outputs.push_back({is_value ? std::optional(outputs.size() - 1) : std::nullopt, output.argument});
  }

  AtenArg leaf_of(InputKind kind, const std::string& target) const {
    const auto found = std::ranges::find_if(
        program_.inputs, [&](const InputSpec& input) { return input.kind == kind && input.target == target; });
    return argument(found->argument);
  }

  const Pt2Program& program_;
  Importer importer_;
  std::set<Symbol> symbols_;  // that the inputs give
  std::map<std::string, AtenArg, std::less<>> values_;
  size_t input_count_ = 0;
  Imported result_;
};

}  // namespace

Result<Imported> import_program(const Pt2Program& program) {
  return capture([&] { return ProgramImporter(program).run(); });
}

Result<Imported> import_pt2(const std::string& path, std::string_view model) {
  return capture([&] {
    const Pt2Program program = read_pt2(path, model).value();
    Result<Imported> imported = import_program(program);
    if (imported.ok() || imported.diagnostic().where.known()) return std::move(imported).value();
    fail_at({path}, "{}", imported.diagnostic().message);
  });
}

}  // namespace tenon
