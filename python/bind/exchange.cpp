#include "exchange.h"

#include <nanobind/ndarray.h>

#include "dlpack_types.h"

namespace tenon::python {
namespace {

// ---- DLPack's ABI, version 1: what nanobind's headers do not declare ------------------------------------------------

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor* self);
  uint64_t flags;
  nb::dlpack::dltensor tensor;
};

// The table that a type offers as `__dlpack_c_exchange_api__`. Functions give 0, or -1 with a Python error set.
struct ExchangeTable {
  Version version;
  ExchangeTable* previous;
  void* allocate;
  void* own_tensor_of;
  int (*object_of)(ManagedTensor* tensor, void** object);
  int (*tensor_of)(void* object, nb::dlpack::dltensor* tensor);
  void* current_stream;
};

// ---- PyTorch's table ------------------------------------------------------------------------------------------------

struct Torch {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  const ExchangeTable* table = nullptr;  // null where this version has none
};

PyTypeObject* type_named(nb::handle module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(nb::object(module.attr(name)).release().ptr());
}

const ExchangeTable* table_of(PyTypeObject* type) {
  const nb::object capsule = nb::getattr(nb::handle(type), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (table != nullptr && table->version.major != nb::dlpack::major_version) table = table->previous;
  return table;
}

// Null as long as nobody has imported PyTorch. Its types live as long as the process.
const Torch* torch() {
  static Torch known;
  if (known.tensor != nullptr) return &known;
  const nb::dict modules = nb::cast<nb::dict>(nb::module_::import_("sys").attr("modules"));
  if (!modules.contains("torch") || !modules.contains("torch.nn.parameter")) return nullptr;
  if (!nb::hasattr(modules["torch"], "Tensor")) return nullptr;
  known.parameter = type_named(modules["torch.nn.parameter"], "Parameter");
  known.tensor = type_named(modules["torch"], "Tensor");
  known.table = table_of(known.tensor);
  return &known;
}

// A lazy negation is no memory that could be borrowed.
bool is_negated(nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* const arguments[] = {array.ptr()};
  const nb::object negated = nb::steal(PyObject_VectorcallMethod(name, arguments, 1, nullptr));
  if (!negated.is_valid()) nb::raise_python_error();
  return negated.ptr() == Py_True;
}

struct Shared {
  ManagedTensor managed;
  Tensor tensor;
};

void free_shared(ManagedTensor* managed) { delete static_cast<Shared*>(managed->context); }

}  // namespace

bool is_torch(nb::handle array) {
  const Torch* known = torch();
  return known != nullptr && PyObject_TypeCheck(array.ptr(), known->tensor) != 0;
}

bool is_without_memory(nb::handle array) { return nb::hasattr(array, "fake_mode"); }

namespace {

// Other subclasses may stand for something else than their memory.
bool is_plain(nb::handle array, const Torch& known) {
  const PyTypeObject* type = Py_TYPE(array.ptr());
  return type == known.tensor || type == known.parameter;
}

// What PyTorch's table says of a plain tensor: its memory, on whatever device.
std::optional<nb::dlpack::dltensor> described_by_table(nb::handle array) {
  const Torch* known = torch();
  if (known == nullptr || known->table == nullptr || !is_plain(array, *known)) return std::nullopt;
  nb::dlpack::dltensor tensor;
  if (is_negated(array) || known->table->tensor_of(array.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return tensor;
}

std::byte* first_byte(const nb::dlpack::dltensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// By the attributes of the tensor, where this PyTorch has no table.
std::optional<CudaMemory> cuda_memory_by_attributes(nb::handle array) {
  const Torch* known = torch();
  if (known == nullptr || known->table != nullptr || !is_plain(array, *known)) return std::nullopt;
  if (!nb::cast<bool>(array.attr("is_cuda")) || is_negated(array)) return std::nullopt;
  CudaMemory memory{.dtype = dtype_from(array.attr("dtype"))};
  for (nb::handle size : array.attr("shape")) memory.shape.push_back(nb::cast<int64_t>(size));
  memory.data = reinterpret_cast<std::byte*>(nb::cast<uintptr_t>(array.attr("data_ptr")()));
  memory.device = nb::cast<int>(array.attr("get_device")());
  memory.is_row_major = nb::cast<bool>(array.attr("is_contiguous")());
  return memory;
}

}  // namespace

std::optional<Tensor> borrow_torch(nb::handle array) {
  const std::optional<nb::dlpack::dltensor> tensor = described_by_table(array);
  if (!tensor || tensor->device.device_type != nb::device::cpu::value) return std::nullopt;
  const auto dtype = from_dlpack(tensor->dtype);
  if (!dtype) return std::nullopt;
  std::byte* const data = first_byte(*tensor);
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(*dtype)) != 0) return std::nullopt;
  return Tensor::borrow(*dtype, Sizes(tensor->shape, tensor->shape + tensor->ndim),
                        Sizes(tensor->strides, tensor->strides + tensor->ndim), data, keep_alive(nb::borrow(array)));
}

std::optional<CudaMemory> cuda_memory_of(nb::handle array) {
  const std::optional<nb::dlpack::dltensor> tensor = described_by_table(array);
  if (!tensor) return cuda_memory_by_attributes(array);
  if (tensor->device.device_type != nb::device::cuda::value) return std::nullopt;
  const auto dtype = from_dlpack(tensor->dtype);
  if (!dtype) return std::nullopt;
  CudaMemory memory{*dtype, Sizes(tensor->shape, tensor->shape + tensor->ndim), first_byte(*tensor),
                    tensor->device.device_id, true};
  const Sizes dense = contiguous_strides(memory.shape);
  for (size_t dim = 0; dim < dense.size(); ++dim)
    memory.is_row_major &= memory.shape[dim] <= 1 || tensor->strides[dim] == dense[dim];
  return memory;
}

void check_no_tangents(nb::handle arrays) {
  if (torch() == nullptr) return;
  static const nb::object* const forward_ad = new nb::object(nb::module_::import_("torch.autograd.forward_ad"));
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  const nb::object level = nb::steal(PyObject_GetAttr(forward_ad->ptr(), name));
  if (!level.is_valid()) return PyErr_Clear();  // PyTorch's own: another version may have none
  if (!PyLong_Check(level.ptr()) || PyLong_AsLong(level.ptr()) < 0) return;
  for (nb::handle array : arrays) {
    if (is_torch(array) && !forward_ad->attr("unpack_dual")(array).attr("tangent").is_none()) {
      fail("an input has a tangent: forward-mode differentiation cannot look into a compiled program");
    }
  }
}

nb::object share_with_torch(const Tensor& tensor) {
  const Torch* known = torch();
  if (known == nullptr || known->table == nullptr || tensor.access() == Access::kReadOnly) return {};
  auto* shared = new Shared{{}, tensor};
  shared->managed = {{nb::dlpack::major_version, nb::dlpack::minor_version}, shared, free_shared, 0, {}};
  nb::dlpack::dltensor& view = shared->managed.tensor;
  view.data = shared->tensor.data();
  view.device = {nb::device::cpu::value, 0};
  view.ndim = static_cast<int32_t>(shared->tensor.rank());
  view.dtype = to_dlpack(shared->tensor.dtype());
  view.shape = const_cast<int64_t*>(shared->tensor.shape().data());
  view.strides = const_cast<int64_t*>(shared->tensor.strides().data());
  void* object = nullptr;
  if (known->table->object_of(&shared->managed, &object) != 0) nb::raise_python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace tenon::python
