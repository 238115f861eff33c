#include "capture/import_pt2.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "capture/symbol_names.h"
#include "capture/traced_memory.h"

namespace tenon {
namespace {

using pt2::Argument;
using pt2::InputKind;
using pt2::InputSpec;
using pt2::OutputKind;
using pt2::OutputSpec;
using pt2::TensorName;

constexpr std::array<std::string_view, 1> kHints = {"torch._C._set_grad_enabled"};  // it concerns only a trace

// Calls that only check something. The functional ones give their last argument.
constexpr std::array<std::string_view, 5> kAssertions = {
    "aten._assert_async.default", "aten._assert_async.msg", "aten._assert_scalar.default",
    "aten._functional_assert_async.msg", "aten._functional_assert_scalar.default"};
constexpr std::array<std::string_view, 4> kRanges = {
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
    "aten._functional_sym_constrain_range.default", "aten._functional_sym_constrain_range_for_size.default"};
constexpr std::string_view kFactorized = "aten._linalg_check_errors.default";

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

const std::string* number_name(const Argument& argument) {
  if (const auto* number = argument.get<pt2::SymInt>()) return number->name();
  if (const auto* number = argument.get<pt2::SymBool>()) return number->name();
  if (const auto* number = argument.get<pt2::SymFloat>()) return number->name();
  return nullptr;
}

const std::string* name_in(const Argument& argument) {
  const auto* tensor = argument.get<TensorName>();
  return tensor != nullptr ? &tensor->name : number_name(argument);
}

// Calls the body with each tensor and number of a result, in order. Skips None.
template <class Body>
void for_each_result(const Argument& output, Body&& body) {
  const auto* tensors = output.get<std::vector<TensorName>>();
  if (tensors == nullptr) {
    if (output.get<None>() == nullptr) body(output);
    return;
  }
  for (const TensorName& tensor : *tensors) body(Argument{tensor});
}

// The value of a name. `problem` says why no entry of the registry can take it; empty if entries can.
struct Bound {
  AtenArg value;
  std::string problem = {};
  std::string kept = {};  // of a tensor that only the fallback can hold: see ExternalArgument
  std::shared_ptr<const pt2::ForeignData> foreign = {};
};

// Findings while arguments are read.
struct Reading {
  std::string problem = {};             // why no entry can take them
  std::vector<std::string> names = {};  // that they have, in order
};

// The arguments of a call as the importer takes them.
struct Arguments {
  std::vector<AtenArg> positional = {};
  std::vector<std::pair<std::string, AtenArg>> named = {};
  Reading reading = {};  // its names are in the order of the importer's operands
};

class ProgramImporter {
 public:
  ProgramImporter(const pt2::ExportedProgram& program, ModelMode mode)
      : program_(program), importer_("main", mode), graph_(&program.graph) {}

  Imported run() {
    declare_symbols();
    for (const InputSpec& input : program_.inputs) add_input(input);
    note_leaves();
    for (const pt2::ExportedNode& node : graph_->nodes) add_node(node);
    add_outputs();
    for (const auto& [condition, assertion] : assertions_) add_assertion(condition, assertion);
    result_.graph = importer_.finish(outputs_);
    result_.signature = program_.signature;
    result_.unsupported = importer_.unsupported();
    result_.key_input = importer_.key_input();
    return std::move(result_);
  }

 private:
  using Values = std::map<std::string, Bound, std::less<>>;
  using Producers = std::map<std::string, const pt2::ExportedNode*, std::less<>>;

  // ---- sizes ----

  // Symbols of inputs are known; others only exist once the model runs.
  void declare_symbols() {
    std::set<Symbol> carried;
    for (const InputSpec& input : program_.inputs) {
      if (input.kind != InputKind::kUserInput) continue;
      if (const auto* tensor = input.argument.get<TensorName>(); tensor != nullptr && is_plain(meta_of(*tensor))) {
        for (const Expr& size : meta_of(*tensor).shape()) {
          for (const Symbol& symbol : symbolic::symbols_of(size)) carried.insert(symbol);
        }
      }
      if (const auto* number = input.argument.get<pt2::SymInt>(); number != nullptr && number->name() != nullptr) {
        for (const Symbol& symbol : symbolic::symbols_of(stored_number(*number->name()))) known_.insert(symbol);
      }
    }
    known_.insert(carried.begin(), carried.end());
    name_symbols();
    for (Symbol symbol : carried) carried_.insert(names_.at(symbol));
    for (const auto& [symbol, range] : program_.ranges) {
      if (known_.contains(symbol)) importer_.graph().declare_symbol(names_.at(symbol), range);
    }
  }

