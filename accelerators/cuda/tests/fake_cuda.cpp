// A driver and a cuBLASLt that need no GPU, for tests. Memory of the "GPU" is the host's at other addresses, filled
// with a pattern: who reads or writes there crashes. Nothing of a stream runs before somebody waits for it, in the
// order that streams and events demand and no other, so that an order that is missing shows. Kernels are known by name:
// what the test's PTX computes (cuda_test.cpp) is written here once more.
#include "fake_cuda.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../driver.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace tenon::cuda;  // NOLINT: the types of the interface

namespace {

constexpr uint64_t kOffset = uint64_t{1} << 60;
constexpr int kLaunchFailed = 719, kInvalidValue = 1, kNotFound = 500, kBadPtx = 218, kNoContext = 201;

struct Fault {
  int result, skipped;
};

struct FakeEvent {
  struct FakeStream* stream = nullptr;
  size_t position = 0;  // how many commands of the stream were in front of it
  double milliseconds = 0;
  bool has_time = true;
};

struct FakeStream {
  std::vector<std::function<void()>> commands;  // of all time
  size_t done = 0;
  bool captures = false;
  size_t captured_from = 0;
  std::vector<std::function<void()>> graph;
};

struct FakeModule;
struct FakeFunction {
  std::string name;
  size_t parameters;
  FakeModule* module;
};
struct FakeModule {
  std::string text;
  std::map<std::string, std::unique_ptr<FakeFunction>> functions;
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, Fault> faults;
  std::map<uint64_t, std::pair<std::vector<unsigned char>, uint64_t>> blocks;  // by the GPU's address
  std::map<const void*, size_t> pinned;
  std::set<FakeStream*> streams;
  FakeStream default_stream;
  long live = 0, launches = 0, products = 0, allocations = 0, records = 0, advice = 0;
  int devices = 1;
  int contexts_pushed = 0;
  std::string breaks_on;
  bool is_broken = false;
  double clock = 0;
};

State& state() {
  static auto* const it = new State;  // outlives whoever frees late
  return *it;
}

// The host's address of a stretch of the GPU's memory; of pinned memory, which the GPU sees as it is.
unsigned char* real(uint64_t address, size_t bytes) {
  State& s = state();
  for (auto& [first, block] : s.blocks) {
    if (address >= first && address + bytes <= first + block.second)
      return block.first.data() + 512 + (address - first);
  }
  for (const auto& [first, size] : s.pinned) {
    const auto begin = reinterpret_cast<uint64_t>(first);
    if (address >= begin && address + bytes <= begin + size) return reinterpret_cast<unsigned char*>(address);
  }
  s.is_broken = true;  // as an illegal access does
  return nullptr;
}

template <class T>
T* array(uint64_t address, int64_t count) {
  return reinterpret_cast<T*>(real(address, static_cast<size_t>(count) * sizeof(T)));
}

FakeStream* stream_of(Stream stream) {
  return stream == nullptr ? &state().default_stream : reinterpret_cast<FakeStream*>(stream);
}

void run_until(FakeStream* stream, size_t position) {
  while (stream->done < position) {
    const size_t next = stream->done++;
    stream->commands[next]();
    state().clock += 0.5;
  }
}

void enqueue(Stream stream, std::function<void()> command) {
  stream_of(stream)->commands.push_back([command = std::move(command)] {
    if (!state().is_broken) command();
  });
}

int faulted(const char* function) {
  State& s = state();
  const auto found = s.faults.find(function);
  if (found != s.faults.end() && found->second.skipped-- == 0) {
    const int result = found->second.result;
    s.faults.erase(found);
    return result;
  }
  return s.is_broken ? kLaunchFailed : kSuccess;
}

#define BEGIN(name)                          \
  const std::lock_guard lock(state().mutex); \
  if (const int result = faulted(name); result != kSuccess) return result
#define BEGIN_IN_CONTEXT(name) \
  BEGIN(name);                 \
  if (state().contexts_pushed == 0) return kNoContext

// ---- kernels --------------------------------------------------------------------------------------------------------

using Values = std::vector<uint64_t>;

void report(uint64_t record, int64_t kind, int64_t node, int64_t value, int64_t bound) {
  auto* const error = array<int64_t>(record, 4);
  if (error == nullptr || error[0] != 0) return;
  error[0] = kind, error[1] = node, error[2] = value, error[3] = bound;
}

void test_add(const Values& v) {  // x, y, out, count
  const auto count = static_cast<int64_t>(v[3]);
  const float *x = array<float>(v[0], count), *y = array<float>(v[1], count);
  float* const out = array<float>(v[2], count);
  for (int64_t i = 0; x && y && out && i < count; ++i) out[i] = x[i] + y[i];
}

void test_gather(const Values& v) {  // x, index, out, count, rows, errors
  const auto count = static_cast<int64_t>(v[3]), rows = static_cast<int64_t>(v[4]);
  const auto* const x = array<float>(v[0], rows);
  const auto* const index = array<int64_t>(v[1], count);
  auto* const out = array<float>(v[2], count);
  for (int64_t i = 0; x && index && out && i < count; ++i) {
    if (index[i] < 0 || index[i] >= rows) {
      report(v[5], 1, 1, index[i], rows);
    } else {
      out[i] = x[index[i]];
    }
  }
}

void run_kernel(const std::string& name, const Values& values) {
  if (name == state().breaks_on) state().is_broken = true;
  if (name == "test_add") test_add(values);
  if (name == "test_gather") test_gather(values);
}

// ---- cuBLASLt -------------------------------------------------------------------------------------------------------

struct FakeMatrix {
  int type;
  int64_t rows, columns, leading, count = 1, stride = 0;
};

struct FakeProduct {
  int compute;
  bool transpose_a = false, transpose_b = false;
  unsigned epilogue = 1;
  uint64_t bias = 0;
};

double element(int type, const unsigned char* base, int64_t i) {
  if (type == 1) return reinterpret_cast<const double*>(base)[i];
  if (type == 0) return static_cast<double>(reinterpret_cast<const float*>(base)[i]);
  const uint32_t bits = static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(base)[i]) << 16;  // bf16
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

void set_element(int type, unsigned char* base, int64_t i, double value) {
  if (type == 1) reinterpret_cast<double*>(base)[i] = value;
  const auto single = static_cast<float>(value);
  if (type == 0) reinterpret_cast<float*>(base)[i] = single;
  if (type != 14) return;
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  reinterpret_cast<uint16_t*>(base)[i] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

int64_t size_of_type(int type) { return type == 1 ? 8 : type == 0 ? 4 : 2; }

unsigned char* matrix_at(const FakeMatrix& m, uint64_t address) {
  const int64_t elements = (m.columns - 1) * m.leading + (m.count - 1) * m.stride + m.rows;
  return real(address, static_cast<size_t>(elements * size_of_type(m.type)));
}

void multiply(const FakeProduct& product, double alpha, const FakeMatrix& a, uint64_t a_at, const FakeMatrix& b,
              uint64_t b_at, const FakeMatrix& d, uint64_t d_at) {
  const unsigned char *from_a = matrix_at(a, a_at), *from_b = matrix_at(b, b_at);
  unsigned char* const to = matrix_at(d, d_at);
  const int64_t inner = product.transpose_a ? a.rows : a.columns;
  if (from_a == nullptr || from_b == nullptr || to == nullptr) return;
  for (int64_t batch = 0; batch < d.count; ++batch) {
    for (int64_t column = 0; column < d.columns; ++column) {
      for (int64_t row = 0; row < d.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t i = product.transpose_a ? k + row * a.leading : row + k * a.leading;
          const int64_t j = product.transpose_b ? column + k * b.leading : k + column * b.leading;
          sum += element(a.type, from_a, batch * a.stride + i) * element(b.type, from_b, batch * b.stride + j);
        }
        sum *= alpha;
        if ((product.epilogue & 4) != 0)
          sum += element(d.type, real(product.bias, static_cast<size_t>(d.rows * size_of_type(d.type))), row);
        if ((product.epilogue & 2) != 0) sum = std::max(sum, 0.0);
        if ((product.epilogue & 32) != 0)
          sum *= 0.5 * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        set_element(d.type, to, batch * d.stride + row + column * d.leading, sum);
      }
    }
  }
}

}  // namespace

