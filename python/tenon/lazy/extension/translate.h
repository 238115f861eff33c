// Translates a TorchScript graph of ATen calls, which PyTorch's lazy device records, with Tenon's registry.
//
// A graph of the lazy device is a straight line: calls, constants, and lists of both. Its inputs are tensors, and
// numbers that may differ in each run: float, int or bool in TorchScript, passed as tensors of rank 0 (f64, i64, bool).
//
// PyTorch's lazy tensors record the 0.5 in `loss * 0.5` as a tensor of rank 0. If the values of a graph have the dtype
// that PyTorch expects (a TensorType with a dtype), it tells numbers and tensors apart.
#pragma once

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_map>

#include "fallback.h"

namespace tenon::lazy_device {

// Where a result of the graph comes from: an output of the program, or an input as it is.
struct ResultSource {
  bool is_input;
  size_t number;
};

// A graph in the compiler's hands.
struct TranslatedGraph {
  GraphImport import;
  std::vector<ImportedValue> outputs;  // of the program
  std::vector<ResultSource> results;   // of the graph
  FallbackCalls calls;
};

class Translator {
 public:
  // `types` are the types of a run's values, including numbers; `sources` says which of them each input of the graph
  // is, because some are the same. Throws Refused for a graph that only PyTorch can run: with complex numbers, or with
  // control flow.
  static TranslatedGraph translate(const torch::jit::Graph& graph, const std::vector<TensorTypeOf>& types,
                                   const std::vector<size_t>& sources) {
    Translator self;
    std::unordered_map<size_t, ImportedValue> added;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const torch::jit::Value* value = graph.inputs()[i];
      const size_t source = sources.at(i);
      if (!added.contains(source)) added.emplace(source, self.add_input(*value, types.at(source), source));
      self.items_[value->unique()] = added.at(source);
    }
    for (const torch::jit::Node* node : graph.nodes()) self.add_node(*node);
    self.finish(graph);
    return std::move(self.translated_);
  }

 private:
  using Results = std::vector<GraphItem>;
  using Outputs = at::ArrayRef<const torch::jit::Value*>;

  // ---- inputs and constants ----

  ImportedValue add_input(const torch::jit::Value& value, const TensorTypeOf& type, size_t position) {
    if (!dtype_in_tenon(type.dtype)) {
      throw Refused(
          c10::str("Tenon has no dtype ", name_of(type.dtype), ": input ", position, " of the graph needs it"));
    }
    const c10::TypeKind kind = value.type()->kind();
    const bool is_number = kind == c10::TypeKind::FloatType || kind == c10::TypeKind::IntType ||
                           kind == c10::TypeKind::BoolType || kind == c10::TypeKind::NumberType;
    ImportedValue input = translated_.import.input(type.dtype, type.shape, is_number);
    if (!is_number) leaves_.emplace(input.variable, std::nullopt);
    input_of_.emplace(input.variable, position);
    return input;
  }

  GraphItem constant(const IValue& value) {
    if (value.isTensor()) {
      const at::Tensor tensor = value.toTensor().detach();
      ImportedValue added = translated_.import.constant(tensor);
      leaves_.emplace(added.variable, tensor.dim() == 0 ? std::optional(tensor.item()) : std::nullopt);
      return added;
    }
    if (!value.isTensorList()) return value;
    GraphItem::List items;
    for (const IValue& item : value.toListRef()) items.push_back(constant(item));
    return items;
  }

  // ---- nodes ----

  void add_node(const torch::jit::Node& node) {
    const Results results = results_of(node);
    TORCH_CHECK(results.size() == node.outputs().size(), node.kind().toQualString(), " gives ", results.size(),
                " results, and the graph has ", node.outputs().size());
    for (size_t i = 0; i < results.size(); ++i) items_[node.outputs()[i]->unique()] = results[i];
  }

