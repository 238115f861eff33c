// The area of a device with given options, as a program beside the plug-in tells it.
#pragma once

#include <optional>
#include <string>

#include "sweep_grid.h"

namespace tenon::cli {

struct DeviceArea {
  double amount = 0;
  std::string unit;  // "cells", or "units (estimated)"
};

// The program for a plug-in: npu.area beside npu.so. Empty if it is not there.
std::string area_program_of(const std::string& library);

// Runs `program size=8 dma_bytes=16`, whose first line must be "AMOUNT UNIT". Throws an Error that has what the program
// wrote on standard error.
DeviceArea area_of(const std::string& program, const SweepOptions& options);

}  // namespace tenon::cli