  void name_symbols() {
    const std::vector<SizedInput> inputs = sized_inputs();
    std::set<Symbol> taken;
    for (const auto& [symbol, range] : program_.ranges) taken.insert(symbol);
    for (const SizedInput& input : inputs) {
      for (const Expr& size : input.sizes) {
        for (Symbol symbol : symbolic::symbols_of(size)) taken.erase(symbol);
      }
    }
    names_ = readable_names(inputs, {}, taken);
    for (Symbol symbol : known_) learned_.emplace(symbol, names_.at(symbol));
  }

  std::vector<SizedInput> sized_inputs() const {
    std::vector<SizedInput> inputs;
    for (const InputSpec& input : program_.inputs) {
      if (input.kind != InputKind::kUserInput) continue;
      if (const auto* tensor = input.argument.get<TensorName>()) {
        SizedInput& sized = inputs.emplace_back(SizedInput{tensor->name, {}});
        for (const pt2::SymValue& size : meta_of(*tensor).sizes) sized.sizes.push_back(size.expr);
      } else if (const auto* number = input.argument.get<pt2::SymInt>(); number != nullptr && number->name()) {
        inputs.push_back({*number->name(), {stored_number(*number->name())}, true});
      }
    }
    return inputs;
  }

  const Expr& stored_number(const std::string& name) const { return graph_->sym_ints.find(name)->second.require(); }

  // With Tenon's symbols for sizes that depend on data: PyTorch has symbols of its own for them.
  Expr expr_of(const pt2::SymValue& value) const { return symbolic::substitute(value.require(), learned_); }

  bool is_known(const pt2::SymValue& value) const {
    return value.problem.empty() && std::ranges::all_of(symbolic::symbols_of(value.expr), [&](Symbol symbol) {
             return known_.contains(symbol) || learned_.contains(symbol);
           });
  }

  void learn_sizes(const pt2::TensorMeta& meta, const Value& result) {
    if (meta.sizes.size() != result.shape().size()) return;
    for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
      const pt2::SymValue& size = meta.sizes[dim];
      if (size.expr.kind() == symbolic::Kind::kSymbol && !is_known(size)) {
        learned_.emplace(size.expr.symbol(), result.shape()[dim]);
      }
    }
  }

  // ---- types ----

  const pt2::TensorMeta& meta_of(const TensorName& tensor) const { return graph_->tensors.find(tensor.name)->second; }

  static bool is_plain(const pt2::TensorMeta& meta) {
    return meta.dtype.dtype() && meta.layout == pt2::Layout::kStrided && meta.device.type == "cpu";
  }

  TensorType type_of(const pt2::TensorMeta& meta) const {
    TensorType type{*meta.dtype.dtype(), {}};
    for (const pt2::SymValue& size : meta.sizes) type.shape.push_back(expr_of(size));
    return type;
  }

  // A tensor that cannot be a value of the graph, with what makes it so.
  static std::string shown(const pt2::TensorMeta& meta) {
    if (!meta.dtype.dtype()) return fmt::format("a tensor of {}", meta.dtype.name());
    return fmt::format("a tensor of layout {} on device {}", name_of(meta.layout), meta.device.type);
  }
  static std::string problem_of(const pt2::TensorMeta& meta) { return "it takes " + shown(meta); }

  Bound stand_in(std::string problem) {
    return {importer_.constant(Tensor::zeros(DType::kU8, {0})), std::move(problem)};
  }

  // ---- inputs ----

  void add_input(const InputSpec& input) {
    switch (input.kind) {
      case InputKind::kUserInput:
        return add_user_input(input);
      case InputKind::kConstantInput:
        result_.inputs.push_back({input.target, input.argument});
        return;
      case InputKind::kToken:
        return;
      default:
        return add_weight(input);
    }
  }

  void add_user_input(const InputSpec& input) {
    const std::string* name = name_in(input.argument);
    if (name == nullptr || input.argument.get<pt2::SymFloat>() != nullptr) {
      fail("input {} is neither a tensor nor an integer: export the model with it as a constant",
           to_string(input.argument));
    }
    input_positions_[*name] = result_.inputs.size();
    result_.inputs.push_back({*name, input.argument});
    const auto* tensor = input.argument.get<TensorName>();
    values_[*name] = tensor != nullptr ? tensor_input(*tensor) : number_input(*name);
  }

  Bound tensor_input(const TensorName& tensor) {
    const pt2::TensorMeta& meta = meta_of(tensor);
    if (!is_plain(meta)) {
      Bound bound = stand_in(problem_of(meta));
      bound.kept = tensor.name;
      return bound;
    }
    return {graph_input(tensor.name, type_of(meta))};
  }

  // A size that no tensor argument has comes as the size of a u8 tensor, whose elements are not read.
  Bound number_input(const std::string& name) {
    const Expr size = symbolic::substitute(stored_number(name), learned_);
    result_.inputs.back().size = size;
    const bool is_carried =
        std::ranges::all_of(symbolic::symbols_of(size), [&](Symbol symbol) { return carried_.contains(symbol); });
    if (!is_carried) graph_input(name, {DType::kU8, {size}});
    return {size};
  }

