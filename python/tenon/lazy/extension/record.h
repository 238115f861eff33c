// Records calls that PyTorch's lazy device has no kernel of: it would run each on the CPU at once, and so cut the
// graph.
//
// A call of any overload that is functional becomes one node, which is lowered to the same call. Tensors and numbers
// are its operands, so that a new number is no new graph; everything else is part of the node. The types of the results
// are those that PyTorch's meta device gives, or Tenon's registry. Where neither knows, for they depend on data, the
// call runs on the CPU.
//
// A call that draws random numbers has one more operand: a key, drawn when the call is recorded, from the generator
// that the call names or from PyTorch's own. The node is a function of its operands then, however often and whenever it
// runs.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/lazy/core/ir_builder.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/core/metrics.h>
#include <torch/csrc/lazy/core/tensor.h>
#include <torch/csrc/lazy/core/tensor_util.h>
#include <torch/csrc/lazy/ts_backend/ts_node.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "graph_import.h"

namespace tenon::lazy_device {

using c10::IValue;
using torch::jit::Stack;
using torch::lazy::BackendDevice;
using torch::lazy::hash_t;
using torch::lazy::Shape;

// ---- a call ---------------------------------------------------------------------------------------------------------

struct RecordedArgument {
  IValue constant;                              // where there are no operands
  std::vector<std::optional<size_t>> operands;  // one, or those of a list, which may lack some
  bool is_list = false;
  c10::TypePtr item_type = nullptr;  // of a list: Tensor or Tensor?
  bool is_number = false;
};

struct Call {
  const c10::OperatorHandle* op;
  std::vector<RecordedArgument> arguments;
  std::vector<torch::lazy::Value> operands;
  hash_t hash;                          // of all but the operands
  std::optional<at::Generator> source;  // of random numbers, where the caller named it
  std::optional<size_t> key;            // the operand that random numbers are made of
};

// Nothing for what no node can hold.
inline std::optional<hash_t> hash_of(const IValue& value) {
  using torch::lazy::Hash;
  if (value.isNone()) return Hash(torch::lazy::kNullOpt);
  if (value.isBool()) return Hash(value.toBool());
  if (value.isInt()) return Hash(value.toInt());
  if (value.isDouble()) return Hash(value.toDouble());
  if (value.isString()) return Hash(value.toStringRef());
  if (value.isDevice()) return Hash(value.toDevice());
  if (value.isIntList()) return Hash(value.toIntVector());
  if (value.isDoubleList()) return Hash(value.toDoubleVector());
  if (value.isBoolList()) return Hash(std::vector<bool>(value.toBoolList().vec()));
  return std::nullopt;
}

inline bool is_number_type(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::NumberType) return true;
  return type.kind() == c10::TypeKind::OptionalType && is_number_type(*type.containedType(0));
}

// The order of a norm says what is computed, as an attribute does.
inline bool takes_numbers(const c10::Argument& parameter) {
  return is_number_type(*parameter.type()) && parameter.name() != "ord" && parameter.name() != "p";
}

// A tensor of another device has no part in a graph, unless it is a Python number.
inline bool is_recordable(const IValue& value) {
  if (value.isTensorList() || value.isOptionalTensorList()) {
    return std::ranges::all_of(value.toListRef(), is_recordable);
  }
  if (!value.isTensor() || !value.toTensor().defined()) return true;
  return value.toTensor().unsafeGetTensorImpl()->is_wrapped_number() || torch::lazy::TryGetLtcTensor(value.toTensor());
}

// Takes the arguments of a call apart. Gives nothing where one cannot be recorded.
class Reader {
 public:
  Reader(const c10::OperatorHandle& op, const BackendDevice& device)
      : device_(device), call_{&op, {}, {}, torch::lazy::Hash(c10::toString(op.operator_name())), {}, {}} {}

