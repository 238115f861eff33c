// Checks a stream before any of it runs: fields and addresses, tokens, and races. A stream that passes gives the same
// bits on every body, whatever their timing, and cannot deadlock.
//
// Tokens. Each command must find its tokens if the stream runs one command after the other. Then the oldest command
// that is not done always has its tokens and stands at the head of its queue, so that no order of events deadlocks.
//
// Races. Commands of different units that touch the same line, accumulator row or 16 bytes of memory, at least one of
// them writing, must be ordered by tokens. The checker keeps, for each unit, how many commands of each other unit are
// known to be done (a vector clock); tokens carry that knowledge.
#pragma once

#include <deque>
#include <span>

#include "body.h"
#include "zeroed.h"

namespace atalla {

class Checker {
 public:
  Checker(const Machine& machine, uint64_t memory_bytes);
  std::optional<Fault> check(std::span<const Command> commands);

 private:
  using Clock = std::array<uint32_t, kUnits>;
  // Places of one memory, which one unit writes and others read.
  struct Places {
    const char* name = "";
    Unit writer = Unit::kLoad;
    Zeroed<uint32_t> written;                        // ordinal of the last command that wrote a place; 0: none
    std::array<Zeroed<uint32_t>, kUnits> read = {};  // by unit: ordinal of the last command that read it
  };

  std::string check_command(const Command& command);
  std::string check_load(const Load& command);
  std::string check_matmul(const Matmul& command);
  std::string check_epilogue(const Epilogue& command);
  std::string check_store(const Store& command);
  std::string take_tokens(const Command& command, Unit unit);
  std::string give_tokens(const Command& command, Unit unit);
  std::string touch(Places& places, int64_t place, bool writes);
  std::string touch_memory(uint64_t address, uint64_t bytes, bool writes);
  std::string touch_rows(uint16_t first, uint32_t count, bool writes);
  std::string touch_residual(const Store& command, uint32_t rows);

  Machine machine_;
  uint64_t memory_bytes_;
  Places scratchpad_, accumulators_, memory_;
  Unit unit_ = Unit::kLoad;            // of the command being checked
  std::optional<bool> float_weights_;  // the type of the weights in the array; none: nothing was loaded
  std::array<uint32_t, kUnits> ordinals_{};
  std::array<Clock, kUnits> clocks_{};
  std::array<std::array<std::deque<Clock>, kUnits>, kUnits> tokens_;  // [from][to]
};

}  // namespace atalla