  AtenArg graph_input(const std::string& name, TensorType type) {
    result_.inputs.back().input = input_count_++;
    return importer_.input(name, std::move(type));
  }

  void add_weight(const InputSpec& input) {
    const auto& name = *input.argument.get<TensorName>();
    const pt2::TensorMeta& meta = meta_of(name);
    const pt2::Weight& weight = *program_.find_data(input);
    Bound& bound = values_[name.name];
    weights_[name.name] = weight.tensor;
    if (!weight.tensor.defined()) {
      bound = {AtenSetting{weight.dtype.name()}, problem_of(meta), {}, weight.foreign};
    } else if (input.kind == InputKind::kParameter) {
      bound.value = importer_.parameter(input.target, type_of(meta), weight.tensor);
    } else if (input.kind == InputKind::kBuffer) {
      bound.value = importer_.buffer(input.target, type_of(meta), weight.tensor);
    } else {
      bound.value = importer_.constant(weight.tensor);
    }
  }

  // ---- arguments ----

  AtenArg value(const std::string& name, Reading& reading) const {
    const Bound& bound = values_.find(name)->second;
    if (reading.problem.empty()) reading.problem = bound.problem;
    reading.names.push_back(name);
    return bound.value;
  }
  AtenArg value(const None&, Reading&) const { return None{}; }
  AtenArg value(bool flag, Reading&) const { return flag; }
  AtenArg value(int64_t number, Reading&) const { return number; }
  AtenArg value(double number, Reading&) const { return number; }
  AtenArg value(const TensorName& tensor, Reading& reading) const { return value(tensor.name, reading); }
  AtenArg value(const pt2::OptionalTensor& tensor, Reading& reading) const {
    return tensor ? value(tensor->name, reading) : AtenArg();
  }
  template <class T>
  AtenArg value(const pt2::Sym<T>& number, Reading& reading) const {
    return number.name() != nullptr ? value(*number.name(), reading) : AtenArg(*number.value());
  }
  template <class T>
  AtenArg value(const std::vector<T>& values, Reading& reading) const {
    AtenArg::List list;
    for (const auto& item : values) list.push_back(value(item, reading));
    return list;
  }
  AtenArg value(const std::vector<std::string>& texts, Reading&) const {
    return AtenArg::List(texts.begin(), texts.end());
  }
  AtenArg value(const pt2::NamedValue& entry, Reading& reading) const { return argument(entry.value, reading); }
  AtenArg value(const pt2::TorchDType& dtype, Reading& reading) const {
    if (const auto known = dtype.dtype()) return *known;
    if (reading.problem.empty()) reading.problem = fmt::format("it takes the dtype {}", dtype.name());
    return AtenSetting{dtype.name()};
  }
  AtenArg value(const pt2::TorchDevice& device, Reading&) const { return AtenSetting{to_string(Argument{device})}; }
  AtenArg value(const pt2::Layout& layout, Reading&) const { return AtenSetting{std::string(name_of(layout))}; }
  AtenArg value(const pt2::MemoryFormat& format, Reading&) const { return AtenSetting{std::string(name_of(format))}; }
  // A graph, an operator, a custom object, a complex number.
  template <class Other>
  AtenArg opaque(const Other& other, Reading& reading) const {
    const std::string text = to_string(Argument{other});
    if (reading.problem.empty()) reading.problem = fmt::format("it takes {}", text);
    return AtenSetting{text};
  }
  AtenArg value(const pt2::GraphArgument& graph, Reading& reading) const { return opaque(graph, reading); }
  AtenArg value(const pt2::CustomObject& object, Reading& reading) const { return opaque(object, reading); }
  AtenArg value(const pt2::Operator& op, Reading& reading) const { return opaque(op, reading); }
  AtenArg value(const std::complex<double>& number, Reading& reading) const { return opaque(number, reading); }

  AtenArg argument(const Argument& argument, Reading& reading) const {
    if (const auto* text = argument.get<std::string>()) return *text;
    return std::visit([&](const auto& data) { return value(data, reading); }, argument.data);
  }

  AtenArg argument(const Argument& given) const {
    Reading reading;
    return argument(given, reading);
  }

  Arguments arguments(const pt2::ExportedNode& node) const {
    Arguments result;
    Reading named;
    for (const pt2::NamedArgument& input : node.inputs) {
      if (input.is_named()) {
        result.named.emplace_back(input.name, argument(input.value, named));
      } else {
        result.positional.push_back(argument(input.value, result.reading));
      }
    }
    result.reading.names.insert(result.reading.names.end(), named.names.begin(), named.names.end());
    if (result.reading.problem.empty()) result.reading.problem = named.problem;
    return result;
  }

