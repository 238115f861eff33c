// Launches of a device, command by command: include/tenon/device_debug.h in C++.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace tenon::cli {

struct CommandInfo {
  uint32_t unit = 0;
  uint32_t node = UINT32_MAX;
  uint64_t action = TENON_NO_COMMAND;
  std::string text;
};

struct CommandWrite {
  uint32_t memory = TENON_DEBUG_MEMORY;
  uint32_t buffer = 0;
  uint64_t address = 0;
  std::vector<uint8_t> bytes = {};

  bool operator==(const CommandWrite&) const = default;
};

struct LaunchQuestions {
  bool digests = false;
  bool events = false;
  std::optional<uint64_t> logged = {};  // the command whose writes are asked for
  std::optional<uint64_t> waved = {};   // the command around which a waveform is asked for,
  std::string waves_path = {};          // in this file
};

struct LaunchAnswers {
  std::string fault = {};               // of a launch that failed
  std::optional<uint64_t> failed = {};  // its command, where the device knows it
  std::vector<uint64_t> digests = {};   // by command
  std::vector<tenon_debug_event> events = {};
  std::vector<CommandWrite> writes = {};
  std::vector<std::pair<std::string, uint64_t>> counters = {};

  uint64_t counter(std::string_view name) const;  // 0 if there is none
};

inline bool has_commands(const runtime::DeviceProgram& program) { return program.device().debug() != nullptr; }
uint64_t command_count(const runtime::DeviceProgram& program);  // 0 where the device tells nothing of commands
CommandInfo command_of(const runtime::DeviceProgram& program, uint64_t number);

// A launch, which has ended when the function returns. One that fails is an answer. Without questions, any device will
// do. Throws an Error where the device cannot answer.
LaunchAnswers launch(const runtime::DeviceProgram& program, const tenon_launch& launch,
                     const LaunchQuestions& questions);

// The buffers of one launch, in the memory of its device.
class LaunchMemory {
 public:
  // Buffers with these contents.
  LaunchMemory(const runtime::DeviceProgram& program, const std::vector<std::vector<std::byte>>& contents);
  tenon_launch launch(const std::vector<int64_t>& sizes);  // valid as long as the object and `sizes`
  std::vector<std::byte> read(size_t buffer) const;

 private:
  const runtime::DeviceProgram& program_;
  std::vector<runtime::DeviceBlock> blocks_;
  runtime::DeviceBlock scratch_;
  std::vector<void*> buffers_;
};

}  // namespace tenon::cli
