#include "graph/tensor.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "dlpack_types.h"
#include "exchange.h"
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

// ---- in -------------------------------------------------------------------------------------------------------------

std::string shown(nb::handle array, const char* attribute) {
  return nb::hasattr(array, attribute) ? text_of(array.attr(attribute)) : "?";
}

template <class Array>
Tensor borrow(Array array, Access access, nb::handle source, std::string_view what) {
  const auto dtype = from_dlpack(array.dtype());
  if (!dtype) {
    fail("{} has dtype {}, which Tenon lacks: use f64 f32 f16 bf16 i64 i32 i16 i8 u8 or bool", what,
         shown(source, "dtype"));
  }
  Sizes shape(array.shape_ptr(), array.shape_ptr() + array.ndim());
  Sizes strides(array.stride_ptr(), array.stride_ptr() + array.ndim());
  const auto* data = static_cast<const std::byte*>(static_cast<const void*>(array.data()));
  if (array.size() > 0 && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(*dtype)) != 0) {
    fail("{} is not aligned to its elements of {} bytes: give a copy", what, size_of(*dtype));
  }
  return Tensor::borrow(*dtype, std::move(shape), std::move(strides), const_cast<std::byte*>(data),
                        keep_alive(std::move(array)), access);
}

// A torch tensor of the same memory, or of the same values where it stands for a negation, without a gradient. PyTorch
// makes it outside of the modes that the caller has on.
nb::object detached(nb::handle array) { return nb::module_::import_("tenon.modes").attr("detached")(array); }

// Why nothing could be borrowed from it.
[[noreturn]] void refuse(nb::handle array, std::string_view what) {
  if (!nb::ndarray_check(array)) {
    fail("{} is {}: give a NumPy array or a torch tensor", what, class_of(array));
  }
  if (const std::string device = shown(array, "device"); device != "cpu" && device != "?") {
    fail("{} is on device {}: bring it to the CPU first", what, device);
  }
  fail("{} is {} of dtype {} that cannot be read in place: give a plain copy in native byte order", what,
       class_of(array), shown(array, "dtype"));
}

// ---- out ------------------------------------------------------------------------------------------------------------

template <class... Traits>
nb::object export_with(const Tensor& tensor) {
  constexpr int64_t kMostDimensions = 64;  // of NumPy and PyTorch
  if (tensor.rank() > kMostDimensions) fail("a tensor of rank {} has more dimensions than an array can", tensor.rank());
  const std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  const nb::capsule owner(new Tensor(tensor), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  const nb::ndarray<Traits..., nb::device::cpu> array(tensor.data(), shape.size(), shape.data(), owner,
                                                      tensor.strides().data(), to_dlpack(tensor.dtype()));
  return nb::cast(array, nb::rv_policy::reference);
}

template <class Framework>
nb::object export_to(const Tensor& tensor) {
  const bool read_only = tensor.access() == Access::kReadOnly;
  return read_only ? export_with<Framework, nb::ro>(tensor) : export_with<Framework>(tensor);
}

nb::object to_numpy(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBF16) fail("NumPy has no bf16: use torch.from_dlpack(tensor), or cast in the graph");
  return export_to<nb::numpy>(tensor);
}

nb::object numpy_array(const Tensor& tensor, const nb::object& dtype, const nb::object& copy) {
  const nb::object array = to_numpy(tensor);
  return nb::module_::import_("numpy").attr("array")(array, nb::arg("dtype") = dtype, nb::arg("copy") = copy);
}

std::string describe(const Tensor& tensor) {
  constexpr int64_t kShown = 8;
  std::string text;
  for (int64_t i = 0; i < std::min(tensor.numel(), kShown); ++i) {
    const int64_t offset = tensor.offset(i);
    text += text.empty() ? "" : ", ";
    text +=
        is_float(tensor.dtype()) ? fmt::format("{:g}", tensor.real(offset)) : fmt::format("{}", tensor.integer(offset));
  }
  if (tensor.numel() > kShown) text += ", ...";
  return fmt::format("<tenon.Tensor {} [{}]>", to_string(type_of(tensor)), text);
}

}  // namespace

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

ArrayKind kind_of(nb::handle array) {
  if (nb::isinstance<Tensor>(array)) return ArrayKind::kTensor;
  return is_torch(array) ? ArrayKind::kTorch : ArrayKind::kNumpy;
}

Tensor tensor_from(nb::handle array, std::string_view what) {
  // The caller's own tensor may be given other memory, as module.double() does: a detached one keeps this.
  return is_torch(array) ? argument_from(detached(array), what) : argument_from(array, what);
}