  // ---- nodes ----

  void add_node(const pt2::ExportedNode& node) {
    const std::string target = registry_name(node.target);
    if (contains(kHints, target)) return;
    if (target == "higher_order.with_effects") return add_node(in_order(node));
    if (contains(kAssertions, target) || contains(kRanges, target) || target == kFactorized) {
      return note_assertions(node, target);
    }
    if (const pt2::NamedArgument* body = inlined_graph(node, target)) return run_inline(node, *body);
    if (!bind_numbers(node)) call(node, target);
    for (const Argument& output : node.outputs) {
      if (const auto* tensor = output.get<TensorName>()) producers_[tensor->name] = &node;
    }
  }

  // The call that the node runs in order with other effects, without the tokens that keep the order.
  static pt2::ExportedNode in_order(const pt2::ExportedNode& node) {
    const auto* op = node.inputs.size() > 1 ? node.inputs[1].value.get<pt2::Operator>() : nullptr;
    if (op == nullptr || node.outputs.empty()) fail_at(node.location, "{} calls no operator", node.target);
    pt2::ExportedNode inner = node;
    inner.target = op->target;
    inner.inputs.erase(inner.inputs.begin(), inner.inputs.begin() + 2);
    inner.outputs.erase(inner.outputs.begin());
    return inner;
  }

  void call(const pt2::ExportedNode& node, const std::string& target) {
    Arguments given = arguments(node);
    AtenRequest request{.target = target,
                        .positional = std::move(given.positional),
                        .named = std::move(given.named),
                        .location = node.location,
                        .results = result_types(node),
                        .returns_list = true,
                        .external_because = std::move(given.reading.problem)};
    if (request.external_because.empty()) request.external_because = foreign_result(node);
    const size_t external_before = importer_.external_count();
    const bool is_on_memory = request.external_because.empty() && counts_places(target);
    const AtenArg result = is_on_memory ? memory_call(node, std::move(request)) : importer_.call(request);
    if (importer_.external_count() > external_before) {
      result_.external.push_back({node, external_arguments(given.reading.names)});
      return bind_external(node, *result.get<AtenArg::List>());
    }
    if (node.outputs.size() == 1) return bind(node, node.outputs[0], result);
    const auto* list = result.get<AtenArg::List>();
    if (node.outputs.empty()) return;
    if (list == nullptr || list->size() < node.outputs.size()) fail_results(node, result);
    for (size_t i = 0; i < node.outputs.size(); ++i) bind(node, node.outputs[i], (*list)[i]);
  }

  // Where the fallback finds the value of each name, in the order of the call's operands.
  std::map<std::string, ExternalArgument> external_arguments(const std::vector<std::string>& names) const {
    std::map<std::string, ExternalArgument> result;
    size_t operands = 0;
    for (const std::string& name : names) {
      const Bound& bound = values_.find(name)->second;
      ExternalArgument value{.kept = bound.kept, .constant = bound.value, .foreign = bound.foreign};
      const auto* const size = bound.value.get<Expr>();
      if (bound.value.get<AtenTensor>() != nullptr || (size != nullptr && !size->is_constant())) {
        value.operand = operands++;
      }
      result.emplace(name, std::move(value));
    }
    return result;
  }

  // Why no entry can give the results; empty if entries can.
  std::string foreign_result(const pt2::ExportedNode& node) const {
    std::string problem;
    for (const Argument& output : node.outputs) {
      for_each_result(output, [&](const Argument& result) {
        const auto* tensor = result.get<TensorName>();
        if (tensor == nullptr || is_plain(meta_of(*tensor)) || !problem.empty()) return;
        problem = "it gives " + shown(meta_of(*tensor));
      });
    }
    return problem;
  }

  // ---- memory ----

  AtenArg memory_call(const pt2::ExportedNode& node, AtenRequest request) {
    const auto* next = node.inputs.empty() ? nullptr : node.inputs[0].value.get<TensorName>();
    if (next == nullptr) fail_at(node.location, "{} has no operand", node.target);
    require_whole(node, *next);
    return call_on_memory(importer_, std::move(request), [&, next]() mutable -> std::optional<TracedTensor> {
      const auto value = next != nullptr ? values_.find(next->name) : values_.end();
      if (value == values_.end()) return std::nullopt;
      TracedTensor tensor = traced(meta_of(*next));
      tensor.tensor = value->second.value;
      const auto producer = producers_.find(next->name);
      const pt2::ExportedNode* call = producer != producers_.end() ? producer->second : nullptr;
      if (call != nullptr) tensor.target = registry_name(call->target);
      next = call != nullptr && !call->inputs.empty() ? call->inputs[0].value.get<TensorName>() : nullptr;
      return tensor;
    });
  }

