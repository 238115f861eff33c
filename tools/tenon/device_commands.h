// The commands of `tenon device`, for those who build devices. Each has a source file of its own.
#pragma once

#include "command.h"

namespace tenon::cli {

Command device_check_command(CLI::App& device);
Command device_new_command(CLI::App& device);
Command device_sweep_command(CLI::App& device);

}  // namespace tenon::cli
