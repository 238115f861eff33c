#include "backends/cuda/absent.h"

#include <atomic>

namespace tenon {
namespace {

tenon_status refuse(tenon_text* error) {
  return tenon_write_text(
      error, TENON_UNSUPPORTED,
      "this machine has no GPU that Tenon can use: write the program to a file, for another machine");
}

// As accelerators/cuda/plugin.cpp.
tenon_status describe(const char*, tenon_device_info* info, tenon_text*) {
  info->name = "cuda";
  info->version = "1";
  info->doc = "an NVIDIA GPU of another machine";
  info->flags = TENON_DEVICE_KERNELS;
  info->alignment = 256;
  info->crossing_seconds = 10e-6;
  info->bytes_per_second = 20e9;
  return TENON_OK;
}

tenon_status open(const char*, tenon_device**, tenon_text*) { return TENON_OK; }

tenon_status compile(tenon_device*, const tenon_segment*, tenon_sink*, tenon_text* error) { return refuse(error); }

tenon_status load(tenon_device*, const void*, size_t, tenon_device_program**, tenon_text*) { return TENON_OK; }

// Addresses that overlap no others, and are never read or written.
tenon_status allocate(tenon_device*, uint64_t bytes, uint64_t alignment, void** memory, tenon_text*) {
  static std::atomic<uint64_t> next = uint64_t{1} << 48;
  *memory = reinterpret_cast<void*>(next.fetch_add((bytes + alignment - 1) / alignment * alignment));  // NOLINT
  return TENON_OK;
}

void free(tenon_device*, void*) {}

// Programs bring their weights to a device when they are made.
tenon_status copy(tenon_device*, void*, const void*, uint64_t, int to_device, uint64_t* ticket, tenon_text* error) {
  *ticket = 0;
  return to_device != 0 ? TENON_OK : refuse(error);
}

tenon_status submit(tenon_device*, tenon_device_program*, const tenon_launch*, uint64_t*, tenon_text* error) {
  return refuse(error);
}

}  // namespace

std::shared_ptr<runtime::Device> absent_cuda_device(const std::string& options) {
  static const tenon_device_api api{.size = sizeof api,
                                    .describe = describe,
                                    .open = open,
                                    .release = nullptr,
                                    .claim = nullptr,
                                    .compile = compile,
                                    .load = load,
                                    .allocate = allocate,
                                    .free = free,
                                    .copy = copy,
                                    .submit = submit,
                                    .wait = nullptr,
                                    .events = nullptr};
  return std::make_shared<runtime::Device>(api, options);
}

}  // namespace tenon