Tensor argument_from(nb::handle array, std::string_view what) {
  if (nb::isinstance<Tensor>(array)) return nb::cast<Tensor>(array);
  if (auto borrowed = borrow_torch(array)) return *std::move(borrowed);
  nb::object source = nb::borrow(array);
  // A lazy negation is no memory that could be borrowed; other tensors pass unchanged.
  if (is_torch(array)) source = detached(array);
  if (is_torch(array) && is_without_memory(array)) {
    fail("{} is {}, which has no memory: give a tensor with values", what, class_of(array));
  }
  if (nb::ndarray<nb::device::cpu> writable; nb::try_cast(source, writable, false)) {
    return borrow(std::move(writable), Access::kReadWrite, array, what);
  }
  if (nb::ndarray<nb::ro, nb::device::cpu> constant; nb::try_cast(source, constant, false)) {
    return borrow(std::move(constant), Access::kReadOnly, array, what);
  }
  refuse(source, what);
}

nb::object to_python(Tensor tensor, ArrayKind kind) {
  if (kind == ArrayKind::kTorch) {
    nb::object shared = share_with_torch(tensor);
    return shared.is_valid() ? shared : export_to<nb::pytorch>(tensor);
  }
  if (kind == ArrayKind::kNumpy && tensor.dtype() != DType::kBF16) return export_to<nb::numpy>(tensor);
  return nb::cast(std::move(tensor));
}

bool is_number(nb::handle object) {
  return nb::isinstance<nb::bool_>(object) || PyLong_Check(object.ptr()) || PyFloat_Check(object.ptr());
}

DType dtype_of_number(nb::handle number) {
  if (nb::isinstance<nb::bool_>(number)) return DType::kBool;
  return PyFloat_Check(number.ptr()) ? DType::kF32 : DType::kI64;
}

Tensor tensor_from_number(nb::handle number, DType dtype) {
  const bool is_real = PyFloat_Check(number.ptr());
  if (is_real && is_integral(dtype)) fail("{} does not fit {}", text_of(number), name_of(dtype));
  int64_t integer = 0;
  if (!is_real && nb::try_cast(number, integer) && (is_float(dtype) || wrap_to(dtype, integer) == integer)) {
    return Tensor::scalar(dtype, integer);
  }
  double real = 0;
  if (is_integral(dtype) || !nb::try_cast(number, real)) {
    fail("{} does not fit {}", text_of(number), name_of(dtype));
  }
  return Tensor::scalar(dtype, real);
}

Tensor new_tensor(nb::handle data, const nb::object& dtype) {
  if (!is_number(data)) {
    Tensor tensor = tensor_from(data, "the data");
    if (dtype.is_none() || dtype_from(dtype) == tensor.dtype()) return tensor;
    fail("the data has dtype {}, not {}", name_of(tensor.dtype()), name_of(dtype_from(dtype)));
  }
  if (!dtype.is_none()) return tensor_from_number(data, dtype_from(dtype));
  const bool is_of_numpy = nb::hasattr(data, "dtype");
  return tensor_from_number(data, is_of_numpy ? dtype_from(data.attr("dtype")) : dtype_of_number(data));
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor",
                     "A strided array that shares its memory with whoever made it. torch.from_dlpack and numpy.asarray "
                     "read it without a copy.")
      .def(
          "__init__",
          [](Tensor* self, nb::handle data, const nb::object& dtype) { new (self) Tensor(new_tensor(data, dtype)); },
          nb::arg("data").none(), nb::arg("dtype") = nb::none(),
          nb::sig("def __init__(self, data: float | ArrayLike, dtype: DTypeLike | None = None) -> None"),
          "From an array, without a copy, or from a number.")
      .def_prop_ro("dtype", [](const Tensor& self) { return to_str(name_of(self.dtype())); })
      .def_prop_ro("shape", [](const Tensor& self) { return to_python_shape(to_shape(self.shape())); })
      .def_prop_ro(
          "strides", [](const Tensor& self) { return to_python_shape(to_shape(self.strides())); }, "In elements.")
      .def_prop_ro("ndim", &Tensor::rank)
      .def_prop_ro("size", &Tensor::numel, "The number of elements.")
      .def_prop_ro("nbytes", [](const Tensor& self) { return self.numel() * size_of(self.dtype()); })
      .def_prop_ro("read_only", [](const Tensor& self) { return self.access() == Access::kReadOnly; })
      .def_prop_ro(
          "data_ptr", [](const Tensor& self) { return reinterpret_cast<uintptr_t>(self.data()); },
          "The address of the first element.")
      .def("__array__", numpy_array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def(
          "__dlpack__",
          [](const Tensor& self, const nb::kwargs& options) {
            return export_to<nb::array_api>(self).attr("__dlpack__")(**options);
          },
          nb::arg("options"))
      .def("__dlpack_device__",
           [](const Tensor&) { return nb::make_tuple(static_cast<int>(nb::device::cpu::value), 0); })
      .def("__repr__", describe);
}

}  // namespace tenon::python
