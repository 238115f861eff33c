// A kernel, or a segment, as code of a device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tenon {

// `sizes` are those of a launch. `ir` is the kernel; without one it is a segment, which runs as a part of programs
// only. Running a kernel by itself brings its arrays to the device and back.
std::unique_ptr<Compiled> device_kernel(std::shared_ptr<const runtime::DeviceProgram> program, std::vector<Expr> sizes,
                                        std::string text, std::optional<loops::IR> ir);

// What code_of (device_backend.h) made. Throws an Error if it is cut off.
runtime::Device::Code code_from(std::string_view kept);

}  // namespace tenon
