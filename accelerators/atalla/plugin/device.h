// Inside of the plug-in: what is open, loaded and running.
#pragma once

#include <deque>
#include <span>
#include <stdexcept>

#include "body.h"
#include "plugin/encode.h"
#include "plugin/heap.h"
#include "plugin/options.h"
#include "tenon/device_debug.h"

struct tenon_device {
  atalla::DeviceOptions options;
  std::unique_ptr<atalla::Body> body;
  atalla::Heap heap;
  uint64_t tickets = 0;
  uint64_t cycles = 0;  // since it was opened: the device's clock
  std::deque<tenon_device_event> events = {};

  uint64_t now_ns() const { return static_cast<uint64_t>(static_cast<double>(cycles) / options.hertz * 1e9); }
};

struct tenon_device_program {
  std::vector<atalla::Relocatable> commands;
};

namespace atalla {

inline constexpr uint64_t kZeroPage = 4096;  // at address 0, so that no tensor has it

// Runs the body of a function of a table. Nothing is thrown across it.
template <typename Function>
tenon_status guarded(tenon_text* error, tenon_status status, const Function& function) {
  try {
    function();
    return TENON_OK;
  } catch (const std::bad_alloc&) {
    return tenon_write_text(error, TENON_OUT_OF_MEMORY, "the host has no memory for the device");
  } catch (const std::exception& failure) {
    return tenon_write_text(error, status, failure.what());
  }
}

// Where an address of the device lies in the body's memory. Throws std::runtime_error if the bytes are not there.
uint64_t offset_in(tenon_device* device, const void* address, uint64_t bytes);

// A program with the addresses of a launch.
struct Stream {
  std::vector<Command> commands;
  std::vector<uint64_t> bases;  // by command: where its buffer begins; 0 for commands without one
};
Stream stream_of(tenon_device* device, const tenon_device_program& program, const tenon_launch& launch);

std::string fault_text(const Fault& fault, std::span<const Command> commands);

}  // namespace atalla
