// Kernels of our own for calls that PyTorch's lazy device does not record, or not well.
//
// A tensor in pieces: what stands in for these calls makes views, which no lazy tensor has, so they are recorded piece
// by piece. arange: how many numbers there are depends on its arguments, and those are no part of a graph, so that one
// compiled graph would serve tensors of several sizes; they are computed at once, and are data to the graph.
// empty: PyTorch's own allocates memory, copies it, and gives it to the graph, only to be overwritten: every zeros()
// does so. Here it is a 0 of the graph, which goes away where nobody reads it.
// copy: PyTorch runs it on the CPU, at once. Every write to an element or a slice is one.
// copy_ of a lazy tensor to one of the CPU: PyTorch's functionalization refuses it.
//
// What an optimizer calls for each parameter: PyTorch checks a call that writes in place on its meta device first,
// where these are Python, up to a hundred microseconds each. Its own checks in C++ are as good. For calls that fill a
// tensor with random numbers, the checks in Python refuse every generator.
#pragma once

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add_meta_dispatch.h>
#include <ATen/ops/addcdiv_meta_dispatch.h>
#include <ATen/ops/addcmul_meta_dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/div_meta_dispatch.h>
#include <ATen/ops/expand_copy.h>
#include <ATen/ops/lerp_meta_dispatch.h>
#include <ATen/ops/mul_meta_dispatch.h>
#include <ATen/ops/select_copy.h>
#include <ATen/ops/slice_copy.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/core/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace tenon::lazy_device {

using Pieces = std::vector<at::Tensor>;

inline Pieces pieces_of_sizes(const at::Tensor& self, at::IntArrayRef sizes, int64_t dim) {
  Pieces pieces;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    pieces.push_back(at::slice_copy(self, dim, begin, begin + size, 1));
    begin += size;
  }
  TORCH_CHECK(begin == self.size(dim), "split sizes add up to ", begin, ", but dimension ", dim, " has the size ",
              self.size(dim));
  return pieces;
}

inline Pieces pieces_of_size(const at::Tensor& self, int64_t size, int64_t dim) {
  const int64_t whole = self.size(dim);
  TORCH_CHECK(size > 0 || (size == 0 && whole == 0), "the size of a piece must be positive, got ", size);
  std::vector<int64_t> sizes;
  for (int64_t begin = 0; begin < whole; begin += size) sizes.push_back(std::min(size, whole - begin));
  if (sizes.empty()) sizes.push_back(0);
  return pieces_of_sizes(self, sizes, dim);
}

inline Pieces pieces_of_one(const at::Tensor& self, int64_t dim) {
  Pieces pieces;
  for (int64_t i = 0; i < self.size(dim); ++i) pieces.push_back(at::select_copy(self, dim, i));
  return pieces;
}

inline at::Tensor& arange(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  torch::lazy::GetLtcTensor(out)->SetTensor(at::arange(start, end, step, at::dtype(out.scalar_type())));
  return out;
}

// The values of `source`, with the shape and the dtype of `self`.
inline at::Tensor copy(const at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  const at::Tensor values = source.to(self.scalar_type());
  const at::Tensor recorded = values.is_lazy() ? values : values.to(self.device());
  return recorded.sizes() == self.sizes() ? recorded.clone() : at::expand_copy(recorded, self.sizes());
}

// ---- copy_ to the CPU -----------------------------------------------------------------------------------------------

inline c10::OperatorHandle copy_operator() { return c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""); }

// PyTorch's own kernel, as it was before ours took its place.
inline const c10::SafeKernelFunction& functionalized_copy() {
  static const c10::SafeKernelFunction kernel =
      copy_operator().getComputedKernelForDispatchKey(c10::DispatchKey::Functionalize);
  return kernel;
}

inline void copy_anywhere(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const at::Tensor& self = torch::jit::peek(*stack, 0, 3).toTensor();
  const at::Tensor& source = torch::jit::peek(*stack, 1, 3).toTensor();
  if (self.is_lazy() || !source.is_lazy()) return functionalized_copy().callBoxed(op, keys, stack);
  self.copy_(source.cpu());
  torch::jit::drop(*stack, 2);
}

// ---- from one lazy device to another
// ---------------------------------------------------------------------------------

inline const c10::SafeKernelFunction& recorded_to_copy() {
  static const c10::SafeKernelFunction kernel = c10::Dispatcher::singleton()
                                                    .findSchemaOrThrow("aten::_to_copy", "")
                                                    .getComputedKernelForDispatchKey(c10::DispatchKey::Lazy);
  return kernel;
}