  Results results_of(const torch::jit::Node& node) {
    const c10::Symbol kind = node.kind();
    std::vector<GraphItem> given;
    for (const torch::jit::Value* value : node.inputs()) given.push_back(items_.at(value->unique()));
    if (kind == c10::prim::Constant) return {constant(*torch::jit::toIValue(node.output()))};
    if (kind == c10::prim::ListConstruct || kind == c10::prim::TupleConstruct) return Results{GraphItem(given)};
    if (kind == c10::prim::ListUnpack || kind == c10::prim::TupleUnpack) return *given[0].list();
    if (kind == c10::aten::ScalarImplicit || kind == c10::aten::FloatImplicit || kind == c10::aten::IntImplicit) {
      return {as_number(given[0])};
    }
    if (kind.is_aten()) return aten(node, given);
    throw Refused(c10::str(kind.toQualString(), " is not translated: a graph of the lazy device has ATen calls only"));
  }

  GraphItem as_number(const GraphItem& item) {
    const auto* tensor = item.tensor();
    if (tensor == nullptr) return item;
    if (const auto leaf = leaves_.find(tensor->variable); leaf != leaves_.end() && leaf->second) {
      return IValue(*leaf->second);
    }
    static const c10::OperatorHandle item_of = c10::Dispatcher::singleton().findSchemaOrThrow("aten::item", "");
    return translated_.import.call(item_of, {item});
  }

  // ---- calls ----

