// Calls that Tenon lacks, run by PyTorch's own kernels through its dispatcher.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <mutex>

#include "graph_import.h"
#include "metrics.h"

namespace tenon::lazy_device {

// ---- arguments of a boxed call --------------------------------------------------------------------------------------

inline const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
}

// A number for a parameter that is a tensor is promoted as a number of Python's.
inline IValue number_for(const at::Scalar& number, const c10::Type& type) {
  if (without_optional(type).kind() != c10::TypeKind::TensorType) return number;
  at::Tensor tensor = at::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// An item as an argument of this type. `tensor` gives the value of a tensor or of a run-time number.
template <class OfTensor>
IValue filled(const GraphItem& item, const c10::Type& type, const OfTensor& value_of) {
  if (const auto* tensor = item.tensor()) return value_of(*tensor, type);
  const c10::Type& plain = without_optional(type);
  const bool is_list = plain.kind() == c10::TypeKind::ListType;
  const auto* list = item.list();
  if (list == nullptr) {
    const IValue& constant = *item.constant();
    if (constant.isDevice()) return c10::Device(at::kCPU);
    if (!is_list || constant.isNone() || constant.isList()) return constant;
  }
  if (!is_list) throw Refused("a list is given for a parameter of type " + type.str());
  c10::impl::GenericList items(plain.containedType(0));
  const auto add = [&](const GraphItem& each) { items.push_back(filled(each, *plain.containedType(0), value_of)); };
  if (list == nullptr)
    add(item);  // one number for a list of them
  else
    std::ranges::for_each(*list, add);
  return items;
}

template <class OfTensor>
torch::jit::Stack filled_stack(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments,
                               const OfTensor& value_of) {
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack.push_back(filled(arguments[i], *op.schema().arguments()[i].type(), value_of));
  }
  return stack;
}

// The tensors that a call gave, in order; those that are not there are undefined.
inline std::vector<at::Tensor> tensors_among(const torch::jit::Stack& results) {
  std::vector<at::Tensor> tensors;
  for (const IValue& result : results) {
    if (result.isTensor())
      tensors.push_back(result.toTensor());
    else if (result.isTensorList())
      for (const at::Tensor& each : result.toTensorVector()) tensors.push_back(each);
    else if (result.isNone())
      tensors.emplace_back();
    else
      throw Refused("a call gives " + result.tagKind() + ", which is no tensor");
  }
  return tensors;
}

// ---- what a call gives ----------------------------------------------------------------------------------------------

inline at::Scalar any_number(at::ScalarType dtype) {
  if (dtype == at::kBool) return true;
  return c10::isFloatingType(dtype) ? at::Scalar(1.0) : at::Scalar(1);
}

// The results without data; a dtype and a shape are known of each that is defined. Throws Refused where PyTorch cannot
// say it: a size depends on data, or no meta kernel is there (many are written in Python).
inline std::vector<at::Tensor> results_on_meta(const c10::OperatorHandle& op, const std::vector<GraphItem>& arguments) {
  try {
    torch::jit::Stack stack = filled_stack(op, arguments, [](const ImportedValue& value, const c10::Type& type) {
      if (value.is_number) return number_for(any_number(value.dtype), type);
      return IValue(at::empty(value.shape, at::dtype(value.dtype).device(at::kMeta)));
    });
    op.callBoxed(stack);
    return tensors_among(stack);
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& error) {  // of PyTorch, or of Python
    const std::string text = error.what();
    throw Refused(target_of(op) +
                  " is not supported, and PyTorch does not say what it gives: " + text.substr(0, text.find('\n')));
  }
}

// ---- a call ---------------------------------------------------------------------------------------------------------

// While one is there, PyTorch's generator has this seed. Its own state comes back.
class SeededGenerator {
 public:
  explicit SeededGenerator(uint64_t seed) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  SeededGenerator(const SeededGenerator&) = delete;
  SeededGenerator& operator=(const SeededGenerator&) = delete;
  ~SeededGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor state_;
};

struct FallbackCall {
  c10::OperatorHandle op;
  std::vector<GraphItem> arguments;
  bool is_seeded;                      // operand 0 is a key of random numbers
  std::vector<size_t> wanted;          // which of its results the graph has: those that are defined
  std::vector<at::ScalarType> dtypes;  // of them in the graph; the CPU's may differ (a batch norm in bf16)

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& operands) const {
    count_fallback(c10::toString(op.operator_name()));
    size_t next = is_seeded ? 1 : 0;
    torch::jit::Stack stack = filled_stack(op, arguments, [&](const ImportedValue& value, const c10::Type& type) {
      const at::Tensor& operand = operands.at(next++);
      return value.is_number ? number_for(operand.item(), type) : IValue(operand);
    });
    std::optional<SeededGenerator> seeded;
    if (is_seeded) seeded.emplace(static_cast<uint64_t>(*operands[0].const_data_ptr<int64_t>()));
    op.callBoxed(stack);
    const std::vector<at::Tensor> given = tensors_among(stack);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < wanted.size(); ++i) {
      results.push_back(own_memory(given.at(wanted[i]).to(dtypes[i]).resolve_neg(), operands));
    }
    return results;
  }

 private:
  // The program reuses the memory of operands after the call.
  static at::Tensor own_memory(const at::Tensor& result, const std::vector<at::Tensor>& operands) {
    const bool is_borrowed = std::ranges::any_of(operands, [&](auto& operand) { return result.is_alias_of(operand); });
    return is_borrowed || !is_plain_memory(result) ? result.clone() : result;
  }
};

using FallbackCalls = std::vector<FallbackCall>;

// A tenon_fallback; `calls` are FallbackCalls.
inline tenon_status run_fallback(void* calls, int64_t call, const tenon_tensor* operands, uint64_t operand_count,
                                 tenon_owned_tensor* results, uint64_t result_count, tenon_text* error) {
  try {
    std::vector<at::Tensor> given;
    for (uint64_t i = 0; i < operand_count; ++i) given.push_back(borrowed(operands[i]));
    const std::vector<at::Tensor> made = static_cast<FallbackCalls*>(calls)->at(static_cast<size_t>(call)).run(given);
    TORCH_CHECK(made.size() == result_count, "a call gave ", made.size(), " results in place of ", result_count);
    for (uint64_t i = 0; i < result_count; ++i) results[i] = given_away(made[i]);
    return TENON_OK;
  } catch (const c10::Error& failure) {
    return tenon_write_text(error, TENON_RUN_FAILED, failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return tenon_write_text(error, TENON_RUN_FAILED, failure.what());
  }
}

}  // namespace tenon::lazy_device
