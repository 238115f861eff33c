#include "capture/importer.h"

#include <fmt/format.h>

#include "graph/dead_code.h"
#include "support/cursor.h"

namespace tenon {
namespace {

// The elements of the view written into what it is a view of, whatever the view does: a view of the positions says
// where each element goes.
Value write_at_places(Builder& b, Value parent, Value view, const std::function<Value(Value)>& look) {
  const Expr count = element_count(parent.shape());
  const Value places = look(b.reshape(b.iota(count), parent.shape()));
  const Expr written = element_count(view.shape());
  const Value result =
      b.op("index_put", {b.reshape(parent, {count}), b.reshape(view, {written}), b.reshape(places, {written})},
           {{"reduce", std::string("set")}});
  return b.reshape(result, parent.shape());
}

// What a write leaves in a tensor: its own dtype and shape stay.
Value fitted(Builder& b, Value value, const TensorType& type) {
  return b.expand(b.cast(value, type.dtype), type.shape);
}

const TensorType kToken{DType::kU8, {0}};

// The arguments that are known at run time only: tensors, and sizes that are not constant.
void collect_operands(Builder& b, const AtenArg& argument, std::vector<Value>& operands) {
  if (const auto* tensor = argument.get<AtenTensor>(); tensor != nullptr && tensor->value) {
    operands.push_back(tensor->value);
  } else if (const auto* size = argument.get<Expr>(); size != nullptr && !size->is_constant()) {
    operands.push_back(b.full(*size, {}, DType::kI64));
  } else if (const auto* list = argument.get<AtenArg::List>()) {
    for (const AtenArg& item : *list) collect_operands(b, item, operands);
  }
}

}  // namespace

std::string to_string(const std::vector<UnsupportedCall>& calls) {
  std::string text;
  for (const UnsupportedCall& call : calls) {
    const std::string where = call.location.known() ? to_string(call.location) + ": " : "";
    text += fmt::format("{}  {}{}: {}", text.empty() ? "" : "\n", where, call.target, call.reason);
  }
  return text;
}

void check_supported(const std::vector<UnsupportedCall>& calls, std::string_view why) {
  if (calls.empty()) return;
  fail("{} call{} of the model cannot be compiled, and {}:\n{}", calls.size(), calls.size() == 1 ? "" : "s", why,
       to_string(calls));
}

// ---- variables ------------------------------------------------------------------------------------------------------

AtenArg Importer::add_variable(Variable variable) {
  variables_.push_back(std::move(variable));
  const Variable& added = variables_.back();
  return AtenTensor{added.value, static_cast<uint32_t>(variables_.size() - 1), added.is_number};
}

AtenArg Importer::add_leaf(ValueRef leaf) { return add_variable({.value = {*graph_, leaf}, .leaf = leaf}); }

uint32_t Importer::root_of(uint32_t variable) const {
  while (variables_[variable].parent != AtenTensor::kNone) variable = variables_[variable].parent;
  return variable;
}

uint32_t Importer::shown(uint32_t variable) const {
  while (variables_[variable].shown_as != AtenTensor::kNone) variable = variables_[variable].shown_as;
  return variable;
}

Value Importer::current(uint32_t id) {
  Variable& variable = variables_[id];
  if (variable.parent == AtenTensor::kNone) return variable.value;
  const uint64_t version = variables_[root_of(id)].version;
  if (variable.version != version) {
    variable.value = variable.look(current(variable.parent));
    variable.version = version;
  }
  return variable.value;
}

void Importer::assign(uint32_t id, Value value) {
  Variable& variable = variables_[id];
  if (variable.parent == AtenTensor::kNone) {
    ++variable.version;
  } else {
    assign(variable.parent, variable.put(current(variable.parent), value));
    variable.version = variables_[root_of(id)].version;
  }
  variable.value = value;
}

std::string Importer::unused_name(std::string name) const {
  while (graph_->leaf_named(name) != nullptr) name += "_";
  return name;
}

AtenArg Importer::input(std::string name, TensorType type) {
  return add_leaf(graph_->add_input(unused_name(std::move(name)), std::move(type)));
}

AtenArg Importer::number(std::string name, DType dtype) {
  const bool is_pythons = dtype == DType::kF64 || dtype == DType::kI64 || dtype == DType::kBool;
  if (!is_pythons) fail("a number is f64, i64 or bool, got {}", name_of(dtype));
  const ValueRef leaf = graph_->add_input(unused_name(std::move(name)), {dtype, {}});
  return add_variable({.value = {*graph_, leaf}, .leaf = leaf, .is_number = true});
}

AtenArg Importer::parameter(std::string name, TensorType type, Tensor data) {
  return add_leaf(graph_->add_parameter(unused_name(std::move(name)), std::move(type), std::move(data)));
}

AtenArg Importer::buffer(std::string name, TensorType type, Tensor data) {
  return add_leaf(graph_->add_buffer(unused_name(std::move(name)), std::move(type), std::move(data)));
}

AtenArg Importer::constant(Tensor data) {
  return add_variable({.value = {*graph_, graph_->add_constant(std::move(data))}});
}

AtenArg Importer::resolved(const AtenArg& argument) {
  if (const auto* tensor = argument.get<AtenTensor>(); tensor != nullptr && tensor->variable != AtenTensor::kNone) {
    const uint32_t variable = shown(tensor->variable);
    return AtenTensor{current(variable), variable, tensor->is_number};
  }
  const auto* list = argument.get<AtenArg::List>();
  if (list == nullptr) return argument;
  AtenArg::List items;
  for (const AtenArg& item : *list) items.push_back(resolved(item));
  return items;
}

AtenArg Importer::as_variables(const AtenArg& result) {
  if (const auto* tensor = result.get<AtenTensor>(); tensor != nullptr && tensor->value) {
    if (tensor->variable != AtenTensor::kNone) return result;
    return add_variable({.value = tensor->value, .is_number = tensor->is_number});
  }
  const auto* list = result.get<AtenArg::List>();
  if (list == nullptr) return result;
  AtenArg::List items;
  for (const AtenArg& item : *list) items.push_back(as_variables(item));
  return items;
}

AtenArg Importer::as_views(const AtenEntry& entry, const std::vector<AtenArg>& arguments, const AtenArg& result,
                           const Location& location) {
  const auto* self = arguments.empty() ? nullptr : arguments[0].get<AtenTensor>();
  if (self == nullptr || self->variable == AtenTensor::kNone) return as_variables(result);
  const uint32_t parent = self->variable;
  const uint64_t version = variables_[root_of(parent)].version;
  const auto call_on = [this, &entry, arguments, location](Value self) {
    std::vector<AtenArg> other = arguments;
    other[0] = self;
    return AtenCall(*this, entry, std::move(other), location);
  };
  const auto view = [&](Value value, std::optional<size_t> position) {
    Variable variable{.value = value, .version = version, .parent = parent};
    variable.look = [call_on, &entry, position](Value self) {
      AtenCall call = call_on(self);
      const AtenArg seen = entry.build(call);
      return (position ? (*seen.get<AtenArg::List>())[*position] : seen).get<AtenTensor>()->value;
    };
    variable.put = [call_on, &entry, position, look = variable.look](Value self, Value written) {
      AtenCall call = call_on(self);
      call.set_written(position.value_or(0));
      return entry.write ? entry.write(call, written) : write_at_places(call, self, written, look);
    };
    return add_variable(std::move(variable));
  };
  if (const auto* tensor = result.get<AtenTensor>()) return view(tensor->value, {});
  const auto* list = result.get<AtenArg::List>();
  check(list != nullptr, "{} is a view that gives no tensor", entry.signature.name);
  AtenArg::List items;
  for (size_t i = 0; i < list->size(); ++i) items.push_back(view((*list)[i].get<AtenTensor>()->value, i));
  return items;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

// An overload that is for inference alone is, in training, another one.
AtenRequest Importer::in_mode(AtenRequest request) const {
  if (mode_ == ModelMode::kTraining && request.target == "aten._native_batch_norm_legit_no_training.default") {
    constexpr size_t kTrainingFlag = 5;  // of the other one's arguments
    request.target = "aten._native_batch_norm_legit.default";
    if (request.positional.size() >= kTrainingFlag) {
      request.positional.insert(request.positional.begin() + kTrainingFlag, AtenArg(true));
    } else {
      request.named.emplace_back("training", AtenArg(true));
    }
  }
  return request;
}

void Importer::apply_mode(const AtenSignature& signature, std::vector<AtenArg>& arguments) const {
  if (mode_ == ModelMode::kAsRecorded) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = signature.parameters[i].name;
    if (name == "train" || name == "training") arguments[i] = AtenArg(mode_ == ModelMode::kTraining);
    if (name == "dropout_p" && mode_ == ModelMode::kInference) arguments[i] = AtenArg(0.0);
  }
}

AtenArg Importer::build(const AtenEntry& entry, bool writes_self, const AtenRequest& request) {
  std::vector<AtenArg> positional;
  for (const AtenArg& argument : request.positional) positional.push_back(resolved(argument));
  std::vector<std::pair<std::string, AtenArg>> named;
  for (const auto& [name, argument] : request.named) named.emplace_back(name, resolved(argument));
  std::vector<AtenArg> arguments = bind_arguments(entry.signature, std::move(positional), std::move(named));
  apply_mode(entry.signature, arguments);

  AtenCall call(*this, entry, arguments, request.location);
  const AtenArg result = entry.build(call);
  for (const auto& [name, value] : call.writes()) {
    const auto* tensor = call.argument(name).get<AtenTensor>();
    if (tensor == nullptr || tensor->variable == AtenTensor::kNone) continue;
    assign(tensor->variable, fitted(call, value, tensor->value.type()));
  }
  const auto* self = arguments.empty() ? nullptr : arguments[0].get<AtenTensor>();
  const bool is_named_copy = entry.signature.name != request.target && !writes_self;  // view_copy, of view
  const bool is_view = entry.is_view && !call.gives_copy() && !is_named_copy;
  if (is_view || !writes_self) {
    const AtenArg given = is_view ? as_views(entry, arguments, result, request.location) : as_variables(result);
    const bool is_self = writes_self || call.replaces_self();
    if (is_self && self->variable != AtenTensor::kNone) {
      variables_[self->variable].shown_as = given.get<AtenTensor>()->variable;
    }
    return given;
  }

  const auto* written = result.get<AtenTensor>();
  if (self == nullptr || written == nullptr) call.decline("it writes something that is not one tensor");
  if (self->variable != AtenTensor::kNone) {
    assign(self->variable, fitted(call, written->value, self->value.type()));
  }
  return AtenTensor{current(self->variable), self->variable};
}

AtenArg Importer::external(const AtenRequest& request, std::string reason) {
  if (!request.results) {
    fail_at(request.location,
            "{} is not supported: {}; it cannot be left to PyTorch, because the types of its results are not known",
            request.target, reason);
  }
  Builder builder(*graph_, request.location);
  std::vector<Value> operands;
  for (const AtenArg& argument : request.positional) collect_operands(builder, resolved(argument), operands);
  for (const auto& [name, argument] : request.named) collect_operands(builder, resolved(argument), operands);
  std::vector<TensorType> types;
  for (const auto& type : *request.results) types.push_back(type.value_or(kToken));
  const bool is_effect = types.empty();
  if (is_effect) types.push_back(kToken);

  const std::vector<Value> results = builder.results("external", operands,
                                                     {{"target", request.target},
                                                      {"call", static_cast<int64_t>(unsupported_.size())},
                                                      {"types", types_to_string(types)}});
  unsupported_.push_back({request.target, std::move(reason), request.location});
  if (is_effect) {
    effects_.push_back(results[0].ref());
    return AtenArg::List{};
  }
  if (results.size() == 1 && !request.returns_list) return as_variables(results[0]);
  return as_variables(AtenArg(results));
}

AtenArg Importer::call(const AtenRequest& recorded) {
  const AtenRequest request = in_mode(recorded);
  if (!request.external_because.empty()) return external(request, request.external_because);
  bool writes_self = false;
  const AtenEntry* entry = aten_table().find(request.target, writes_self);
  if (entry == nullptr) return external(request, "not in the registry");
  try {
    return build(*entry, writes_self, request);
  } catch (const Error& error) {
    return external(request, error.diagnostic().message);
  }
}

// ---- the end --------------------------------------------------------------------------------------------------------

void Importer::set_key(const AtenArg& key) {
  key_ = value_of(key).ref();
  words_used_ = 0;
}

Value Importer::next_key(Builder& builder, const Expr& words) {
  if (!key_) {
    key_name_ = unused_name("random_key");
    key_ = graph_->add_input(key_name_, {DType::kI64, {2}});
  }
  const Value used = builder.full(words_used_, {1}, DType::kI64);
  words_used_ += ceildiv(words, 4);
  return builder.value(key_) + builder.pad(used, {1}, {0});
}

Value Importer::value_of(const AtenArg& argument) {
  const AtenArg now = resolved(argument);
  if (const auto* tensor = now.get<AtenTensor>(); tensor != nullptr && tensor->value) return tensor->value;
  Builder builder(*graph_);
  if (const auto* flag = now.get<bool>()) return builder.integer(*flag ? 1 : 0, DType::kBool);
  if (const auto* number = now.get<double>()) return builder.scalar(*number, DType::kF64);
  if (const auto* number = now.get<Expr>()) return builder.full(*number, {}, DType::kI64);
  fail("{} is neither a tensor nor a number: a model cannot return it", to_string(now));
}

void Importer::set_name(const AtenArg& tensor, const std::string& name) {
  const ValueRef value = value_of(tensor).ref();
  if (is_identifier(name) && graph_->value_name(value).empty()) graph_->set_value_name(value, name);
}

void Importer::update(const AtenArg& target, const AtenArg& value) {
  const auto* tensor = target.get<AtenTensor>();
  check(tensor != nullptr && tensor->variable != AtenTensor::kNone && variables_[tensor->variable].leaf,
        "only an input, parameter or buffer can be updated");
  Builder builder(*graph_);
  assign(tensor->variable, fitted(builder, value_of(value), tensor->value.type()));
}

Graph Importer::finish(const std::vector<AtenArg>& outputs) {
  std::vector<ValueRef> refs;
  for (const AtenArg& output : outputs) refs.push_back(value_of(output).ref());
  refs.insert(refs.end(), effects_.begin(), effects_.end());
  graph_->set_outputs(std::move(refs));
  for (const Variable& variable : variables_) {
    if (variable.leaf && variable.value.ref() != variable.leaf) graph_->add_update(variable.leaf, variable.value.ref());
  }
  return eliminate_dead_code(*graph_);
}

}  // namespace tenon