  static c10::OperatorHandle operator_of(const torch::jit::Node& node) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    const c10::OperatorName name =
        schema != nullptr ? schema->operator_name() : c10::OperatorName(node.kind().toQualString(), "");
    const auto found = c10::Dispatcher::singleton().findSchema(name);
    if (!found) throw Refused(c10::toString(name) + " is an operator of TorchScript alone");
    return *found;
  }

  Results aten(const torch::jit::Node& node, const std::vector<GraphItem>& arguments) {
    const c10::OperatorHandle op = operator_of(node);
    if (op.schema().arguments().size() != arguments.size()) {
      throw Refused(c10::str(op.operator_name(), " takes ", op.schema().arguments().size(),
                             " arguments, and the graph "
                             "gives ",
                             arguments.size()));
    }
    set_key(node);
    const Outputs declared = node.outputs();
    GraphItem result = called(op, arguments, declared);
    if (!agree(declared, result)) result = as_declared(op, arguments, declared, std::move(result));
    return declared.size() > 1 ? *result.list() : Results{result};
  }

  // A call that draws random numbers has a key (record.h).
  void set_key(const torch::jit::Node& node) {
    static const c10::Symbol name = c10::Symbol::attr("key");
    key_.reset();
    if (!node.hasAttribute(name)) return;
    key_ = *items_.at(static_cast<size_t>(node.i(name))).tensor();
    translated_.import.set_key(*key_);
  }

  GraphItem called(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments, Outputs declared) {
    try {
      return translated_.import.call(op, arguments);
    } catch (const Refused&) {
      return external(op, arguments, declared, "");
    }
  }

  // A result of another dtype than the graph's may be due to numbers; or an entry is wrong; or the graph is, and the
  // result stays.
  GraphItem as_declared(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments, Outputs declared,
                        GraphItem result) {
    if (std::optional<GraphItem> of_numbers = called_with_numbers(op, arguments, declared)) return *of_numbers;
    std::vector<at::ScalarType> given, expected;
    for_each_tensor(result, [&](const ImportedValue& tensor) { given.push_back(tensor.dtype); });
    for (const TensorTypeOf& type : result_types(op, arguments, declared).types) expected.push_back(type.dtype);
    if (given == expected) return result;
    return external(op, arguments, declared,
                    c10::str("its entry gives ", names_of(given), ", where PyTorch has ", names_of(expected)));
  }

  // The call with those leaves as numbers that were numbers in the user's code, if that explains the dtype.
  std::optional<GraphItem> called_with_numbers(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments,
                                               Outputs declared) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!may_be_number(arguments[i])) continue;
      std::vector<GraphItem> others = arguments;
      others[i] = as_number(arguments[i]);
      try {
        GraphItem result = translated_.import.call(op, others);
        if (agree(declared, result)) return result;
      } catch (const Refused&) {  // then another argument may be the number
      }
    }
    return std::nullopt;
  }

  bool may_be_number(const GraphItem& item) const {
    const auto* tensor = item.tensor();
    if (tensor == nullptr || !leaves_.contains(tensor->variable) || !tensor->shape.empty()) return false;
    return tensor->dtype == at::kDouble || tensor->dtype == at::kLong || tensor->dtype == at::kBool;
  }

  // ---- what the registry lacks ----

  // The types of the results that are defined, and which of the results they are.
  struct ResultTypes {
    std::vector<TensorTypeOf> types;
    std::vector<size_t> wanted;
    size_t count;
  };

  static void add_type(ResultTypes& results, size_t position, at::ScalarType dtype, at::IntArrayRef shape) {
    results.types.push_back({dtype, shape.vec()});
    results.wanted.push_back(position);
  }

  // What PyTorch's meta device says; else what was recorded.
  static ResultTypes result_types(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments,
                                  Outputs declared) {
    try {
      const std::vector<at::Tensor> results = results_on_meta(op, arguments);
      ResultTypes types = {{}, {}, results.size()};
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i].defined()) add_type(types, i, results[i].scalar_type(), results[i].sizes());
      }
      return types;
    } catch (const Refused&) {
      ResultTypes types = {{}, {}, declared.size()};
      for (size_t i = 0; i < declared.size(); ++i) {
        const auto type = declared[i]->type()->cast<c10::TensorType>();
        const auto shape = type ? type->sizes().concrete_sizes() : std::nullopt;
        if (!shape || !type->scalarType()) throw;
        add_type(types, i, *type->scalarType(), *shape);
      }
      return types;
    }
  }

  // Leaves the call to the fallback. `because` says why, where the registry has an entry.
  GraphItem external(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments, Outputs declared,
                     std::string because) {
    const ResultTypes results = result_types(op, arguments, declared);
    std::vector<at::ScalarType> dtypes;
    for (const TensorTypeOf& type : results.types) {
      dtypes.push_back(type.dtype);
      if (dtype_in_tenon(type.dtype)) continue;
      throw Refused(c10::str(target_of(op), " is not supported, and gives what Tenon lacks: ", name_of(type.dtype)));
    }
    if (key_ && because.empty()) because = "its entry does not take these arguments";
    const GraphItem::List given =
        translated_.import.external_call(op, key_ ? &*key_ : nullptr, arguments, results.types, because);
    translated_.calls.push_back({op, arguments, key_.has_value(), results.wanted, dtypes});
    GraphItem::List all(results.count);
    for (size_t i = 0; i < given.size(); ++i) all[results.wanted[i]] = given[i];
    const auto& returns = op.schema().returns();
    const bool is_one = returns.size() == 1 && returns[0].type()->kind() != c10::TypeKind::ListType;
    return is_one ? all.at(0) : GraphItem(all);
  }

  // ---- dtypes ----

  // Whether the results have the dtypes of the graph, where it has them.
  static bool agree(Outputs declared, const GraphItem& result) {
    const GraphItem::List single = {result};
    const GraphItem::List& results = result.list() == nullptr ? single : *result.list();
    for (size_t i = 0; i < std::min(declared.size(), results.size()); ++i) {
      const auto type = declared[i]->type()->cast<c10::TensorType>();
      const auto* tensor = results[i].tensor();
      if (type && type->scalarType() && tensor != nullptr && *type->scalarType() != tensor->dtype) return false;
    }
    return true;
  }

  static std::string names_of(const std::vector<at::ScalarType>& dtypes) {
    std::string names;
    for (at::ScalarType dtype : dtypes) names += (names.empty() ? "" : ", ") + name_of(dtype);
    return names;
  }

  // ---- the end ----

  void finish(const torch::jit::Graph& graph) {
    for (const torch::jit::Value* value : graph.outputs()) {
      const auto* tensor = items_.at(value->unique()).tensor();
      if (tensor == nullptr) throw Refused("a result of the graph is no tensor");
      if (const auto input = input_of_.find(tensor->variable); input != input_of_.end()) {
        translated_.results.push_back({true, input->second});
        continue;
      }
      translated_.results.push_back({false, translated_.outputs.size()});
      translated_.outputs.push_back(*tensor);
    }
  }

  TranslatedGraph translated_;
  std::unordered_map<size_t, GraphItem> items_;                    // by the number of the TorchScript value
  std::unordered_map<int64_t, size_t> input_of_;                   // the position of an input, by its variable
  std::unordered_map<int64_t, std::optional<at::Scalar>> leaves_;  // by variable: the value of a constant of rank 0
  std::optional<ImportedValue> key_;  // the key of random numbers of the translated call, if it has one
};

}  // namespace tenon::lazy_device
