// Tile actions as Atalla's commands, and their form in a file.
#pragma once

#include <span>
#include <vector>

#include "isa.h"
#include "tenon/device.h"

namespace atalla {

inline constexpr uint32_t kNoBuffer = UINT32_MAX - 1;
inline constexpr uint32_t kZeros = UINT32_MAX - 2;  // a page of zeros in the device's memory

// A command whose address counts from the start of a buffer of the launch.
struct Relocatable {
  Command command;
  uint32_t buffer = kNoBuffer;  // or TENON_SCRATCH, kZeros
  uint32_t node = 0;            // of the segment
};

// Throws std::runtime_error for an action that the machine has no command for.
Relocatable encode(const tenon_tile_action& action);

// Code: a header with the machine, then the commands.
std::vector<uint8_t> to_bytes(std::span<const Relocatable> commands, const Machine& machine);
// Throws std::runtime_error if the bytes are no code, or code for another machine.
std::vector<Relocatable> from_bytes(std::span<const uint8_t> bytes, const Machine& machine);

}  // namespace atalla