// PyTorch takes the number of a lazy device for that of a CPU. All of them have the CPU's memory.
inline void to_copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  constexpr size_t kArguments = 7;
  c10::IValue& self = torch::jit::peek(*stack, 0, kArguments);
  const c10::IValue& device = torch::jit::peek(*stack, 3, kArguments);
  const bool is_between = self.toTensor().is_lazy() && device.isDevice() && device.toDevice().is_lazy();
  const bool is_moved = is_between && device.toDevice().has_index() && device.toDevice() != self.toTensor().device();
  if (!is_moved) return recorded_to_copy().callBoxed(op, keys, stack);
  self = self.toTensor().cpu();
  op.callBoxed(stack);
}

// ---- new tensors ----------------------------------------------------------------------------------------------------

// Outside of a kernel, a new tensor of the lazy device is one that knows its views.
inline at::Tensor functionalized(const at::Tensor& tensor) {
  const bool is_inside = c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::Functionalize);
  return is_inside ? tensor : at::functionalization::impl::to_functional_tensor(tensor);
}

inline at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin_memory,
                        std::optional<at::MemoryFormat> /*memory_format*/) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided && !pin_memory.value_or(false),
              "the lazy device has dense tensors only, and no pinned memory");
  const at::ScalarType type = dtype.value_or(c10::get_default_dtype_as_scalartype());
  const torch::lazy::BackendDevice place = torch::lazy::atenDeviceToBackendDevice(device.value_or(at::kLazy));
  const torch::lazy::Value zeros =
      torch::lazy::LazyGraphExecutor::Get()->GetIrValueForExpandedScalar(0, torch::lazy::Shape(type, size), place);
  return functionalized(torch::lazy::CreateAtenFromLtcTensor(torch::lazy::LazyTensor::Create(zeros, place)));
}

inline torch::Library library_of_kernels() {
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Lazy, __FILE__, __LINE__);
  for (const char* overload : {"split_copy.Tensor", "unsafe_split.Tensor"}) library.impl(overload, &pieces_of_size);
  for (const char* overload : {"split_with_sizes_copy", "unsafe_split_with_sizes"}) {
    library.impl(overload, &pieces_of_sizes);
  }
  library.impl("unbind_copy.int", &pieces_of_one);
  library.impl("arange.start_out", &arange);
  library.impl("empty.memory_format", &empty);
  library.impl("copy", &copy);
  recorded_to_copy();
  library.impl("_to_copy", torch::CppFunction::makeFromBoxedFunction<&to_copy>());
  return library;
}

inline torch::Library library_of_copies() {
  functionalized_copy();
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Functionalize, __FILE__, __LINE__);
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&copy_anywhere>());
  return library;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

using Generator = std::optional<at::Generator>;

inline at::Tensor& check_exponential(at::Tensor& self, double rate, Generator /*generator*/) {
  TORCH_CHECK(rate > 0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
  return self;
}

inline at::Tensor& check_geometric(at::Tensor& self, double p, Generator /*generator*/) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return self;
}

inline at::Tensor& check_cauchy(at::Tensor& self, double /*median*/, double sigma, Generator /*generator*/) {
  TORCH_CHECK(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  return self;
}

inline at::Tensor& check_log_normal(at::Tensor& self, double /*mean*/, double std, Generator /*generator*/) {
  TORCH_CHECK(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  return self;
}

inline torch::Library library_of_checks() {
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
  library.impl("add_.Tensor", &at::meta::add_);
  library.impl("addcdiv_", &at::meta::addcdiv_);
  library.impl("addcmul_", &at::meta::addcmul_);
  library.impl("mul_.Tensor", &at::meta::mul_);
  library.impl("div_.Tensor", static_cast<at::Tensor& (*)(at::Tensor&, const at::Tensor&)>(&at::meta::div_));
  using Lerp = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Scalar&);
  library.impl("lerp_.Scalar", static_cast<Lerp*>(&at::meta::lerp_));
  library.impl("exponential_", &check_exponential);
  library.impl("geometric_", &check_geometric);
  library.impl("cauchy_", &check_cauchy);
  library.impl("log_normal_", &check_log_normal);
  return library;
}

// For the rest of the process.
inline void register_kernels() {
  static const torch::Library kernels = library_of_kernels(), copies = library_of_copies(),
                              checks = library_of_checks();
}

}  // namespace tenon::lazy_device
