// The devices behind lazy:0, lazy:1, ...: the CPU, then those of plug-ins.
#pragma once

#include <torch/csrc/lazy/backend/backend_device.h>

#include "compiler.h"

namespace tenon::lazy_device {

inline int64_t device_count() { return static_cast<int64_t>(compiler().device_count()); }

// Empty if there is no such device. Opens none: one that cannot be opened disturbs no other.
inline std::string device_name(int64_t ordinal) {
  const char* const name = compiler().device_name(static_cast<uint64_t>(ordinal));
  return name == nullptr ? "" : name;
}

inline tenon_device_facts device_facts(int64_t ordinal) {
  tenon_device_facts facts = {sizeof(tenon_device_facts), nullptr, 0, 0, 0};
  checked([&](tenon_text* error) { return compiler().device_facts(static_cast<uint64_t>(ordinal), &facts, error); });
  return facts;
}

inline std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (int64_t i = 0; i < device_count(); ++i) names.push_back(device_name(i));
  return names;
}

inline void check_device(int64_t ordinal) {
  if (ordinal <= 0) return;
  const int64_t count = device_count();
  TORCH_CHECK(ordinal < count, "there is no device lazy:", ordinal, ": there are ", count, ", from lazy:0 on");
}

// Prints as "Tenon:cpu:0", "Tenon:npu:1".
class DeviceType : public torch::lazy::BackendDeviceType {
 public:
  explicit DeviceType(int64_t ordinal) : BackendDeviceType(static_cast<int8_t>(at::kCPU)), ordinal_(ordinal) {}
  std::string toString() const override {
    const std::string name = device_name(ordinal_);
    return name.empty() ? "Tenon:" : "Tenon:" + name + ":";
  }

 private:
  int64_t ordinal_;
};

}  // namespace tenon::lazy_device