  TracedTensor traced(const pt2::TensorMeta& meta) const {
    const auto is_readable = [](const pt2::SymValue& value) { return value.problem.empty(); };
    const bool is_known = is_readable(meta.storage_offset) && std::ranges::all_of(meta.sizes, is_readable) &&
                          std::ranges::all_of(meta.strides, is_readable);
    TracedTensor tensor{.sizes = Shape(1)};  // without strides: not known
    if (!is_known) return tensor;
    const auto exprs = [&](std::span<const pt2::SymValue> values) {
      std::vector<Expr> result;
      for (const pt2::SymValue& value : values) result.push_back(expr_of(value));
      return result;
    };
    return {.sizes = exprs(meta.sizes), .strides = exprs(meta.strides), .offset = expr_of(meta.storage_offset)};
  }

  // as_strided counts from the start of memory, and a caller's tensor may begin anywhere in it.
  void require_whole(const pt2::ExportedNode& node, const TensorName& operand) {
    const auto* tensor = values_.find(operand.name)->second.value.get<AtenTensor>();
    const auto leaf = tensor != nullptr ? leaf_names_.find(importer_.base_of(*tensor)) : leaf_names_.end();
    const auto position = leaf != leaf_names_.end() ? input_positions_.find(leaf->second) : input_positions_.end();
    if (position == input_positions_.end()) return;
    if (!lies_in_order(traced(program_.graph.tensors.find(leaf->second)->second))) {
      fail_at(node.location,
              "{} looks at the memory of the argument {}, of which the example is a part: give a contiguous tensor of "
              "its own as the example, or use torch.compile with backend='tenon'",
              node.name, leaf->second);
    }
    result_.inputs[position->second].is_whole = true;
  }

  // Arithmetic on sizes needs no call: the file has the result.
  bool bind_numbers(const pt2::ExportedNode& node) {
    for (const Argument& output : node.outputs) {
      const pt2::SymValue* number = known_number(output);
      if (number == nullptr) return false;
      values_[*number_name(output)] = {expr_of(*number)};
    }
    return !node.outputs.empty();
  }

  const pt2::SymValue* known_number(const Argument& output) const {
    const std::string* name = number_name(output);
    if (name == nullptr || output.get<pt2::SymFloat>() != nullptr) return nullptr;
    const auto& stored = output.get<pt2::SymInt>() != nullptr ? graph_->sym_ints : graph_->sym_bools;
    const pt2::SymValue& number = stored.find(*name)->second;
    return is_known(number) ? &number : nullptr;
  }

  // Nothing if a size cannot be read: then the fallback cannot run the call.
  std::optional<std::vector<std::optional<TensorType>>> result_types(const pt2::ExportedNode& node) const {
    std::vector<std::optional<TensorType>> types;
    bool is_readable = true;
    for (const Argument& output : node.outputs) {
      for_each_result(output, [&](const Argument& result) {
        const auto* tensor = result.get<TensorName>();
        if (tensor == nullptr) {
          types.emplace_back(number_type(result));
          is_readable &= number_name(result) != nullptr;
          return;
        }
        const pt2::TensorMeta& meta = meta_of(*tensor);
        is_readable &= std::ranges::all_of(meta.sizes, [](const auto& size) { return size.problem.empty(); });
        types.push_back(is_plain(meta) && is_readable ? std::optional(type_of(meta)) : std::nullopt);
      });
    }
    return is_readable ? std::optional(std::move(types)) : std::nullopt;
  }

  static TensorType number_type(const Argument& number) {
    if (number.get<pt2::SymFloat>() != nullptr) return {DType::kF64, {}};
    return {number.get<pt2::SymBool>() != nullptr ? DType::kBool : DType::kI64, {}};
  }

  // The results of an external call are in one list, without those that are None. Their types are those of the file.
  void bind_external(const pt2::ExportedNode& node, const AtenArg::List& results) {
    size_t next = 0;
    ExternalCall& call = result_.external.back();
    for (const Argument& output : node.outputs) {
      for_each_result(output, [&](const Argument& argument) {
        const AtenArg& result = results[next++];
        Bound& bound = values_[*name_in(argument)];
        bound = {result};
        call.kept.emplace_back();
        const auto* tensor = argument.get<TensorName>();
        if (tensor == nullptr) return;
        learn_sizes(meta_of(*tensor), result.get<AtenTensor>()->value);
        importer_.set_name(result, tensor->name);
        if (is_plain(meta_of(*tensor))) return;
        bound.problem = problem_of(meta_of(*tensor));
        bound.kept = call.kept.back() = fmt::format("call{}.{}", result_.external.size() - 1, next - 1);
      });
    }
  }