// ---- what tests ask -------------------------------------------------------------------------------------------------

EXPORT long fake_live() { return state().live; }
EXPORT long fake_launches() { return state().launches; }
EXPORT long fake_products() { return state().products; }
EXPORT long fake_allocations() { return state().allocations; }
EXPORT long fake_recorded_events() { return state().records; }
EXPORT long fake_advice() { return state().advice; }
EXPORT void fake_fail(const char* function, int result, int skipped) { state().faults[function] = {result, skipped}; }
EXPORT void fake_set_devices(int count) { state().devices = count; }
EXPORT void fake_break_on(const char* entry) { state().breaks_on = entry; }
EXPORT void fake_capture(void* stream, bool begins) {
  auto* const it = stream_of(static_cast<Stream>(stream));
  it->captures = begins;
  if (begins) it->captured_from = it->commands.size();
  if (begins) return;
  it->graph.assign(it->commands.begin() + static_cast<std::ptrdiff_t>(it->captured_from), it->commands.end());
  it->commands.resize(it->captured_from);
}
EXPORT void fake_replay(void* stream) {
  for (const auto& command : stream_of(static_cast<Stream>(stream))->graph) command();
}
EXPORT void fake_repair() {
  state().is_broken = false;
  state().breaks_on.clear();
  state().faults.clear();
}

