#include "capture/import_pt2.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "capture/exported_assertions.h"
#include "capture/exported_sizes.h"
#include "capture/exported_values.h"
#include "capture/traced_memory.h"

namespace tenon {
namespace {

using pt2::Argument;
using pt2::InputKind;
using pt2::InputSpec;
using pt2::OutputKind;
using pt2::OutputSpec;
using pt2::TensorName;

constexpr std::string_view kHint = "torch._C._set_grad_enabled";  // it concerns only a trace

class ProgramImporter {
 public:
  ProgramImporter(const pt2::ExportedProgram& program, ModelMode mode)
      : program_(program), importer_("main", mode), sizes_(program), graph_(&program.graph) {}

  Imported run() {
    sizes_.declare_in(importer_.graph());
    for (const InputSpec& input : program_.inputs) add_input(input);
    note_leaves();
    for (const pt2::ExportedNode& node : graph_->nodes) add_node(node);
    add_outputs();
    for (const auto& [condition, assertion] : assertions_.all()) add_assertion(condition, assertion);
    result_.graph = importer_.finish(outputs_);
    result_.signature = program_.signature;
    result_.unsupported = importer_.unsupported();
    result_.key_input = importer_.key_input();
    return std::move(result_);
  }

 private:
  using Producers = std::map<std::string, const pt2::ExportedNode*, std::less<>>;

  // ---- types ----

  const pt2::TensorMeta& meta_of(const TensorName& tensor) const { return graph_->tensors.find(tensor.name)->second; }

  TensorType type_of(const pt2::TensorMeta& meta) const {
    TensorType type{*meta.dtype.dtype(), {}};
    for (const pt2::SymValue& size : meta.sizes) type.shape.push_back(sizes_.expr_of(size));
    return type;
  }

  // A tensor that cannot be a value of the graph, with what makes it so.
  static std::string shown(const pt2::TensorMeta& meta) {
    if (!meta.dtype.dtype()) return fmt::format("a tensor of {}", meta.dtype.name());
    return fmt::format("a tensor of layout {} on device {}", name_of(meta.layout), meta.device.type);
  }
  static std::string problem_of(const pt2::TensorMeta& meta) { return "it takes " + shown(meta); }

  ExportedValue stand_in(std::string problem) {
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

  ExportedValue tensor_input(const TensorName& tensor) {
    const pt2::TensorMeta& meta = meta_of(tensor);
    if (!is_plain(meta)) {
      ExportedValue bound = stand_in(problem_of(meta));
      bound.kept = tensor.name;
      return bound;
    }
    return {graph_input(tensor.name, type_of(meta))};
  }

  // A size that no tensor argument has comes as the size of a u8 tensor, whose elements are not read.
  ExportedValue number_input(const std::string& name) {
    const Expr size = sizes_.number(name);
    result_.inputs.back().size = size;
    if (!sizes_.is_carried(size)) graph_input(name, {DType::kU8, {size}});
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
    ExportedValue& bound = values_[name.name];
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

  // ---- nodes ----

  void add_node(const pt2::ExportedNode& node) {
    const std::string target = registry_name(node.target);
    if (target == kHint) return;
    if (target == "higher_order.with_effects") return add_node(in_order(node));
    if (ExportedAssertions::is_assertion(target)) return note_assertion(node, target);
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
    ReadArguments given = read_arguments(values_, node);
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
      const ExportedValue& bound = values_.find(name)->second;
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
      for (const pt2::SymValue& value : values) result.push_back(sizes_.expr_of(value));
      return result;
    };
    return {.sizes = exprs(meta.sizes), .strides = exprs(meta.strides), .offset = sizes_.expr_of(meta.storage_offset)};
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
      values_[*number_name(output)] = {sizes_.expr_of(*number)};
    }
    return !node.outputs.empty();
  }

  const pt2::SymValue* known_number(const Argument& output) const {
    const std::string* name = number_name(output);
    if (name == nullptr || output.get<pt2::SymFloat>() != nullptr) return nullptr;
    const auto& stored = output.get<pt2::SymInt>() != nullptr ? graph_->sym_ints : graph_->sym_bools;
    const pt2::SymValue& number = stored.find(*name)->second;
    return sizes_.is_known(number) ? &number : nullptr;
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
        ExportedValue& bound = values_[*name_in(argument)];
        bound = {result};
        call.kept.emplace_back();
        const auto* tensor = argument.get<TensorName>();
        if (tensor == nullptr) return;
        sizes_.learn(meta_of(*tensor), result.get<AtenTensor>()->value);
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
    sizes_.learn(meta, tensor->value);
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
    ExportedValues inner;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const std::string* name = name_in(graph.inputs[i]);
      if (name == nullptr) continue;
      const Argument& given = node.inputs[first + i].value;
      ArgumentReading reading;
      ExportedValue& bound = inner[*name];
      bound.value = read_argument(values_, given, reading);
      bound.problem = reading.problem;
      if (const std::string* outer = name_in(given)) bound = values_.find(*outer)->second;
    }
    const ExportedValues results = run_inner(graph, std::move(inner));
    bind_inlined(node, graph, results);
  }

  // The values of a graph's names, given those of its inputs.
  ExportedValues run_inner(const pt2::ExportedGraph& graph, ExportedValues inputs) {
    const pt2::ExportedGraph* outer = std::exchange(graph_, &graph);
    ExportedValues saved = std::exchange(values_, std::move(inputs));
    Producers producers = std::exchange(producers_, {});
    for (const pt2::ExportedNode& node : graph.nodes) add_node(node);
    graph_ = outer;
    producers_ = std::move(producers);
    return std::exchange(values_, std::move(saved));
  }

  void bind_inlined(const pt2::ExportedNode& node, const pt2::ExportedGraph& graph, const ExportedValues& results) {
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

  void note_assertion(const pt2::ExportedNode& node, const std::string& target) {
    if (std::optional<AtenArg> token = assertions_.note(node, target, values_))
      values_[*name_in(node.outputs[0])] = {*std::move(token)};
  }

  void add_assertion(const AtenArg& condition, Assertion assertion) {
    const auto* expr = condition.get<Expr>();
    if (expr != nullptr && sizes_.is_carried(*expr)) {
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
    const ExportedValue& bound = values_.find(*name)->second;
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
    const ExportedValue& found = values_.find(name)->second;
    if (!found.problem.empty()) {
      fail("the model writes '{}', a tensor that Tenon cannot hold: {}", name, found.problem);
    }
    return found.value;
  }

  AtenArg leaf_of(InputKind kind, const std::string& target) const {
    const auto found = std::ranges::find_if(
        program_.inputs, [&](const InputSpec& input) { return input.kind == kind && input.target == target; });
    return plain_value(*name_in(found->argument));
  }

  const pt2::ExportedProgram& program_;
  Importer importer_;
  ExportedSizes sizes_;
  ExportedAssertions assertions_{importer_, sizes_.names()};
  const pt2::ExportedGraph* graph_;                             // that is being walked
  ExportedValues values_;                                       // of its names
  Producers producers_;                                         // of its tensors, but for those of lists
  std::map<std::string, size_t, std::less<>> input_positions_;  // among the arguments of the model
  std::map<std::string, Tensor, std::less<>> weights_;
  std::map<uint32_t, std::string> leaf_names_;           // of inputs and weights, by the tensors that they are
  std::map<std::string, AtenArg, std::less<>> written_;  // the leaves that hold these values in the end
  std::vector<std::pair<AtenArg, AtenArg>> updates_;     // leaves, and what they hold in the end
  size_t input_count_ = 0;
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
