#include "graph/tensor.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "graph/type.h"

namespace tenon::python {
namespace {

using nb::dlpack::dtype_code;

struct DLPackType {
  DType dtype;
  dtype_code code;
};

constexpr DLPackType kDLPackTypes[] = {{DType::kF64, dtype_code::Float}, {DType::kF32, dtype_code::Float},
                                       {DType::kF16, dtype_code::Float}, {DType::kBF16, dtype_code::Bfloat},
                                       {DType::kI64, dtype_code::Int},   {DType::kI32, dtype_code::Int},
                                       {DType::kI16, dtype_code::Int},   {DType::kI8, dtype_code::Int},
                                       {DType::kU8, dtype_code::UInt},   {DType::kBool, dtype_code::Bool}};

nb::dlpack::dtype to_dlpack(DType dtype) {
  for (const DLPackType& entry : kDLPackTypes) {
    if (entry.dtype != dtype) continue;
    return {static_cast<uint8_t>(entry.code), static_cast<uint8_t>(size_of(dtype) * 8), 1};
  }
  check(false, "{} has no DLPack type", name_of(dtype));
  return {};
}

std::optional<DType> from_dlpack(nb::dlpack::dtype dtype) {
  for (const DLPackType& entry : kDLPackTypes) {
    if (to_dlpack(entry.dtype) == dtype) return entry.dtype;
  }
  return std::nullopt;
}

bool comes_from(nb::handle array, std::string_view package) {
  const auto module = nb::cast<std::string>(array.type().attr("__module__"));
  return module == package || module.starts_with(std::string(package) + ".");
}

// The last copy of a Tensor may go away on a thread that does not hold the GIL.
template <class Array>
std::shared_ptr<void> keep_alive(Array array) {
  return {new Array(std::move(array)), [](void* held) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire gil;
            delete static_cast<Array*>(held);
          }};
}

template <class Array>
Tensor borrow(Array array, std::string_view what) {
  const auto dtype = from_dlpack(array.dtype());
  if (!dtype) fail("{} has a dtype that Tenon lacks: use f64 f32 f16 bf16 i64 i32 i16 i8 u8 or bool", what);
  Sizes shape(array.shape_ptr(), array.shape_ptr() + array.ndim());
  Sizes strides(array.stride_ptr(), array.stride_ptr() + array.ndim());
  void* data = const_cast<void*>(static_cast<const void*>(array.data()));
  return Tensor::borrow(*dtype, std::move(shape), std::move(strides), data, keep_alive(std::move(array)));
}

template <class Framework>
nb::object export_as(const Tensor& tensor) {
  const std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  nb::ndarray<Framework, nb::device::cpu> array(tensor.data(), shape.size(), shape.data(), owner,
                                                tensor.strides().data(), to_dlpack(tensor.dtype()));
  return nb::cast(array, nb::rv_policy::reference);
}

}  // namespace

ArrayKind kind_of(nb::handle array) {
  if (nb::isinstance<Tensor>(array)) return ArrayKind::kTensor;
  return comes_from(array, "torch") ? ArrayKind::kTorch : ArrayKind::kNumpy;
}

Tensor tensor_from(nb::handle array, std::string_view what) {
  if (nb::isinstance<Tensor>(array)) return nb::cast<Tensor>(array);
  nb::object source = nb::borrow(array);
  if (kind_of(array) == ArrayKind::kTorch) source = array.attr("detach")();
  if (nb::ndarray<nb::device::cpu> writable; nb::try_cast(source, writable, false)) return borrow(writable, what);
  if (nb::ndarray<nb::ro, nb::device::cpu> constant; nb::try_cast(source, constant, false))
    return borrow(constant, what);
  fail("{} is a {}: give a NumPy array or a torch tensor in the CPU's memory", what,
       nb::cast<std::string>(array.type().attr("__name__")));
}

nb::object tensor_to(Tensor tensor, ArrayKind kind) {
  // NumPy has no bf16.
  if (kind == ArrayKind::kNumpy && tensor.dtype() != DType::kBF16) return export_as<nb::numpy>(tensor);
  if (kind == ArrayKind::kTorch) return export_as<nb::pytorch>(tensor);
  return nb::cast(std::move(tensor));
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor")
      .def("__dlpack__",
           [](const Tensor& self, const nb::kwargs& options) {
             return export_as<nb::array_api>(self).attr("__dlpack__")(**options);
           })
      .def("__dlpack_device__",
           [](const Tensor&) { return nb::make_tuple(static_cast<int>(nb::device::cpu::value), 0); })
      .def_prop_ro("dtype", [](const Tensor& self) { return to_str(name_of(self.dtype())); })
      .def_prop_ro("shape", [](const Tensor& self) { return shape_to_python(to_shape(self.shape())); });
}

}  // namespace tenon::python