// ---- the driver -----------------------------------------------------------------------------------------------------

EXPORT Result cuInit(unsigned) {
  BEGIN("cuInit");
  return state().devices == 0 ? kNoDevice : kSuccess;
}
EXPORT Result cuDriverGetVersion(int* version) {
  const char* const told = std::getenv("FAKE_CUDA_VERSION");
  *version = told == nullptr ? 13000 : std::atoi(told);
  return kSuccess;
}
EXPORT Result cuDeviceGetCount(int* count) {
  BEGIN("cuDeviceGetCount");
  *count = state().devices;
  return kSuccess;
}
EXPORT Result cuDeviceGet(DeviceNumber* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
EXPORT Result cuDeviceGetName(char* name, int capacity, DeviceNumber) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(capacity));
  return kSuccess;
}
EXPORT Result cuDeviceTotalMem_v2(size_t* bytes, DeviceNumber) {
  *bytes = size_t{1} << 30;
  return kSuccess;
}
EXPORT Result cuDeviceGetAttribute(int* value, int attribute, DeviceNumber) {
  const std::map<int, int> known = {
      {kMaxThreads, 1024}, {kMaxGridX, 2147483647}, {kComputeMajor, 9}, {kComputeMinor, 0}, {kMaxSharedBytes, 232448}};
  *value = known.at(attribute);
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRetain(Context* context, DeviceNumber) {
  BEGIN("cuDevicePrimaryCtxRetain");
  ++state().live;
  *context = reinterpret_cast<Context>(&state());
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) {
  --state().live;
  return kSuccess;
}
EXPORT Result cuCtxPushCurrent_v2(Context) {
  BEGIN("cuCtxPushCurrent_v2");
  ++state().contexts_pushed;
  return kSuccess;
}
EXPORT Result cuCtxPopCurrent_v2(Context* context) {
  const std::lock_guard lock(state().mutex);
  --state().contexts_pushed;
  *context = nullptr;
  return kSuccess;
}
EXPORT Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = 12345, *total = size_t{1} << 30;
  return kSuccess;
}
EXPORT Result cuMemAlloc_v2(Address* memory, size_t bytes) {
  BEGIN_IN_CONTEXT("cuMemAlloc_v2");
  static uint64_t next = kOffset;
  *memory = next;
  next += (bytes + 4095) / 4096 * 4096 + 4096;
  state().blocks[*memory] = {std::vector<unsigned char>(bytes + 1024, 0xa5), bytes};
  ++state().live, ++state().allocations;
  return kSuccess;
}
EXPORT Result cuMemFree_v2(Address memory) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (FakeStream* stream : s.streams) run_until(stream, stream->commands.size());  // it waits for all
  const auto is_untouched = [](unsigned char byte) { return byte == 0xa5; };
  const auto& [bytes, size] = s.blocks.at(memory);
  if (!std::all_of(bytes.begin(), bytes.begin() + 512, is_untouched) ||
      !std::all_of(bytes.end() - 512, bytes.end(), is_untouched))
    std::abort();
  s.blocks.erase(memory);
  --s.live;
  return kSuccess;
}
EXPORT Result cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN_IN_CONTEXT("cuMemHostAlloc");
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  state().pinned[*memory] = bytes;
  ++state().live;
  return kSuccess;
}
EXPORT Result cuMemFreeHost(void* memory) {
  const std::lock_guard lock(state().mutex);
  state().pinned.erase(memory);
  --state().live;
  std::free(memory);
  return kSuccess;
}

