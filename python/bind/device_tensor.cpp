#include "device_tensor.h"

#include <fmt/ranges.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "dlpack_types.h"
#include "exchange.h"
#include "gil.h"
#include "support/runtime_call.h"

namespace tenon::python {
namespace {

constexpr int kExtensionDevice = 12;  // DLPack's kDLExtDev
constexpr int kCudaDevice = nb::device::cuda::value;

std::shared_ptr<runtime::Device> opened(const std::string& spec) {
  return call_runtime([&] { return runtime::open_device(spec); });
}

const std::string& device_of(const TensorOnDevice& self) { return self.memory->device()->info().name; }

// The number of a device among those that this process has loaded.
int number_of(const std::string& name) {
  const std::vector<std::string_view> names = call_runtime([] { return runtime::device_names(); });
  return static_cast<int>(std::ranges::find(names, name) - names.begin());
}

// DLPack's kind and number of a device: GPUs have CUDA's.
std::pair<int, int> dlpack_place(const TensorOnDevice& self) {
  const std::optional<int> gpu = cuda_number(*self.memory->device());
  return gpu ? std::pair(kCudaDevice, *gpu) : std::pair(kExtensionDevice, number_of(device_of(self)));
}

TensorOnDevice moved(nb::handle array, const std::string& device) {
  if (nb::isinstance<TensorOnDevice>(array)) {
    const auto& there = nb::cast<const TensorOnDevice&>(array);
    if (there.memory->device() == opened(device)) return there;
    const Tensor tensor = call_runtime([&] { return to_host(there); });
    return call_runtime([&] { return to_device(tensor, opened(device)); });
  }
  if (auto there = on_cuda(array)) {
    if (there->memory->device() == opened(device)) return *there;
    fail("the tensor is on {}: bring it to the CPU first", there->memory->device()->spec());
  }
  const Tensor tensor = tensor_from(array, "a tensor");
  const WithoutGil unlocked;
  return call_runtime([&] { return to_device(tensor, opened(device)); });
}

nb::object to_array(const TensorOnDevice& self, ArrayKind kind) {
  Tensor tensor;
  {
    const WithoutGil unlocked;
    tensor = call_runtime([&] { return to_host(self); });
  }
  return to_python(std::move(tensor), kind);
}

// ---- DLPack ---------------------------------------------------------------------------------------------------------

// nanobind makes the capsule, in the version that the consumer asks for.
nb::object to_dlpack_capsule(const TensorOnDevice& self, const nb::kwargs& named) {
  std::byte* const memory = call_runtime([&] { return self.memory->on_device(self.memory->device()); });
  const std::vector<size_t> shape(self.shape.begin(), self.shape.end());
  auto* const held = new std::shared_ptr<runtime::DeviceTensor>(self.memory);
  const nb::capsule owner(held,
                          [](void* it) noexcept { delete static_cast<std::shared_ptr<runtime::DeviceTensor>*>(it); });
  const auto [kind, number] = dlpack_place(self);
  const nb::ndarray<nb::array_api> array(memory, shape.size(), shape.data(), owner, nullptr, to_dlpack(self.dtype),
                                         kind, number);
  return nb::cast(array).attr("__dlpack__")(**named);
}

bool is_row_major(const nb::ndarray<>& array) {
  int64_t expected = 1;
  for (size_t dim = array.ndim(); dim-- > 0;) {
    if (array.shape(dim) != 1 && array.stride(dim) != expected) return false;
    expected *= static_cast<int64_t>(array.shape(dim));
  }
  return true;
}

TensorOnDevice from_dlpack_array(nb::handle array, const std::string& device) {
  if (nb::isinstance<TensorOnDevice>(array)) return nb::cast<TensorOnDevice>(array);
  if (auto there = on_cuda(array)) return *there;
  nb::ndarray<> given;
  if (!nb::try_cast(array, given, false) || given.device_type() != kExtensionDevice)
    fail("from_dlpack takes a tensor in the memory of a device, got {}; to_device takes others", class_of(array));
  const auto dtype = from_dlpack(given.dtype());
  if (!dtype) fail("from_dlpack got a tensor of a dtype that Tenon lacks");
  if (!is_row_major(given)) fail("from_dlpack got a tensor that is not row-major: give a contiguous one");
  const std::vector<std::string_view> names = call_runtime([] { return runtime::device_names(); });
  const auto number = static_cast<size_t>(given.device_id());
  if (device.empty() && number >= names.size())
    fail("from_dlpack got a tensor of device {}, and {} are loaded: name the device", number, names.size());
  const std::shared_ptr<runtime::Device> there = opened(device.empty() ? std::string(names[number]) : device);
  if (reinterpret_cast<uintptr_t>(given.data()) % static_cast<uintptr_t>(there->info().alignment) != 0)
    fail("from_dlpack got memory that is not aligned to {}, as {} wants it", there->info().alignment,
         there->info().name);
  Sizes shape;
  for (size_t dim = 0; dim < given.ndim(); ++dim) shape.push_back(static_cast<int64_t>(given.shape(dim)));
  const auto bytes = static_cast<int64_t>(given.size()) * size_of(*dtype);
  void* const data = given.data();
  auto memory =
      std::make_shared<runtime::DeviceTensor>(runtime::DeviceBlock(there, data, bytes, keep_alive(std::move(given))));
  return {*dtype, std::move(shape), std::move(memory)};
}

}  // namespace

// ---- runs -----------------------------------------------------------------------------------------------------------

namespace {

// An argument that lies on a device.
std::optional<TensorOnDevice> argument_on_device(nb::handle array) {
  if (nb::isinstance<TensorOnDevice>(array)) return nb::cast<const TensorOnDevice&>(array);
  return on_cuda(array);
}

// Results become tensors of PyTorch's, on its current stream.
void join_torch(RunArguments& run) {
  run.stream.emplace(cuda_number(*run.places.device).value());
  run.results = std::make_shared<CudaResults>(run.places.device);
  run.places.allocate = [results = run.results](size_t output, DType dtype, const Sizes& shape) {
    return results->make(output, dtype, shape);
  };
}

}  // namespace

RunArguments arguments_from(nb::handle arrays, const std::string& device, const std::set<size_t>& kept, bool in_torch) {
  RunArguments run;
  if (!device.empty()) run.places = {.kept = kept, .device = opened(device)};
  if (in_torch) join_torch(run);
  run.inputs.reserve(nb::len(arrays));
  for (nb::handle array : arrays) {
    auto borrowed = borrow_torch(array);  // the common case first
    if (auto there = borrowed ? std::nullopt : argument_on_device(array)) {
      run.places.inputs.emplace(run.inputs.size(), *std::move(there));
      run.inputs.emplace_back();
      continue;
    }
    if (run.inputs.empty()) run.kind = kind_of(array);
    run.inputs.push_back(borrowed ? *std::move(borrowed) : argument_from(array, "an input"));
  }
  return run;
}

namespace {

// The spec by which the program uses a device of this name; empty if it uses this very device, or none of the name.
std::string other_spec(const runtime::LoadedProgram& program, const runtime::Device& device) {
  std::string other;
  for (uint32_t space = 1; space <= program.graph().spaces.size(); ++space) {
    const runtime::Device& used = *program.device(space);
    if (&used == &device) return "";
    if (used.info().name == device.info().name) other = used.spec();
  }
  return other;
}

void warn(const std::string& message) {
  constexpr int kCaller = 2;  // of the program's method
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), kCaller) != 0) throw nb::python_error();
}

}  // namespace

