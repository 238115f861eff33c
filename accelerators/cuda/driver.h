// The part of NVIDIA's driver that the device uses, opened when the program runs: the build needs no CUDA.
//
// Types and numbers are those of the driver's stable interface, version 12 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/error.h"

namespace tenon::cuda {

using runtime::fail;
using runtime::StatusError;
using runtime::text_of;

using Result = int;  // 0: success
using DeviceNumber = int;
using Address = uint64_t;  // in the GPU's memory
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;  // null: the default stream
using EventHandle = struct EventHandleOf*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;

enum : Result { kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600 };
enum : int {  // what a GPU is asked for
  kMaxThreads = 1,
  kMaxBlockX = 2,
  kMaxGridX = 5,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMaxSharedBytes = 97
};
enum : int { kThreadsOfFunction = 0, kDynamicSharedBytes = 8 };
enum : unsigned { kEventWithoutTime = 2, kHostMapped = 2 };

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  void* attributes = nullptr;
  unsigned attribute_count = 0;
};

// X(member, symbol, parameters)
#define TENON_CUDA_DRIVER_FUNCTIONS(X)                                                                            \
  X(init, "cuInit", (unsigned flags))                                                                             \
  X(version, "cuDriverGetVersion", (int* version))                                                                \
  X(device_count, "cuDeviceGetCount", (int* count))                                                               \
  X(device, "cuDeviceGet", (DeviceNumber * device, int ordinal))                                                  \
  X(device_name, "cuDeviceGetName", (char* name, int capacity, DeviceNumber device))                              \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t* bytes, DeviceNumber device))                                   \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DeviceNumber device))                   \
  X(retain_context, "cuDevicePrimaryCtxRetain", (Context * context, DeviceNumber device))                         \
  X(release_context, "cuDevicePrimaryCtxRelease_v2", (DeviceNumber device))                                       \
  X(push_context, "cuCtxPushCurrent_v2", (Context context))                                                       \
  X(pop_context, "cuCtxPopCurrent_v2", (Context * context))                                                       \
  X(memory_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                                \
  X(allocate, "cuMemAlloc_v2", (Address * memory, size_t bytes))                                                  \
  X(free, "cuMemFree_v2", (Address memory))                                                                       \
  X(allocate_host, "cuMemHostAlloc", (void** memory, size_t bytes, unsigned flags))                               \
  X(free_host, "cuMemFreeHost", (void* memory))                                                                   \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, size_t bytes, Stream stream))                 \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void* to, Address from, size_t bytes, Stream stream))                      \
  X(fill8, "cuMemsetD8Async", (Address to, unsigned char value, size_t count, Stream stream))                     \
  X(create_stream, "cuStreamCreate", (Stream * stream, unsigned flags))                                           \
  X(destroy_stream, "cuStreamDestroy_v2", (Stream stream))                                                        \
  X(finish_stream, "cuStreamSynchronize", (Stream stream))                                                        \
  X(is_capturing, "cuStreamIsCapturing", (Stream stream, int* status))                                            \
  X(stream_waits, "cuStreamWaitEvent", (Stream stream, EventHandle event, unsigned flags))                        \
  X(create_event, "cuEventCreate", (EventHandle * event, unsigned flags))                                         \
  X(destroy_event, "cuEventDestroy_v2", (EventHandle event))                                                      \
  X(record_event, "cuEventRecord", (EventHandle event, Stream stream))                                            \
  X(finish_event, "cuEventSynchronize", (EventHandle event))                                                      \
  X(elapsed, "cuEventElapsedTime", (float* milliseconds, EventHandle begin, EventHandle end))                     \
  X(load_module, "cuModuleLoadDataEx",                                                                            \
    (Module * module, const void* image, unsigned count, int* options, void** values))                            \
  X(unload_module, "cuModuleUnload", (Module module))                                                             \
  X(find_function, "cuModuleGetFunction", (Function * function, Module module, const char* name))                 \
  X(set_function, "cuFuncSetAttribute", (Function function, int attribute, int value))                            \
  X(function_attribute, "cuFuncGetAttribute", (int* value, int attribute, Function function))                     \
  X(parameter, "cuFuncGetParamInfo", (Function function, size_t index, size_t* offset, size_t* bytes))            \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig* config, Function function, void** parameters, void** extra)) \
  X(error_name, "cuGetErrorName", (Result error, const char** name))                                              \
  X(error_text, "cuGetErrorString", (Result error, const char** text))

struct Driver {
#define TENON_CUDA_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
  TENON_CUDA_DRIVER_FUNCTIONS(TENON_CUDA_MEMBER)
#undef TENON_CUDA_MEMBER

  // "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
  std::string describe(Result error) const;
  void check(Result result, const char* what) const {  // throws a StatusError: "cannot <what>: <error>"
    if (result != kSuccess) [[unlikely]]
      fail_for(result, what);
  }

 private:
  [[noreturn, gnu::cold]] void fail_for(Result result, const char* what) const;
};

// The driver of this machine, with cuInit() done: $TENON_CUDA_DRIVER, or else libcuda.so.1. It is opened once and
// stays. Throws a StatusError that says what is missing: the driver, a newer one, a GPU.
const Driver& find_driver();

// The number of GPUs of a driver: at least one. Throws a StatusError.
int count_devices(const Driver& driver);

// Makes a context that of the calling thread, as long as it lives.
class Current {
 public:
  Current(const Driver& driver, Context context) : driver_(driver) {
    driver.check(driver.push_context(context), "use the GPU");
  }
  ~Current() {
    Context popped;
    driver_.pop_context(&popped);
  }
  Current(const Current&) = delete;

 private:
  const Driver& driver_;
};

}  // namespace tenon::cuda