  std::optional<Call> read(c10::ArrayRef<IValue> values) && {
    const auto& parameters = call_.op->schema().arguments();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_recordable(values[i]) || !add(values[i], parameters[i])) return std::nullopt;
    }
    return std::move(call_);
  }

 private:
  bool add(const IValue& value, const c10::Argument& parameter) {
    RecordedArgument argument;
    if (value.isGenerator()) {
      call_.source = value.toGenerator();
      return add(IValue(), parameter);
    }
    if (value.isTensor()) {
      argument.operands.push_back(operand_of(value.toTensor()));
      if (!argument.operands[0]) return add(IValue(), parameter);
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
      argument.is_list = true;
      argument.item_type = parameter.type()->containedType(0);
      for (const IValue& item : value.toListRef()) {
        argument.operands.push_back(item.isTensor() ? operand_of(item.toTensor()) : std::nullopt);
      }
    } else if (takes_numbers(parameter) && (value.isDouble() || value.isInt() || value.isBool())) {
      argument.is_number = true;
      argument.operands.push_back(add_operand(
          torch::lazy::LazyGraphExecutor::Get()->GetIrValueForScalarFromCodegen(value.toScalar(), device_)));
    } else if (!hash_of(value)) {
      return false;
    }
    argument.constant = argument.operands.empty() && !argument.is_list ? value : IValue();
    mix(*hash_of(argument.constant));
    mix(torch::lazy::Hash(argument.is_list));
    for (const std::optional<size_t>& operand : argument.operands) mix(torch::lazy::Hash(operand.has_value()));
    call_.arguments.push_back(std::move(argument));
    return true;
  }

  void mix(hash_t hash) { call_.hash = torch::lazy::HashCombine(call_.hash, hash); }

  std::optional<size_t> operand_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return std::nullopt;
    return add_operand(torch::lazy::GetLtcTensorOrCreateForWrappedNumber(tensor, device_)->GetIrValue());
  }

  size_t add_operand(torch::lazy::Value value) {
    call_.operands.push_back(std::move(value));
    return call_.operands.size() - 1;
  }

  const BackendDevice& device_;
  Call call_;
};

// ---- random numbers -------------------------------------------------------------------------------------------------

inline bool is_random(const c10::OperatorHandle& op) { return op.hasTag(at::Tag::nondeterministic_seeded); }

// (seed, 0): a seed that the generator gives.
inline at::Tensor draw_key(const std::optional<at::Generator>& source) {
  auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(source, at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(generator->mutex_);
  at::Tensor key = at::zeros({2}, at::kLong);
  *key.mutable_data_ptr<int64_t>() = static_cast<int64_t>(generator->random64() >> 1);
  return key;
}

inline void add_key(Call& call, const BackendDevice& device) {
  call.key = call.operands.size();
  const at::Tensor key = draw_key(call.source);
  call.operands.emplace_back(torch::lazy::MakeDeviceData(torch::lazy::TensorToDataHandle(key, device)));
}

// ---- its node -------------------------------------------------------------------------------------------------------

class RecordedCall : public torch::lazy::TsNode {
 public:
  RecordedCall(Call call, std::vector<Shape> shapes, bool gives_list)
      : TsNode(torch::lazy::OpKind(c10::Symbol::fromQualString(call.op->operator_name().name)), call.operands,
               std::move(shapes), shapes.size(), call.hash),
        arguments_(std::move(call.arguments)),
        key_(call.key),
        gives_list_(gives_list) {}

  torch::lazy::TSOpVector Lower(std::shared_ptr<torch::jit::GraphFunction> /*function*/,
                                torch::lazy::TSLoweringContext* context) const override {
    torch::jit::Graph& graph = *context->graph();
    std::vector<torch::jit::Value*> inputs;
    for (const RecordedArgument& argument : arguments_) inputs.push_back(lowered(argument, graph, *context));
    torch::jit::Node* call = graph.insertNode(graph.create(op().op, inputs, gives_list_ ? 1 : num_outputs()));
    if (key_) {  // TorchScript has no argument for it: translate.h reads the attribute
      const torch::jit::Value* key = context->GetOutputOp(operand(*key_));
      call->i_(c10::Symbol::attr("key"), static_cast<int64_t>(key->unique()));
    }
    if (gives_list_) {
      call->output()->setType(c10::ListType::ofTensors());
      call = graph.insertNode(graph.createListUnpack(call->output(), num_outputs()));
    }
    return call->outputs().vec();
  }

 private:
  torch::jit::Value* lowered(const RecordedArgument& argument, torch::jit::Graph& graph,
                             torch::lazy::TSLoweringContext& context) const {
    const auto value_of = [&](const std::optional<size_t>& operand_number) {
      return operand_number ? context.GetOutputOp(operand(*operand_number)) : graph.insertConstant(IValue());
    };
    if (!argument.is_list && argument.operands.empty()) return graph.insertConstant(argument.constant);
    if (argument.is_number) return as_number(value_of(argument.operands[0]), graph);
    if (!argument.is_list) return value_of(argument.operands[0]);
    std::vector<torch::jit::Value*> items;
    for (const std::optional<size_t>& item : argument.operands) items.push_back(value_of(item));
    return graph.insertNode(graph.createList(argument.item_type, items))->output();
  }

  // PyTorch lowers 0 and 1 to constant tensors.
  static torch::jit::Value* as_number(torch::jit::Value* value, torch::jit::Graph& graph) {
    if (value->type()->kind() != c10::TypeKind::TensorType) return value;
    torch::jit::Node* conversion = graph.insertNode(graph.create(c10::aten::ScalarImplicit, {value}, 1));
    return conversion->output()->setType(c10::NumberType::get());
  }

  std::vector<RecordedArgument> arguments_;
  std::optional<size_t> key_;
  bool gives_list_;
};

// ---- the types of its results ---------------------------------------------------------------------------------------

inline IValue on_meta(const IValue& value) {
  if (value.isGenerator()) return IValue();
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    const bool stays = !tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number();
    return stays ? value : IValue(at::empty(tensor.sizes(), tensor.options().device(at::kMeta)));
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_meta(tensor).toTensor());
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const IValue& item : value.toListRef()) list.push_back(on_meta(item).toOptional<at::Tensor>());
    return list;
  }
  return value;
}

