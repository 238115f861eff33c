// A graph that grows call by call in Tenon's compiler.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <deque>
#include <variant>

#include "compiler.h"

namespace tenon::lazy_device {

using c10::IValue;

// A tensor of the import, or a number that a run gives.
struct ImportedValue {
  int64_t number = 0;    // how the compiler calls it
  int64_t variable = 0;  // equal for tensors that are one variable of the model
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape = {};  // -1: depends on data
  bool is_number = false;
};

// What a value of a recorded graph is while the graph is translated: a constant, a tensor, or a list.
struct GraphItem {
  using List = std::vector<GraphItem>;
  std::variant<IValue, ImportedValue, List> data;

  GraphItem() = default;
  GraphItem(IValue constant) : data(std::move(constant)) {}     // NOLINT(google-explicit-constructor): all of these
  GraphItem(ImportedValue tensor) : data(std::move(tensor)) {}  // NOLINT
  GraphItem(List list) : data(std::move(list)) {}               // NOLINT

  const IValue* constant() const { return std::get_if<IValue>(&data); }
  const ImportedValue* tensor() const { return std::get_if<ImportedValue>(&data); }
  const List* list() const { return std::get_if<List>(&data); }
};

// Calls `visit` with each tensor of an item, in order.
template <class Visit>
void for_each_tensor(const GraphItem& item, const Visit& visit) {
  if (const auto* tensor = item.tensor()) visit(*tensor);
  if (const auto* list = item.list()) {
    for (const GraphItem& each : *list) for_each_tensor(each, visit);
  }
}

// "aten.add.Tensor"
inline std::string target_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const std::string packet = name.name.substr(name.name.find("::") + 2);
  return "aten." + packet + "." + (name.overload_name.empty() ? "default" : name.overload_name);
}

// ---- arguments in the compiler's form -------------------------------------------------------------------------------

