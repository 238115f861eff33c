// Which calls are recorded in addition to those of PyTorch's lazy device, or instead of them.
#pragma once

#include <torch/library.h>

#include "compiler.h"
#include "record.h"

namespace tenon::lazy_device {

// PyTorch's own kernels of these calls are wrong, with every backend: pixels are read from unwritten memory, a
// selection must have a dimension, gradients of integers are integers. Pooling in three dimensions runs on the CPU.
inline constexpr const char* kInPlaceOfPytorchs[] = {
    "index_select",  "max_pool3d_with_indices", "max_pool3d_with_indices_backward", "native_dropout_backward",
    "pixel_shuffle", "pixel_unshuffle",
};

// kernels.h has copy; a resize returns a tensor of other memory.
inline bool is_elsewhere(const std::string& name) { return name == "aten::copy" || name == "aten::resize"; }

// Whether the call takes and returns only tensors, on their device.
inline bool is_function(const c10::FunctionSchema& schema) {
  const auto is_pure = [](const c10::Argument& value) { return value.alias_info() == nullptr; };
  const auto mentions = [](const c10::Argument& value, const char* kind) {
    return value.real_type()->str().find(kind) != std::string::npos;
  };
  const auto& given = schema.arguments();
  const auto& results = schema.returns();
  if (!std::ranges::all_of(given, is_pure) || !std::ranges::all_of(results, is_pure) || results.empty()) return false;
  const bool gives_list = results.size() == 1 && *results[0].type() == *c10::ListType::ofTensors();
  const bool gives_tensors =
      std::ranges::all_of(results, [](auto& result) { return result.type()->kind() == c10::TypeKind::TensorType; });
  return (gives_list || gives_tensors) && std::ranges::any_of(given, [&](auto& x) { return mentions(x, "Tensor"); }) &&
         std::ranges::none_of(given, [&](auto& x) { return mentions(x, "Device"); });
}

inline bool is_left_to_us(const c10::OperatorHandle& op) {
  const bool has_kernel = op.hasKernelForDispatchKey(c10::DispatchKey::Lazy) && !is_random(op);
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) || has_kernel) {
    return false;  // PyTorch records its parts, or the call itself
  }
  return !is_elsewhere(op.operator_name().name) && is_function(op.schema());
}

// "aten.add.Tensor", "aten.sin.default" in the dispatcher; nothing if this PyTorch lacks it, or if only TorchScript has
// it.
inline std::optional<c10::OperatorHandle> operator_named(const std::string& target) {
  const size_t begin = target.find('.') + 1, dot = target.find('.', begin);
  const std::string overload = dot == std::string::npos ? "default" : target.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchema(
      {"aten::" + target.substr(begin, dot - begin), overload == "default" ? "" : overload});
}

// Those of the registry's overloads that the lazy device would run one by one on the CPU, although a graph can hold
// them. Also those whose random numbers PyTorch would draw when the graph runs.
inline std::vector<c10::OperatorHandle> operators_to_record(const std::vector<std::string>& registry) {
  std::vector<c10::OperatorHandle> found;
  for (const std::string& target : registry) {
    if (const auto op = operator_named(target); op && is_left_to_us(*op)) found.push_back(*op);
  }
  for (const char* name : kInPlaceOfPytorchs) {
    if (const auto op = operator_named(std::string("aten.") + name)) found.push_back(*op);
  }
  return found;
}

inline std::vector<std::string> overloads_of_registry() {
  std::vector<std::string> overloads;
  compiler().each_overload(&overloads, [](void* all, const char* overload) {
    static_cast<std::vector<std::string>*>(all)->emplace_back(overload);
  });
  return overloads;
}

// For the rest of the process.
inline void record_registry() { record_calls_of(operators_to_record(overloads_of_registry())); }

// ---- composites -----------------------------------------------------------------------------------------------------

inline bool needs_gradient(const IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && value.toTensor().requires_grad();
  return (value.isTensorList() || value.isOptionalTensorList()) &&
         std::ranges::any_of(value.toListRef(), needs_gradient);
}

// By its parts, if a gradient may be needed; otherwise the whole is one call of the graph.
inline void by_its_parts(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::ArrayRef<IValue> values(stack->data() + stack->size() - count, count);
  if (at::GradMode::is_enabled() && std::ranges::any_of(values, needs_gradient)) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  const at::AutoDispatchBelowAutograd below;
  op.callBoxed(stack);
}

// PyTorch differentiates a composite through its parts, unless a device has a kernel for it. The lazy device has such
// kernels, without a gradient (`std`, `logdet`, `svd`). This makes them composites again, for the rest of the process.
inline void decompose_composites() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradLazy, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::Lazy)) {
    const auto op = dispatcher.findSchema(name);
    const bool is_composite = op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (!is_composite || op->schema().is_mutable() || !name.name.starts_with("aten::")) continue;
    library.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&by_its_parts>());
  }
}

}  // namespace tenon::lazy_device