  void bind(const pt2::ExportedNode& node, const Argument& output, const AtenArg& result) {
    if (output.get<None>() != nullptr) return;
    if (const auto* tensor = output.get<TensorName>()) {
      check_type(node, *tensor, result);
      importer_.set_name(result, tensor->name);
      values_[tensor->name] = {result};
    } else if (const auto* tensors = output.get<std::vector<TensorName>>()) {
      const auto* list = result.get<AtenArg::List>();
      if (list == nullptr || list->size() != tensors->size()) fail_results(node, result);
      for (size_t i = 0; i < tensors->size(); ++i) bind(node, {(*tensors)[i]}, (*list)[i]);
    } else if (const std::string* name = number_name(output)) {
      values_[*name] = {result};
    } else {
      fail_results(node, result);
    }
  }

  // Rejects a file that states another type for a result than the op gives.
  void check_type(const pt2::ExportedNode& node, const TensorName& name, const AtenArg& result) {
    const auto* tensor = result.get<AtenTensor>();
    if (tensor == nullptr) fail_results(node, result);
    const pt2::TensorMeta& meta = meta_of(name);
    learn_sizes(meta, tensor->value);
    const TensorType& type = tensor->value.type();
    const auto differ = [&](const pt2::SymValue& stated, const Expr& actual) {
      return stated.problem.empty() && actual.is_constant() && stated.expr.is_constant() && stated.expr != actual;
    };
    bool fits = meta.dtype.dtype() == type.dtype && meta.sizes.size() == type.shape.size();
    for (size_t dim = 0; fits && dim < type.shape.size(); ++dim) fits = !differ(meta.sizes[dim], type.shape[dim]);
    if (!fits && !is_unread(name.name)) {
      fail_at(node.location, "{} gives {}, but the file says that '{}' is {}", node.target, to_string(type), name.name,
              to_string(meta));
    }
  }

  // PyTorch calls a result that nothing reads "<node>_unused_<position>". Of these, its traces are often wrong.
  static bool is_unread(std::string_view name) {
    const size_t end = name.find_last_not_of("0123456789");
    return end != name.npos && end + 1 < name.size() && name.substr(0, end + 1).ends_with("_unused_");
  }

  [[noreturn]] static void fail_results(const pt2::ExportedNode& node, const AtenArg& result) {
    fail_at(node.location, "{} gives {}, which does not fit what the file says: {}", node.target, to_string(result),
            to_string(node));
  }

  // ---- graphs within the graph ----

  // The graph that a higher-order op only calls; null for other ops.
  static const pt2::NamedArgument* inlined_graph(const pt2::ExportedNode& node, const std::string& target) {
    const auto& inputs = node.inputs;
    const auto is_graph = [&](size_t i) { return inputs.size() > i && inputs[i].value.get<pt2::GraphArgument>(); };
    if (target == "higher_order.wrap_with_set_grad_enabled" && is_graph(1)) return &inputs[1];
    if (target != "higher_order.wrap_with_autocast" || !is_graph(4)) return nullptr;
    const bool* is_enabled = inputs[2].value.get<bool>();
    return is_enabled != nullptr && !*is_enabled ? &inputs[4] : nullptr;
  }

  void run_inline(const pt2::ExportedNode& node, const pt2::NamedArgument& body) {
    const pt2::ExportedGraph& graph = *body.value.get<pt2::GraphArgument>()->graph;
    const auto first = static_cast<size_t>(&body - node.inputs.data()) + 1;
    if (node.inputs.size() - first != graph.inputs.size()) {
      fail_at(node.location, "{} gives {} arguments to a graph of {} inputs", node.target, node.inputs.size() - first,
              graph.inputs.size());
    }
    Values inner;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const std::string* name = name_in(graph.inputs[i]);
      if (name == nullptr) continue;
      const Argument& given = node.inputs[first + i].value;
      Reading reading;
      Bound& bound = inner[*name];
      bound.value = argument(given, reading);
      bound.problem = reading.problem;
      if (const std::string* outer = name_in(given)) bound = values_.find(*outer)->second;
    }
    const Values results = run_inner(graph, std::move(inner));
    bind_inlined(node, graph, results);
  }

  // The values of a graph's names, given those of its inputs.
  Values run_inner(const pt2::ExportedGraph& graph, Values inputs) {
    const pt2::ExportedGraph* outer = std::exchange(graph_, &graph);
    Values saved = std::exchange(values_, std::move(inputs));
    Producers producers = std::exchange(producers_, {});
    for (const pt2::ExportedNode& node : graph.nodes) add_node(node);
    graph_ = outer;
    producers_ = std::move(producers);
    return std::exchange(values_, std::move(saved));
  }