// An argument of a call whose tensors have types, and no data.
inline GraphItem typed_item(GraphImport& import, const IValue& value) {
  if (value.isGenerator()) return IValue();
  if (value.isTensorList() || value.isOptionalTensorList()) {
    GraphItem::List items;
    for (const IValue& item : value.toListRef()) items.push_back(typed_item(import, item));
    return items;
  }
  if (!value.isTensor()) return value;
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.defined()) return IValue();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return IValue(tensor.item());
  if (!dtype_in_tenon(tensor.scalar_type())) throw Refused("Tenon has no dtype " + name_of(tensor.scalar_type()));
  return import.input(tensor.scalar_type(), tensor.sizes().vec(), /*is_number=*/false);
}

// What Tenon's registry gives: a quarter of PyTorch's own rules are written in Python, which may not be there.
inline std::optional<std::vector<Shape>> shapes_by_registry(const c10::OperatorHandle& op,
                                                            c10::ArrayRef<IValue> values) {
  try {
    GraphImport import;
    std::vector<GraphItem> items;
    for (const IValue& value : values) items.push_back(typed_item(import, value));
    const GraphItem result = import.call(op, items);
    std::vector<Shape> shapes;
    for (const GraphItem& each : result.list() != nullptr ? *result.list() : GraphItem::List{result}) {
      const auto* tensor = each.tensor();
      if (tensor == nullptr || std::ranges::find(tensor->shape, -1) != tensor->shape.end()) return std::nullopt;
      shapes.emplace_back(tensor->dtype, tensor->shape);
    }
    return shapes;
  } catch (const Refused&) {
    return std::nullopt;
  }
}

// Nothing where neither PyTorch nor Tenon can say it without the data.
inline std::optional<std::vector<Shape>> result_shapes(const c10::OperatorHandle& op, c10::ArrayRef<IValue> values) {
  Stack stack;
  for (const IValue& value : values) stack.push_back(on_meta(value));
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return shapes_by_registry(op, values);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  std::vector<Shape> shapes;
  const bool gives_list = stack.size() == 1 && stack[0].isTensorList();
  for (const IValue& result : gives_list ? stack[0].toListRef() : c10::ArrayRef<IValue>(stack)) {
    if (!result.isTensor() || !result.toTensor().defined()) return std::nullopt;
    shapes.emplace_back(result.toTensor().scalar_type(), result.toTensor().sizes());
  }
  return shapes;
}