static bool is_pinned(const void* address) {
  const auto& pinned = state().pinned;
  const auto after = pinned.upper_bound(address);
  if (after == pinned.begin()) return false;
  const auto& [first, bytes] = *std::prev(after);
  return static_cast<const char*>(address) < static_cast<const char*>(first) + bytes;
}

EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  BEGIN_IN_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (is_pinned(from)) {
    enqueue(stream, [=] { std::memcpy(real(to, bytes), from, bytes); });
  } else {  // the driver takes the bytes at once
    const auto* const first = static_cast<const unsigned char*>(from);
    enqueue(stream, [=, taken = std::vector<unsigned char>(first, first + bytes)] {
      std::memcpy(real(to, bytes), taken.data(), bytes);
    });
  }
  return kSuccess;
}
EXPORT Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  BEGIN_IN_CONTEXT("cuMemcpyDtoHAsync_v2");
  enqueue(stream, [=] { std::memcpy(to, real(from, bytes), bytes); });
  if (!is_pinned(to)) run_until(stream_of(stream), stream_of(stream)->commands.size());
  return kSuccess;
}
EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t count, Stream stream) {
  BEGIN_IN_CONTEXT("cuMemsetD8Async");
  enqueue(stream, [=] { std::memset(real(to, count), value, count); });
  return kSuccess;
}

EXPORT Result cuStreamCreate(Stream* stream, unsigned) {
  BEGIN_IN_CONTEXT("cuStreamCreate");
  auto* const made = new FakeStream;
  state().streams.insert(made);
  ++state().live;
  *stream = reinterpret_cast<Stream>(made);
  return kSuccess;
}
EXPORT Result cuStreamDestroy_v2(Stream stream) {
  const std::lock_guard lock(state().mutex);
  run_until(stream_of(stream), stream_of(stream)->commands.size());
  state().streams.erase(stream_of(stream));
  --state().live;
  delete stream_of(stream);
  return kSuccess;
}
EXPORT Result cuStreamSynchronize(Stream stream) {
  BEGIN("cuStreamSynchronize");
  run_until(stream_of(stream), stream_of(stream)->commands.size());
  return state().is_broken ? kLaunchFailed : kSuccess;
}
EXPORT Result cuStreamWaitEvent(Stream stream, EventHandle event, unsigned) {
  BEGIN_IN_CONTEXT("cuStreamWaitEvent");
  const FakeEvent waited = *reinterpret_cast<FakeEvent*>(event);
  stream_of(stream)->commands.push_back([waited] {
    if (waited.stream != nullptr) run_until(waited.stream, waited.position);
  });
  return kSuccess;
}
EXPORT Result cuStreamIsCapturing(Stream stream, int* status) {
  *status = stream_of(stream)->captures ? 1 : 0;
  return kSuccess;
}
EXPORT Result cuEventCreate(EventHandle* event, unsigned flags) {
  BEGIN_IN_CONTEXT("cuEventCreate");
  auto* const made = new FakeEvent;
  made->has_time = (flags & kEventWithoutTime) == 0;
  *event = reinterpret_cast<EventHandle>(made);
  ++state().live;
  return kSuccess;
}
EXPORT Result cuEventDestroy_v2(EventHandle event) {
  delete reinterpret_cast<FakeEvent*>(event);
  --state().live;
  return kSuccess;
}
EXPORT Result cuEventRecord(EventHandle event, Stream stream) {
  BEGIN_IN_CONTEXT("cuEventRecord");
  auto* const it = reinterpret_cast<FakeEvent*>(event);
  ++state().records;
  it->stream = stream_of(stream);
  if (it->has_time) stream_of(stream)->commands.push_back([it] { it->milliseconds = state().clock; });
  it->position = stream_of(stream)->commands.size();
  return kSuccess;
}
EXPORT Result cuEventSynchronize(EventHandle event) {
  BEGIN("cuEventSynchronize");
  constexpr int kCaptureUnsupported = 900;
  if (const auto* stream = reinterpret_cast<FakeEvent*>(event)->stream; stream != nullptr && stream->captures)
    return kCaptureUnsupported;
  const auto* const it = reinterpret_cast<FakeEvent*>(event);
  if (it->stream != nullptr) run_until(it->stream, it->position);
  return state().is_broken ? kLaunchFailed : kSuccess;
}
EXPORT Result cuEventElapsedTime(float* milliseconds, EventHandle begin, EventHandle end) {
  const auto *const from = reinterpret_cast<FakeEvent*>(begin), *const to = reinterpret_cast<FakeEvent*>(end);
  if (!from->has_time || !to->has_time) return kInvalidValue;
  *milliseconds = static_cast<float>(to->milliseconds - from->milliseconds);
  return kSuccess;
}

