#include "cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>

#include "dlpack_types.h"
#include "runtime/device.h"
#include "support/runtime_call.h"
#include "tenon/cuda.h"

namespace tenon::python {
namespace {

constexpr std::string_view kCuda = "cuda";

// The functions of tenon/cuda.h, in the library that the device is from.
struct Library {
  decltype(&tenon_cuda_use_stream) use_stream;
  decltype(&tenon_cuda_use_own_stream) use_own_stream;
  decltype(&tenon_cuda_check_graphs) check_graphs;

  Library() {
    const std::string path = call_runtime([] { return runtime::library_of(kCuda); });
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (path.empty() || library == nullptr) fail("device cuda is not that of Tenon");
    use_stream = reinterpret_cast<decltype(use_stream)>(dlsym(library, "tenon_cuda_use_stream"));
    use_own_stream = reinterpret_cast<decltype(use_own_stream)>(dlsym(library, "tenon_cuda_use_own_stream"));
    check_graphs = reinterpret_cast<decltype(check_graphs)>(dlsym(library, "tenon_cuda_check_graphs"));
    if (use_stream == nullptr || use_own_stream == nullptr || check_graphs == nullptr)
      fail("{} lacks functions of tenon/cuda.h", path);
  }
};

const Library& library() {
  static const Library found;
  return found;
}

// A function of tenon/cuda_tensors.py.
nb::object helper(const char* name) { return nb::module_::import_("tenon.cuda_tensors").attr(name); }

// Of a run with hundreds of arguments, the first one looks the device up. Python's lock guards the map.
std::shared_ptr<runtime::Device> gpu(int number) {
  static std::map<int, std::weak_ptr<runtime::Device>> known;
  std::weak_ptr<runtime::Device>& last = known[number];
  std::shared_ptr<runtime::Device> device = last.lock();
  if (!device) last = device = call_runtime([&] { return runtime::open_device(cuda_spec(number)); });
  return device;
}

TensorOnDevice wrapped(const CudaMemory& memory, nb::object array) {
  const std::shared_ptr<runtime::Device> device = gpu(memory.device);
  int64_t bytes = size_of(memory.dtype);
  for (int64_t size : memory.shape) bytes *= size;
  runtime::DeviceBlock block(device, memory.data, bytes, keep_alive(std::move(array)));
  return {memory.dtype, memory.shape, std::make_shared<runtime::DeviceTensor>(std::move(block))};
}

bool is_aligned(const void* data, const runtime::Device& device) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(device.info().alignment) == 0;
}

}  // namespace

std::string cuda_spec(int device) { return device == 0 ? std::string(kCuda) : fmt::format("{}:{}", kCuda, device); }

std::optional<int> cuda_number(const runtime::Device& device) {
  if (device.info().name != kCuda) return std::nullopt;
  const std::string spec = device.spec();
  int number = 0;
  if (spec.size() > kCuda.size()) std::from_chars(spec.data() + kCuda.size() + 1, spec.data() + spec.size(), number);
  return number;
}

std::optional<TensorOnDevice> on_cuda(nb::handle array) {
  const std::optional<CudaMemory> memory = cuda_memory_of(array);
  if (!memory) return std::nullopt;
  TensorOnDevice tensor = wrapped(*memory, nb::borrow(array));
  if (memory->is_row_major && is_aligned(memory->data, *tensor.memory->device())) return tensor;
  const nb::object dense = helper("dense")(array);
  return wrapped(cuda_memory_of(dense).value(), dense);
}

void check_cuda_graphs() {
  char text[512] = "";
  tenon_text error{text, sizeof text};
  if (library().check_graphs(&error) != TENON_OK) fail("{}", text);
}

CudaStream::CudaStream(int device)
    : stream_(reinterpret_cast<void*>(nb::cast<uintptr_t>(helper("current_stream")(device)))) {}

void CudaStream::use() const { library().use_stream(stream_); }
void CudaStream::use_own() { library().use_own_stream(); }

CudaResults::~CudaResults() {
  const nb::gil_scoped_acquire lock;
  made_.clear();
}

TensorOnDevice CudaResults::make(size_t output, DType dtype, const Sizes& shape) {
  const nb::gil_scoped_acquire lock;
  nb::list sizes;
  for (int64_t size : shape) sizes.append(size);
  const nb::object tensor = helper("empty")(sizes, to_str(name_of(dtype)), cuda_number(*device_).value());
  made_[output] = tensor;
  TensorOnDevice made = wrapped(cuda_memory_of(tensor).value(), tensor);
  return made;
}

nb::object CudaResults::tensor(size_t output) const {
  const auto found = made_.find(output);
  return found == made_.end() ? nb::object() : found->second;
}

}  // namespace tenon::python
