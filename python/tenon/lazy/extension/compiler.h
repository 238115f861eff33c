// Tenon's compiler (tenon/aten_compiler.h) as C++: owners, exceptions in place of statuses, PyTorch's dtypes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tenon/aten_compiler.h"

namespace tenon::lazy_device {

// Tenon does not compile a graph: TorchScript runs it.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A bug in Tenon.
struct CompilerMistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A run failed by an error of the model's own, or the user interrupted it.
struct RunFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ---- the table ------------------------------------------------------------------------------------------------------

inline const tenon_aten_compiler*& compiler_slot() {
  static const tenon_aten_compiler* compiler = nullptr;
  return compiler;
}

// Set by init.
inline const tenon_aten_compiler& compiler() { return *compiler_slot(); }

// Calls a function of the table. `call` passes on the place for its text.
template <class Call>
void checked(Call call) {
  static thread_local std::array<char, 1 << 14> text;
  tenon_text error = {text.data(), text.size()};
  const tenon_status status = call(&error);
  if (status == TENON_OK) return;
  if (status == TENON_INTERNAL) throw CompilerMistake(text.data());
  if (status == TENON_RUN_FAILED) throw RunFailed(text.data());
  throw Refused(text.data());
}

// ---- dtypes ---------------------------------------------------------------------------------------------------------

inline constexpr std::pair<at::ScalarType, tenon_dtype> kDTypes[] = {
    {at::kDouble, TENON_F64}, {at::kFloat, TENON_F32}, {at::kHalf, TENON_F16},  {at::kBFloat16, TENON_BF16},
    {at::kLong, TENON_I64},   {at::kInt, TENON_I32},   {at::kShort, TENON_I16}, {at::kChar, TENON_I8},
    {at::kByte, TENON_U8},    {at::kBool, TENON_BOOL},
};

// Nothing for a dtype that Tenon lacks.
inline std::optional<tenon_dtype> dtype_in_tenon(at::ScalarType dtype) {
  for (const auto& [torchs, tenons] : kDTypes) {
    if (torchs == dtype) return tenons;
  }
  return std::nullopt;
}

// "torch.float32"
inline std::string name_of(at::ScalarType dtype) { return "torch." + std::string(c10::getDtypeNames(dtype).first); }

inline at::ScalarType dtype_in_torch(tenon_dtype dtype) {
  for (const auto& [torchs, tenons] : kDTypes) {
    if (tenons == dtype) return torchs;
  }
  throw CompilerMistake("Tenon gave a dtype that PyTorch lacks: " + std::to_string(dtype));
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// Whether a tensor of the CPU is memory as Tenon reads it: aligned, and without a negation that PyTorch delays.
inline bool is_plain_memory(const at::Tensor& tensor) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return !tensor.is_neg() && !tensor.is_conj() && address % tensor.element_size() == 0;
}

// Points into the tensor, whose dtype Tenon has.
inline tenon_tensor described(const at::Tensor& tensor) {
  return {const_cast<void*>(tensor.const_data_ptr()), *dtype_in_tenon(tensor.scalar_type()),
          static_cast<int32_t>(tensor.dim()), tensor.sizes().data(), tensor.strides().data()};
}

inline at::IntArrayRef shape_of(const tenon_tensor& tensor) { return {tensor.shape, static_cast<size_t>(tensor.rank)}; }

// A tensor over memory that somebody else owns, and that lives longer.
inline at::Tensor borrowed(const tenon_tensor& tensor) {
  const at::IntArrayRef strides(tensor.strides, static_cast<size_t>(tensor.rank));
  return at::from_blob(tensor.data, shape_of(tensor), strides, at::dtype(dtype_in_torch(tensor.dtype)));
}

// A tensor that frees the memory.
inline at::Tensor taken(const tenon_owned_tensor& result) {
  const tenon_tensor& tensor = result.tensor;
  const at::IntArrayRef strides(tensor.strides, static_cast<size_t>(tensor.rank));
  return at::from_blob(
      tensor.data, shape_of(tensor), strides,
      [owner = result.owner, release = result.release](void* /*data*/) {
        if (release != nullptr) release(owner);
      },
      at::dtype(dtype_in_torch(tensor.dtype)));
}

// Takes the tensor's memory along.
inline tenon_owned_tensor given_away(at::Tensor tensor) {
  auto* owner = new at::Tensor(std::move(tensor));
  return {described(*owner), owner, [](void* kept) { delete static_cast<at::Tensor*>(kept); }};
}

}  // namespace tenon::lazy_device