inline bool takes_dtype(const c10::Argument& parameter) {
  c10::TypePtr type = parameter.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// Owns what the arguments point to.
class CallArguments {
 public:
  tenon_aten_arg argument(const GraphItem& item, bool is_dtype) {
    if (const auto* tensor = item.tensor()) return {TENON_ARG_TENSOR, tensor->number, 0, nullptr, nullptr};
    if (const auto* list = item.list()) return list_of(*list, is_dtype);
    return constant(*item.constant(), is_dtype);
  }

  // The text of a dtype, a device, ...: what Tenon does not know, and declines where it matters.
  tenon_aten_arg setting(std::string text) {
    return {TENON_ARG_SETTING, 0, 0, texts_.emplace_back(std::move(text)).c_str(), nullptr};
  }

 private:
  tenon_aten_arg list_of(const GraphItem::List& list, bool is_dtype) {
    std::vector<tenon_aten_arg> items;
    items.reserve(list.size());
    for (const GraphItem& item : list) items.push_back(argument(item, is_dtype));
    const auto& kept = lists_.emplace_back(std::move(items));
    return {TENON_ARG_LIST, static_cast<int64_t>(kept.size()), 0, nullptr, kept.data()};
  }

  // TorchScript has an integer for a dtype.
  tenon_aten_arg dtype(at::ScalarType dtype) {
    if (const auto known = dtype_in_tenon(dtype)) return {TENON_ARG_DTYPE, *known, 0, nullptr, nullptr};
    return setting(name_of(dtype));
  }

  tenon_aten_arg constant(const IValue& value, bool is_dtype) {
    if (value.isNone()) return {TENON_ARG_NONE, 0, 0, nullptr, nullptr};
    if (value.isBool()) return {TENON_ARG_BOOL, value.toBool() ? 1 : 0, 0, nullptr, nullptr};
    if (value.isInt() && is_dtype) return dtype(static_cast<at::ScalarType>(value.toInt()));
    if (value.isInt()) return {TENON_ARG_INTEGER, value.toInt(), 0, nullptr, nullptr};
    if (value.isDouble()) return {TENON_ARG_REAL, 0, value.toDouble(), nullptr, nullptr};
    if (value.isString()) return {TENON_ARG_TEXT, 0, 0, texts_.emplace_back(value.toStringRef()).c_str(), nullptr};
    if (!value.isList()) return setting(value.tagKind());
    GraphItem::List items;
    for (const IValue& item : value.toListRef()) items.emplace_back(item);
    return list_of(items, is_dtype);
  }

  std::deque<std::string> texts_;
  std::deque<std::vector<tenon_aten_arg>> lists_;
};

// ---- the import -----------------------------------------------------------------------------------------------------

struct TensorTypeOf {
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

class GraphImport {
 public:
  GraphImport() {
    tenon_import* import = nullptr;
    checked([&](tenon_text* error) { return compiler().import_new(&import, error); });
    import_.reset(import);
  }

  // Its dtype must be Tenon's.
  ImportedValue input(at::ScalarType dtype, const std::vector<int64_t>& shape, bool is_number) {
    const tenon_tensor type = {nullptr, *dtype_in_tenon(dtype), static_cast<int32_t>(shape.size()), shape.data(),
                               nullptr};
    int64_t number = 0;
    checked([&](tenon_text* error) {
      return compiler().import_input(import_.get(), &type, is_number ? 1 : 0, &number, error);
    });
    return known(number);
  }

  ImportedValue constant(const at::Tensor& tensor) {
    if (!dtype_in_tenon(tensor.scalar_type())) {
      throw Refused(
          c10::str("Tenon has no dtype ", name_of(tensor.scalar_type()), ": a constant of the graph needs it"));
    }
    const at::Tensor plain = tensor.contiguous().resolve_neg();
    const tenon_tensor data = described(plain);
    int64_t number = 0;
    checked([&](tenon_text* error) { return compiler().import_constant(import_.get(), &data, &number, error); });
    return known(number);
  }

  void set_key(const ImportedValue& key) {
    checked([&](tenon_text* error) { return compiler().import_key(import_.get(), key.number, error); });
  }

  // Throws Refused where Tenon cannot compile the call.
  GraphItem call(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments) {
    return send(op, nullptr, arguments, {}, "");
  }

  // The fallback runs the call, whose operands are the `key`, if there is one, and the tensors among the arguments.
  // Gives a tensor for each result.
  GraphItem::List external_call(const c10::OperatorHandle& op, const ImportedValue* key,
                                const std::vector<GraphItem>& arguments, const std::vector<TensorTypeOf>& results,
                                const std::string& because) {
    return *send(op, key, arguments, results, because).list();
  }

  tenon_import* get() const { return import_.get(); }

 private:
  struct Free {
    void operator()(tenon_import* import) const { compiler().import_free(import); }
  };

  GraphItem send(const c10::OperatorHandle& op, const ImportedValue* key, const std::vector<GraphItem>& arguments,
                 const std::vector<TensorTypeOf>& results, const std::string& because) {
    CallArguments made;
    const auto& parameters = op.schema().arguments();
    const std::string target = target_of(op);
    std::vector<tenon_aten_arg> positional;
    std::vector<tenon_named_arg> named;
    if (key != nullptr) positional.push_back(made.argument(*key, false));
    for (size_t i = 0; i < arguments.size(); ++i) {
      const tenon_aten_arg argument = made.argument(arguments[i], takes_dtype(parameters[i]));
      if (parameters[i].kwarg_only()) {
        named.push_back({parameters[i].name().c_str(), argument});
      } else {
        positional.push_back(argument);
      }
    }
    std::vector<tenon_tensor> types;
    for (const TensorTypeOf& result : results) {
      types.push_back({nullptr, *dtype_in_tenon(result.dtype), static_cast<int32_t>(result.shape.size()),
                       result.shape.data(), nullptr});
    }
    const tenon_aten_call call = {sizeof(tenon_aten_call),
                                  target.c_str(),
                                  positional.data(),
                                  positional.size(),
                                  named.data(),
                                  named.size(),
                                  types.data(),
                                  types.size(),
                                  because.empty() ? nullptr : because.c_str()};
    const tenon_aten_arg* result = nullptr;
    checked([&](tenon_text* error) { return compiler().import_call(import_.get(), &call, &result, error); });
    return item_of(*result);
  }

  GraphItem item_of(const tenon_aten_arg& arg) {
    switch (arg.kind) {
      case TENON_ARG_TENSOR:
        return known(arg.integer);
      case TENON_ARG_BOOL:
        return IValue(arg.integer != 0);
      case TENON_ARG_INTEGER:
        return IValue(arg.integer);
      case TENON_ARG_REAL:
        return IValue(arg.real);
      case TENON_ARG_LIST:
        break;
      default:
        return IValue();
    }
    GraphItem::List items;
    for (int64_t i = 0; i < arg.integer; ++i) items.push_back(item_of(arg.items[i]));
    return items;
  }

  ImportedValue known(int64_t number) {
    tenon_imported_tensor facts = {sizeof(tenon_imported_tensor), TENON_F32, 0, nullptr, 0, 0};
    checked([&](tenon_text* error) { return compiler().import_tensor(import_.get(), number, &facts, error); });
    return {number,
            facts.variable,
            dtype_in_torch(facts.dtype),
            {facts.shape, facts.shape + facts.rank},
            facts.is_number != 0};
  }

  std::unique_ptr<tenon_import, Free> import_;
};

}  // namespace tenon::lazy_device
