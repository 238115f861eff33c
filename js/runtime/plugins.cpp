// There are no plug-ins: programs run on the CPU.
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/plugin_call.h"

namespace tenon::runtime {
namespace {

[[noreturn]] void fail_without(std::string_view device) {
  fail(TENON_INVALID_ARGUMENT, "there is no device '", device, "'; the devices are cpu");
}

}  // namespace

std::shared_ptr<Device> open_device(std::string_view spec) { fail_without(name_of_spec(spec)); }
std::string_view name_of_spec(std::string_view spec) { return spec.substr(0, spec.find(':')); }
bool has_device(std::string_view) { return false; }
bool load_device(std::string_view) { return false; }
const DeviceSettings& device_settings() {
  static const DeviceSettings settings;
  return settings;
}
void call_frame(std::string_view device, const char*, std::shared_ptr<PluginFrame>) { fail_without(device); }

}  // namespace tenon::runtime
