// The memory of a tensor that may lie in the host's memory, in a device's, or in both. It knows which copies are
// current, and moves the value when somebody asks for it elsewhere.
//
// States of programs with devices are such tensors, and so are tensors of callers that lie on a device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace tenon::runtime {

class DeviceTensor {
 public:
  DeviceTensor(std::byte* host, int64_t bytes);  // memory of the caller, which is current
  // Memory of a device, which is current. The host has no copy until somebody asks for one.
  explicit DeviceTensor(DeviceBlock block);
  DeviceTensor(const DeviceTensor&) = delete;

  int64_t bytes() const { return bytes_; }

  // ---- the host ----
  std::byte* host() const { return host_; }  // memory, current or not; null if there is none
  std::byte* on_host();                      // the value. Copies it from a device if need be.
  void written_on_host();                    // copies in devices are out of date

  // ---- a device ----
  const std::shared_ptr<Device>& device() const { return copies_.front().device; }  // of a tensor that has one
  const std::byte* device_memory() const { return copies_.front().block.data(); }   // likewise
  bool is_current_on(const Device& device) const;
  std::byte* memory_on(const std::shared_ptr<Device>& device);  // current or not
  void arrived_on(const Device& device);                        // that memory has the value now
  // Only that memory has the value.
  void written_on(const Device& device);
  std::byte* on_device(const std::shared_ptr<Device>& device);  // the value. Copies it from the host if need be.
  // Memory for the next value, while the value itself is still read; then next_is_written makes it the value.
  std::byte* next_on(const std::shared_ptr<Device>& device);
  void next_is_written(const Device& device, bool is_on_host);  // the host has it, too

 private:
  struct Copy {
    std::shared_ptr<Device> device;
    DeviceBlock block = {};
    DeviceBlock next = {};
    bool is_current = false;
  };
  Copy* find(const Device& device);
  const Copy* find(const Device& device) const { return const_cast<DeviceTensor*>(this)->find(device); }
  Copy& copy_on(const std::shared_ptr<Device>& device);

  int64_t bytes_;
  std::byte* host_ = nullptr;
  std::unique_ptr<std::byte[]> own_host_;
  bool is_on_host_ = false;
  std::vector<Copy> copies_;
  std::mutex mutex_;  // of on_host: threads share tensors that they only read
};

}  // namespace tenon::runtime
