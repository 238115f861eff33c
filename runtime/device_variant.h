// Programs of a file with tasks of devices, and whether this process can run them. A file loads no plug-in: devices are
// those that the process has loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "format/native_generated.h"
#include "format/program_generated.h"
#include "runtime/container.h"
#include "runtime/device.h"

namespace tenon::runtime {

struct DeviceVariant {
  const Container::Section* section = nullptr;
  std::string needs = {};                             // what its devices are: "npu 1.2, dsp 3"
  std::vector<std::shared_ptr<Device>> devices = {};  // open, one for each of its spaces, if there is no problem
  std::string problem = {};                           // why it does not run here
};

// `wanted` is a device that it must use; its options take the place of those in the file. Opens devices. Throws a
// StatusError if the section is malformed.
DeviceVariant find_devices(const Container& container, const Container::Section& section, std::string_view wanted = {});

// The first that runs here, in the order of the file. Without a section if there is none. Throws a StatusError if
// `wanted` names a device and there is none: it lists what there is.
DeviceVariant choose_variant(const Container& container, std::string_view prefix, std::string_view wanted);

// The tables of a section, verified as FlatBuffers.
const format::Program& program_of(const Container::Section& section);
const format::Native& native_of(const Container::Section& section);

std::string joined(const std::vector<std::string>& words);  // with commas

}  // namespace tenon::runtime