void warn_of_copies(const RunArguments& run, const runtime::LoadedProgram& program) {
  constexpr const char* kAdvice = "name the device in the same way in both places";
  for (const auto& [i, tensor] : run.places.inputs) {
    const runtime::Device& device = *tensor.memory->device();
    const std::string other = other_spec(program, device);
    if (other.empty()) continue;
    warn(fmt::format("argument {} lies on {}, and the program runs on {}: each call copies it; {}", i, device.spec(),
                     other, kAdvice));
  }
  const std::string other = run.places.device ? other_spec(program, *run.places.device) : "";
  if (other.empty()) return;
  warn(fmt::format("results stay on {}, and the program runs on {}: each call copies them; {}",
                   run.places.device->spec(), other, kAdvice));
}

nb::object result_of(const RunArguments& run, const std::vector<Tensor>& outputs, size_t i) {
  if (run.results) {
    if (nb::object tensor = run.results->tensor(i); tensor.is_valid()) return tensor;
  }
  const auto there = run.places.outputs.find(i);
  return there == run.places.outputs.end() ? to_python(outputs[i], run.kind) : nb::cast(there->second);
}

void bind_device_tensor(nb::module_& module) {
  nb::class_<TensorOnDevice>(module, "DeviceTensor",
                             "A tensor in the memory of a device. Programs take it as an argument, without a copy if "
                             "they run there, and return such tensors by `results_on`. It is row-major.")
      .def_prop_ro(
          "shape", [](const TensorOnDevice& self) { return nb::tuple(nb::cast(self.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const TensorOnDevice& self) { return to_str(name_of(self.dtype)); }, "\"f32\", ...")
      .def_prop_ro("device", device_of, "The name of the device.")
      .def(
          "cpu", [](const TensorOnDevice& self) { return to_array(self, ArrayKind::kTorch); },
          "A torch tensor with a copy of the values.", nb::sig("def cpu(self) -> Any"))
      .def(
          "numpy", [](const TensorOnDevice& self) { return to_array(self, ArrayKind::kNumpy); },
          "A NumPy array with a copy of the values.", nb::sig("def numpy(self) -> Any"))
      .def(
          "__array__",
          [](const TensorOnDevice& self, const nb::args&, const nb::kwargs&) -> nb::object {
            fail("a tensor on {} is no array of the host: numpy() copies it", device_of(self));
          },
          nb::arg("args"), nb::arg("kwargs"), nb::sig("def __array__(self, *args: Any, **kwargs: Any) -> Any"))
      .def("__dlpack__", to_dlpack_capsule, nb::arg("named"), nb::sig("def __dlpack__(self, **named: Any) -> Any"))
      .def(
          "__dlpack_device__",
          [](const TensorOnDevice& self) {
            const auto [kind, number] = dlpack_place(self);
            return nb::make_tuple(kind, number);
          },
          "On a GPU, DLPack's kDLCUDA and CUDA's number of it; else kDLExtDev, and the number of the device in the "
          "order "
          "in which plug-ins were loaded.",
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", [](const TensorOnDevice& self) {
        return fmt::format("<tenon.DeviceTensor {}[{}] on {}>", name_of(self.dtype), fmt::join(self.shape, ", "),
                           device_of(self));
      });
  module.def("to_device", moved, nb::arg("tensor"), nb::arg("device"),
             "Copies a tensor to the memory of a device: \"npu\", or with options \"npu:rate=2\". A tensor that is "
             "there already is returned as it is.",
             nb::sig("def to_device(tensor: ArrayLike | DeviceTensor, device: str) -> DeviceTensor"));
  module.def("from_dlpack", from_dlpack_array, nb::arg("tensor"), nb::arg("device") = "",
             "A tensor of another library in the memory of a device (DLPack's kDLExtDev), without a copy. Its device "
             "number counts plug-ins in the order in which they were loaded, unless `device` names one.",
             nb::sig("def from_dlpack(tensor: Any, device: str = ...) -> DeviceTensor"));
}

}  // namespace tenon::python