EXPORT Result cuModuleLoadDataEx(Module* module, const void* image, unsigned count, int* options, void** values) {
  BEGIN_IN_CONTEXT("cuModuleLoadDataEx");
  auto made = std::make_unique<FakeModule>();
  made->text = static_cast<const char*>(image);
  if (made->text.find(".version") == std::string::npos) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == 5) std::strcpy(static_cast<char*>(values[i]), "ptxas fatal : line 1: no version\n");
    }
    return kBadPtx;
  }
  const std::string word = ".entry ";
  for (size_t at = made->text.find(word); at != std::string::npos; at = made->text.find(word, at + 1)) {
    const size_t open = made->text.find('(', at), close = made->text.find(')', open);
    if (close == std::string::npos) return kBadPtx;
    const std::string name = made->text.substr(at + word.size(), open - at - word.size());
    const std::string header = made->text.substr(open, close - open);
    size_t parameters = 0;
    for (size_t p = header.find(".param"); p != std::string::npos; p = header.find(".param", p + 1)) ++parameters;
    made->functions.emplace(name, std::make_unique<FakeFunction>(FakeFunction{name, parameters, made.get()}));
  }
  ++state().live;
  *module = reinterpret_cast<Module>(made.release());
  return kSuccess;
}
EXPORT Result cuModuleUnload(Module module) {
  --state().live;
  delete reinterpret_cast<FakeModule*>(module);
  return kSuccess;
}
EXPORT Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  const auto& functions = reinterpret_cast<FakeModule*>(module)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return kNotFound;
  *function = reinterpret_cast<Function>(found->second.get());
  return kSuccess;
}
EXPORT Result cuFuncSetAttribute(Function, int, int value) { return value <= 232448 ? kSuccess : kInvalidValue; }
EXPORT Result cuFuncGetAttribute(int* value, int, Function) {
  *value = 512;  // threads of a block
  return kSuccess;
}
EXPORT Result cuFuncGetParamInfo(Function function, size_t index, size_t* offset, size_t* bytes) {
  if (index >= reinterpret_cast<FakeFunction*>(function)->parameters) return kInvalidValue;
  *offset = 8 * index, *bytes = 8;
  return kSuccess;
}
EXPORT Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**) {
  BEGIN_IN_CONTEXT("cuLaunchKernelEx");
  const auto* const it = reinterpret_cast<FakeFunction*>(function);
  Values values;
  for (size_t i = 0; i < it->parameters; ++i) values.push_back(*static_cast<uint64_t*>(parameters[i]));
  ++state().launches;
  enqueue(config->stream, [name = it->name, values] { run_kernel(name, values); });
  return kSuccess;
}
EXPORT Result cuGetErrorName(Result error, const char** name) {
  *name = error == kLaunchFailed  ? "CUDA_ERROR_LAUNCH_FAILED"
          : error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == kBadPtx      ? "CUDA_ERROR_INVALID_PTX"
                                  : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}
