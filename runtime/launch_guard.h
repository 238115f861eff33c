// Launches between guard zones, to find a device that writes where it must not.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace tenon::runtime {

struct LaunchBuffer {
  std::byte* memory = nullptr;  // of the device
  int64_t bytes = 0;
  bool is_output = false;
};

// Runs a launch to its end, in copies of its buffers with zones around each, and copies what it wrote back. Throws a
// StatusError if the device wrote outside of a buffer, or into one that it may only read. `buffers` are those of the
// launch, whose scratch has the size that the program asked for; `name` is the task's.
void run_between_guards(const DeviceProgram& program, const tenon_launch& launch,
                        const std::vector<LaunchBuffer>& buffers, std::string_view name);

}  // namespace tenon::runtime