// Of what was recorded before, by everything that they depend on.
class KnownShapes {
 public:
  std::optional<std::vector<Shape>> find(const Call& call, c10::ArrayRef<IValue> values) {
    hash_t key = call.hash;
    for (const torch::lazy::Value& operand : call.operands)
      key = torch::lazy::HashCombine(key, operand.shape().hash(/*bakeInSizes=*/true));
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = shapes_.find(key); known != shapes_.end()) return known->second;
    }
    std::optional<std::vector<Shape>> found = result_shapes(*call.op, values);  // which may run Python
    const std::lock_guard lock(mutex_);
    if (shapes_.size() >= kMost) shapes_.clear();
    return shapes_[key] = std::move(found);
  }

 private:
  static constexpr size_t kMost = 1 << 14;
  std::mutex mutex_;
  std::unordered_map<hash_t, std::optional<std::vector<Shape>>, torch::lazy::HashReducer> shapes_;
};

// ---- recording ------------------------------------------------------------------------------------------------------

// PyTorch's own function of a list calls itself for ever.
inline std::optional<BackendDevice> device_of(c10::ArrayRef<IValue> values) {
  for (const IValue& value : values) {
    std::optional<BackendDevice> device;
    if (value.isTensor() && value.toTensor().defined()) device = torch::lazy::GetBackendDevice(value.toTensor());
    if (value.isTensorList() || value.isOptionalTensorList()) device = device_of(value.toListRef());
    if (device) return device;
  }
  return std::nullopt;
}

// What the lazy device does with a call that it does not record; torch::lazy's counters have it by name.
inline void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  torch::lazy::Counter(c10::toString(op.operator_name())).AddValue(1);
  at::native::cpu_fallback(op, stack);
}

inline std::vector<at::Tensor> recorded(Call call, const std::vector<Shape>& shapes, bool gives_list,
                                        const BackendDevice& device) {
  const auto node = std::make_shared<RecordedCall>(std::move(call), shapes, gives_list);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < shapes.size(); ++i) {
    results.push_back(
        torch::lazy::CreateAtenFromLtcTensor(torch::lazy::LazyTensor::Create(torch::lazy::Value(node, i), device)));
  }
  return results;
}

inline void record(const c10::OperatorHandle& op, Stack* stack) {
  static KnownShapes known_shapes;
  const size_t count = op.schema().arguments().size();
  const c10::ArrayRef<IValue> values(stack->data() + stack->size() - count, count);
  const std::optional<BackendDevice> device = device_of(values);
  if (!device) return run_on_cpu(op, stack);
  std::optional<Call> call = Reader(op, *device).read(values);
  if (!call) return run_on_cpu(op, stack);
  const std::optional<std::vector<Shape>> shapes = known_shapes.find(*call, values);
  if (!shapes) return run_on_cpu(op, stack);
  if (is_random(op)) {
    const bool is_complex = std::ranges::any_of(*shapes, [](auto& s) { return c10::isComplexType(s.scalar_type()); });
    if (is_complex) return run_on_cpu(op, stack);  // TorchScript would run it, and knows no key
    add_key(*call, *device);
  }
  const bool gives_list = op.schema().returns()[0].type()->kind() == c10::TypeKind::ListType;
  std::vector<at::Tensor> results = recorded(*std::move(call), *shapes, gives_list, *device);
  torch::jit::drop(*stack, count);
  if (gives_list) return torch::jit::push(*stack, std::move(results));
  for (at::Tensor& result : results) torch::jit::push(*stack, std::move(result));
}

// From now on, calls of these operators on the lazy device are recorded.
inline void record_calls_of(const std::vector<c10::OperatorHandle>& operators) {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Lazy, __FILE__, __LINE__);
  for (const c10::OperatorHandle& op : operators) {
    library.impl(c10::toString(op.operator_name()).c_str(), torch::CppFunction::makeFromBoxedFunction<&record>());
  }
}

}  // namespace tenon::lazy_device