EXPORT Result cuGetErrorString(Result, const char** text) {
  *text = "a fake text";
  return kSuccess;
}

// ---- cuBLASLt -------------------------------------------------------------------------------------------------------

EXPORT int cublasLtCreate(void** handle) {
  BEGIN("cublasLtCreate");
  *handle = &state();
  ++state().live;
  return 0;
}
EXPORT int cublasLtDestroy(void*) {
  --state().live;
  return 0;
}
EXPORT int cublasLtMatmulDescCreate(void** product, int compute, int) {
  ++state().live;
  *product = new FakeProduct{compute};
  return 0;
}
EXPORT int cublasLtMatmulDescDestroy(void* product) {
  --state().live;
  delete static_cast<FakeProduct*>(product);
  return 0;
}
EXPORT int cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t) {
  auto& it = *static_cast<FakeProduct*>(product);
  if (attribute == 3) it.transpose_a = *static_cast<const int32_t*>(value) != 0;
  if (attribute == 4) it.transpose_b = *static_cast<const int32_t*>(value) != 0;
  if (attribute == 7) it.epilogue = *static_cast<const uint32_t*>(value);
  if (attribute == 8) it.bias = *static_cast<const uint64_t*>(value);
  return 0;
}
EXPORT int cublasLtMatrixLayoutCreate(void** matrix, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (leading < static_cast<int64_t>(rows)) return 7;
  ++state().live;
  *matrix = new FakeMatrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(void* matrix) {
  --state().live;
  delete static_cast<FakeMatrix*>(matrix);
  return 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void* matrix, int attribute, const void* value, size_t) {
  auto& it = *static_cast<FakeMatrix*>(matrix);
  if (attribute == 5) it.count = *static_cast<const int32_t*>(value);
  if (attribute == 6) it.stride = *static_cast<const int64_t*>(value);
  return 0;
}
EXPORT int cublasLtMatmulPreferenceCreate(void** preference) {
  ++state().live;
  *preference = new int;
  return 0;
}
EXPORT int cublasLtMatmulPreferenceDestroy(void* preference) {
  --state().live;
  delete static_cast<int*>(preference);
  return 0;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(void*, void* product, void*, void*, void*, void*, void*, int, void* advice,
                                          int* count) {
  BEGIN("cublasLtMatmulAlgoGetHeuristic");
  std::memset(advice, 0, 96);
  ++state().advice;
  *count = static_cast<FakeProduct*>(product)->compute == 0 ? 0 : 1;
  return 0;
}
EXPORT int cublasLtMatmul(void*, void* product, const void* alpha, const void* a, void* a_form, const void* b,
                          void* b_form, const void*, const void*, void*, void* d, void* d_form, const void*, void*,
                          size_t, Stream stream) {
  BEGIN_IN_CONTEXT("cublasLtMatmul");
  const auto form = *static_cast<FakeProduct*>(product);
  const auto left = *static_cast<FakeMatrix*>(a_form), right = *static_cast<FakeMatrix*>(b_form),
             result = *static_cast<FakeMatrix*>(d_form);
  const double scale =
      form.compute == 70 ? *static_cast<const double*>(alpha) : static_cast<double>(*static_cast<const float*>(alpha));
  ++state().products;
  enqueue(stream, [=] {
    multiply(form, scale, left, reinterpret_cast<uint64_t>(a), right, reinterpret_cast<uint64_t>(b), result,
             reinterpret_cast<uint64_t>(d));
  });
  return 0;
}
EXPORT const char* cublasLtGetStatusString(int) { return "a status of the fake"; }
