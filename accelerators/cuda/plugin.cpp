// libtenon_cuda.so: NVIDIA GPUs as a device of Tenon, behind include/tenon/device.h. docs/cuda.md is the manual.
#include <mutex>
#include <set>

#include "gpu.h"
#include "program.h"
#include "tenon/cuda.h"
#include "tenon/device.h"

struct tenon_device {
  tenon::cuda::Gpu gpu;
};

struct tenon_device_program {
  tenon::cuda::Program program;
};

namespace tenon::cuda {
namespace {

// Turns what `body` throws into a status and a text.
template <class Body>
tenon_status guarded(tenon_text* error, Body body) noexcept {
  try {
    body();
    return TENON_OK;
  } catch (const StatusError& failure) {
    return tenon_write_text(error, failure.status(), failure.what());
  } catch (const std::bad_alloc&) {
    return tenon_write_text(error, TENON_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& failure) {
    return tenon_write_text(error, TENON_INTERNAL, failure.what());
  }
}

// Likewise, with the GPU's context as that of the thread.
template <class Body>
tenon_status on_gpu(tenon_device* device, tenon_text* error, Body body) noexcept {
  return guarded(error, [&] {
    const Current current(device->gpu.driver(), device->gpu.context());
    body(device->gpu);
  });
}

tenon_status describe(const char* options, tenon_device_info* info, tenon_text* error) {
  return guarded(error, [=] {
    info->name = "cuda";
    info->version = "1";  // of format/cuda.fbs
    info->doc = "NVIDIA GPUs of compute capability 8.0 and newer";
    info->flags = TENON_DEVICE_KERNELS;
    info->memory = memory_of_device(options_from(options));
    info->alignment = kAlignment;
    info->crossing_seconds = 10e-6;  // a copy and its wait
    info->bytes_per_second = 20e9;   // PCIe 4 with 16 lanes, from memory that is not pinned
  });
}

// All open devices, for functions that take none. It outlives whoever closes a device while the process ends.
struct Devices {
  std::mutex mutex;
  std::set<tenon_device*> open;
};
Devices& devices() {
  static auto& all = *new Devices;  // NOLINT: never freed
  return all;
}

tenon_status open(const char* options, tenon_device** device, tenon_text* error) {
  return guarded(error, [=] {
    *device = new tenon_device{.gpu = Gpu(options_from(options))};
    const std::lock_guard lock(devices().mutex);
    devices().open.insert(*device);
  });
}

void release(tenon_device* device, tenon_device_program* program) {
  if (program == nullptr) {
    {
      const std::lock_guard lock(devices().mutex);
      devices().open.erase(device);
    }
    delete device;
    return;
  }
  on_gpu(device, nullptr, [&](Gpu& gpu) {
    gpu.queue().finish();
    delete program;
  });
}

tenon_status compile(tenon_device*, const tenon_segment*, tenon_sink*, tenon_text* error) {
  return tenon_write_text(error, TENON_UNSUPPORTED,
                          "Tenon's compiler makes the code of CUDA devices, not this library");
}

tenon_status load(tenon_device* device, const void* code, size_t bytes, tenon_device_program** program,
                  tenon_text* error) {
  return on_gpu(device, error, [=](Gpu& gpu) {
    *program = new tenon_device_program{.program = Program(gpu, {static_cast<const std::byte*>(code), bytes})};
  });
}

tenon_status allocate(tenon_device* device, uint64_t bytes, uint64_t, void** memory, tenon_text* error) {
  return on_gpu(device, error, [=](Gpu& gpu) { *memory = reinterpret_cast<void*>(gpu.memory().allocate(bytes)); });
}

void free(tenon_device* device, void* memory) { device->gpu.memory().free(reinterpret_cast<Address>(memory)); }

tenon_status copy(tenon_device* device, void* to, const void* from, uint64_t bytes, int to_device, uint64_t* ticket,
                  tenon_text* error) {
  return on_gpu(device, error, [=](Gpu& gpu) {
    *ticket = to_device != 0 ? gpu.queue().copy_in(reinterpret_cast<Address>(to), from, bytes)
                             : gpu.queue().copy_out(to, reinterpret_cast<Address>(from), bytes);
  });
}

tenon_status submit(tenon_device* device, tenon_device_program* program, const tenon_launch* launch, uint64_t* ticket,
                    tenon_text* error) {
  return on_gpu(device, error, [=](Gpu&) { *ticket = program->program.launch(*launch); });
}

tenon_status wait(tenon_device* device, uint64_t ticket, tenon_text* error) {
  return on_gpu(device, error, [=](Gpu& gpu) { gpu.queue().wait(ticket); });
}

tenon_status events(tenon_device* device, tenon_device_event* events, uint64_t capacity, uint64_t* count,
                    tenon_text* error) {
  return on_gpu(device, error, [=](Gpu& gpu) { *count = gpu.queue().take_times(events, capacity); });
}

}  // namespace
}  // namespace tenon::cuda

extern "C" TENON_API const tenon_device_api* tenon_device_plugin_v1(const tenon_host*) {
  using namespace tenon::cuda;  // NOLINT: this function is a face of it
  static const tenon_device_api api{.size = sizeof api,
                                    .describe = describe,
                                    .open = open,
                                    .release = release,
                                    .claim = nullptr,
                                    .compile = compile,
                                    .load = load,
                                    .allocate = allocate,
                                    .free = free,
                                    .copy = copy,
                                    .submit = submit,
                                    .wait = wait,
                                    .events = events};
  return &api;
}

extern "C" TENON_API void tenon_cuda_use_stream(void* stream) {
  tenon::cuda::chosen_stream() = static_cast<tenon::cuda::Stream>(stream);
}
extern "C" TENON_API void tenon_cuda_use_own_stream(void) { tenon::cuda::chosen_stream().reset(); }

extern "C" TENON_API tenon_status tenon_cuda_check_graphs(tenon_text* error) {
  using namespace tenon::cuda;  // NOLINT: likewise
  const std::lock_guard lock(devices().mutex);
  for (tenon_device* device : devices().open) {
    const tenon_status status = guarded(error, [device] { device->gpu.queue().check_graphs(); });
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}