  void bind_inlined(const pt2::ExportedNode& node, const pt2::ExportedGraph& graph, const Values& results) {
    size_t next = 0;
    for (const Argument& output : node.outputs) {
      for_each_result(output, [&](const Argument& argument) {
        while (next < graph.outputs.size() && graph.outputs[next].get<None>() != nullptr) ++next;
        const std::string* inner = next < graph.outputs.size() ? name_in(graph.outputs[next++]) : nullptr;
        const std::string* name = name_in(argument);
        if (inner == nullptr || name == nullptr) {
          fail_at(node.location, "{} has other results than the graph that it calls", node.target);
        }
        values_[*name] = results.find(*inner)->second;
      });
    }
  }

  // ---- outputs ----

  const Argument* input_named(const pt2::ExportedNode& node, size_t position, std::string_view name) const {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const pt2::NamedArgument& input = node.inputs[i];
      if (input.name == name || (input.name.empty() && i == position)) return &input.value;
    }
    return nullptr;
  }

  AtenArg computed(std::string target, std::vector<AtenArg> arguments, const pt2::ExportedNode& node) {
    return importer_.call({.target = std::move(target), .positional = std::move(arguments), .location = node.location});
  }

  void note_assertions(const pt2::ExportedNode& node, const std::string& target) {
    if (node.inputs.empty()) fail_at(node.location, "{} has no arguments", node.target);
    const AtenArg checked = argument(node.inputs[0].value);
    if (target == kFactorized) {
      note_factorization(node, checked);
    } else if (contains(kRanges, target)) {
      note_range(node, checked, target.ends_with("_for_size.default"));
    } else {
      const Argument* given = input_named(node, 1, "assert_msg");
      const auto* text = given != nullptr ? given->get<std::string>() : nullptr;
      note_assertion(node, checked,
                     text != nullptr ? with_readable_names(*text, names_) : "an assertion of the model does not hold");
    }
    const std::string* name = node.outputs.empty() ? nullptr : name_in(node.outputs[0]);
    if (name == nullptr) return;
    const Argument* token = input_named(node, node.inputs.size() - 1, "dep_token");
    if (token == nullptr) fail_at(node.location, "{} gives a token, but takes none", node.target);
    values_[*name] = {argument(*token)};
  }

  void note_factorization(const pt2::ExportedNode& node, const AtenArg& info) {
    const Argument* given = input_named(node, 1, "api_name");
    const auto* name = given != nullptr ? given->get<std::string>() : nullptr;
    const AtenArg is_zero = computed("aten.eq.Scalar", {info, 0}, node);
    note_assertion(node, computed("aten.all.default", {is_zero}, node),
                   fmt::format("{}: a matrix is singular, or not what the factorization needs",
                               name != nullptr ? *name : "linalg"));
  }

  void note_range(const pt2::ExportedNode& node, const AtenArg& number, bool is_size) {
    const auto bound = [&](size_t position, std::string_view name) {
      const Argument* given = input_named(node, position, name);
      return given == nullptr ? AtenArg() : argument(*given);
    };
    const AtenArg least = bound(1, "min"), most = bound(2, "max");
    const AtenArg low = least.is_none() && is_size ? AtenArg(0) : least;
    for (const auto& [compare, sign, limit] :
         {std::tuple{"_operator.ge", ">=", low}, std::tuple{"_operator.le", "<=", most}}) {
      if (limit.is_none()) continue;
      note_assertion(node, computed(compare, {number, limit}, node),
                     fmt::format("a number of the model must be {} {}", sign, to_string(limit)));
    }
  }

  void note_assertion(const pt2::ExportedNode& node, const AtenArg& condition, std::string message) {
    const bool* flag = condition.get<bool>();
    const Expr* expr = condition.get<Expr>();
    if ((flag != nullptr && *flag) || (expr != nullptr && expr->is_constant(1))) return;
    assertions_.push_back({condition, {std::move(message), node.location}});
  }

  void add_assertion(const AtenArg& condition, Assertion assertion) {
    const auto* expr = condition.get<Expr>();
    const bool is_guard = expr != nullptr && std::ranges::all_of(symbolic::symbols_of(*expr), [&](Symbol symbol) {
                            return carried_.contains(symbol);
                          });
    if (is_guard) {
      assertion.guard = *expr;
    } else {
      assertion.output = outputs_.size();
      outputs_.push_back(importer_.value_of(condition));
    }
    result_.assertions.push_back(std::move(assertion));
  }

  // All values are taken before the first update: each is what the model computed.
  void add_outputs() {
    for (const OutputSpec& output : program_.outputs) {
      switch (output.kind) {
        case OutputKind::kUserOutput:
        case OutputKind::kLossOutput:
          add_output(output.argument);
          break;
        case OutputKind::kBufferMutation:
          note_update(leaf_of(InputKind::kBuffer, output.target), output.argument);
          break;
        case OutputKind::kParameterMutation:
          note_update(leaf_of(InputKind::kParameter, output.target), output.argument);
          break;
        case OutputKind::kUserInputMutation:
          note_update(plain_value(output.target), output.argument);
          break;
        case OutputKind::kToken:
          break;
        case OutputKind::kGradientToParameter:
        case OutputKind::kGradientToUserInput:
          fail("the program has an output {} of '{}': export the forward pass alone", name_of(output.kind),
               output.target);
      }
    }
    for (const auto& [target, update] : updates_) importer_.update(target, update);
  }

  void add_output(const Argument& argument) {
    ImportedOutput& output = result_.outputs.emplace_back(ImportedOutput{argument});
    const std::string* name = name_in(argument);
    if (name == nullptr) return;
    const Bound& bound = values_.find(*name)->second;
    const std::string& shown = leaf_name(*name);
    if (const auto position = input_positions_.find(shown); position != input_positions_.end()) {
      output.input = position->second;
    } else if (const auto weight = weights_.find(shown); weight != weights_.end() && weight->second.defined()) {
      output.weight = weight->second;
    } else if (bound.foreign) {
      output.foreign = bound.foreign;
    } else {
      if (bound.problem.empty()) output.output = outputs_.size();
      output.kept = bound.kept;
      outputs_.push_back(importer_.value_of(bound.value));  // also of a kept tensor: so that the call is needed
    }
  }

  // A model that writes a tensor in place and returns it returns that tensor: the name of the leaf that it is.
  const std::string& leaf_name(const std::string& name) const {
    const auto written = written_.find(name);
    const AtenArg& result = written != written_.end() ? written->second : values_.find(name)->second.value;
    const auto* tensor = result.get<AtenTensor>();
    const auto leaf = tensor != nullptr ? leaf_names_.find(tensor->variable) : leaf_names_.end();
    return leaf != leaf_names_.end() ? leaf->second : name;
  }

  void note_leaves() {
    for (const auto& [name, bound] : values_) {
      if (const auto* tensor = bound.value.get<AtenTensor>()) leaf_names_[tensor->variable] = name;
    }
  }

  void note_update(const AtenArg& target, const Argument& value) {
    updates_.emplace_back(target, value_now(value));
    written_.emplace(*name_in(value), target);
  }

  AtenArg value_now(const Argument& output) { return importer_.value_of(plain_value(*name_in(output))); }

  AtenArg plain_value(const std::string& name) const {
    Reading reading;
    AtenArg result = value(name, reading);
    if (!reading.problem.empty()) {
      fail("the model writes '{}', a tensor that Tenon cannot hold: {}", name, reading.problem);
    }
    return result;
  }

  AtenArg leaf_of(InputKind kind, const std::string& target) const {
    const auto found = std::ranges::find_if(
        program_.inputs, [&](const InputSpec& input) { return input.kind == kind && input.target == target; });
    return plain_value(*name_in(found->argument));
  }

  const pt2::ExportedProgram& program_;
  Importer importer_;
  const pt2::ExportedGraph* graph_;  // that is being walked
  Values values_;                    // of its names
  Producers producers_;              // of its tensors, but for those of lists
  SymbolNames names_;                // of the file's symbols, in the graph
  std::set<Symbol> carried_;         // those of the graph that the sizes of tensors give
  std::set<Symbol> known_;           // those of the file that tensors and integers give
  symbolic::Substitution learned_;
  std::map<std::string, size_t, std::less<>> input_positions_;  // among the arguments of the model
  std::map<std::string, Tensor, std::less<>> weights_;
  std::map<uint32_t, std::string> leaf_names_;           // of inputs and weights, by the tensors that they are
  std::map<std::string, AtenArg, std::less<>> written_;  // the leaves that hold these values in the end
  std::vector<std::pair<AtenArg, AtenArg>> updates_;     // leaves, and what they hold in the end
  size_t input_count_ = 0;
  std::vector<std::pair<AtenArg, Assertion>> assertions_;
  std::vector<AtenArg> outputs_;
  Imported result_;
};

}  // namespace

std::string registry_name(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (target.starts_with(kOps)) target.remove_prefix(kOps.size());
  return std::string(target);
}

Result<Imported> import_program(const pt2::ExportedProgram& program, ModelMode mode) {
  return attempt([&] { return ProgramImporter(program, mode).run(); });
}

Result<Imported> import_pt2(const std::string& path, std::string_view model, ModelMode mode) {
  return attempt([&] {
    const pt2::ExportedProgram program = read_pt2(path, model).value();
    Result<Imported> imported = import_program(program, mode);
    if (imported.ok() || imported.diagnostic().where.known()) return std::move(imported).value();
    fail_at({path}, "{}", imported.diagnostic().message);
  });
}

}  // namespace tenon
