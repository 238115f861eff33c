// The commands of `tenon device`, for those who build devices. Each has a source file of its own.
#pragma once

#include <string>

#include "command.h"

namespace tenon::cli {

Command device_check_command(CLI::App& device);
Command device_diff_command(CLI::App& device);
Command device_new_command(CLI::App& device);
Command device_sweep_command(CLI::App& device);
Command device_trace_command(CLI::App& device);

// A device as users write it: "atalla:body=rtl", or options of the only plug-in there is: "body=rtl", "rtl".
std::string device_spec(const std::string& text);

}  // namespace tenon::cli
