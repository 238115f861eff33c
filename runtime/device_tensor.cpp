#include "runtime/device_tensor.h"

#include <algorithm>

namespace tenon::runtime {

DeviceTensor::DeviceTensor(std::byte* host, int64_t bytes) : bytes_(bytes), host_(host), is_on_host_(true) {}

DeviceTensor::DeviceTensor(DeviceBlock block) : bytes_(block.bytes()) {
  const std::shared_ptr<Device> device = block.device();
  copies_.push_back({device, std::move(block), {}, true});
}

DeviceTensor::Copy* DeviceTensor::find(const Device& device) {
  const auto found = std::ranges::find_if(copies_, [&](const Copy& copy) { return copy.device.get() == &device; });
  return found == copies_.end() ? nullptr : &*found;
}

DeviceTensor::Copy& DeviceTensor::copy_on(const std::shared_ptr<Device>& device) {
  Copy* const known = find(*device);
  return known != nullptr ? *known : copies_.emplace_back(Copy{device});
}

std::byte* DeviceTensor::on_host() {
  const std::lock_guard lock(mutex_);
  if (is_on_host_) return host_;
  if (host_ == nullptr) {
    own_host_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes_));
    host_ = own_host_.get();
  }
  for (Copy& copy : copies_) {
    if (!copy.is_current) continue;
    copy.device->wait(copy.device->copy_out(host_, copy.block.data(), bytes_));
    is_on_host_ = true;
    break;
  }
  return host_;
}

void DeviceTensor::written_on_host() {
  is_on_host_ = true;
  for (Copy& copy : copies_) copy.is_current = false;
}

bool DeviceTensor::is_current_on(const Device& device) const {
  const Copy* const copy = find(device);
  return copy != nullptr && copy->is_current;
}

std::byte* DeviceTensor::memory_on(const std::shared_ptr<Device>& device) {
  Copy& copy = copy_on(device);
  if (copy.block.data() == nullptr) copy.block = DeviceBlock(device, bytes_);
  return copy.block.data();
}

void DeviceTensor::arrived_on(const Device& device) { find(device)->is_current = true; }

void DeviceTensor::written_on(const Device& device) {
  written_on_host();
  is_on_host_ = false;
  arrived_on(device);
}

std::byte* DeviceTensor::on_device(const std::shared_ptr<Device>& device) {
  std::byte* const memory = memory_on(device);
  if (is_current_on(*device)) return memory;
  device->wait(device->copy_in(memory, on_host(), bytes_));
  arrived_on(*device);
  return memory;
}

std::byte* DeviceTensor::next_on(const std::shared_ptr<Device>& device) {
  Copy& copy = copy_on(device);
  if (copy.next.data() == nullptr) copy.next = DeviceBlock(device, bytes_);
  return copy.next.data();
}

void DeviceTensor::next_is_written(const Device& device, bool is_on_host) {
  Copy& copy = *find(device);
  std::swap(copy.block, copy.next);
  written_on(device);
  is_on_host_ = is_on_host;
}

}  // namespace tenon::runtime
