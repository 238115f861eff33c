// The backend of a plug-in's device (include/tenon/device.h): claims nodes by the device's rules, and gives the device
// segments or kernels to compile.
#pragma once

#include <memory>
#include <string_view>

#include "backends/backend.h"

namespace tenon {

// The backend of a device by its spec. Null where there is no device of that name; throws an Error if it does not open.
std::shared_ptr<const Backend> plugin_backend(std::string_view spec);

}  // namespace tenon
