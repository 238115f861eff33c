// When things happen: the units, queues, tokens, banks and memory port of README.md, cycle by cycle, without data.
#pragma once

#include <deque>

#include "body.h"
#include "memory_port.h"

namespace atalla {

class Timing {
 public:
  // `commands` has passed a Checker, and outlives the object.
  Timing(const Machine& machine, std::span<const Command> commands);
  // Runs all commands. Writes an event for each if `events` is not null.
  Counters run(std::vector<Event>* events);

 private:
  // A unit's commands: pushed up to `tail`; each stage is at a command.
  struct Queue {
    std::vector<uint32_t> commands;  // indices in the stream
    size_t tail = 0;
    std::array<size_t, 3> at{};
  };
  // The place of a walk over outer x inner runs of several lines.
  struct Walk {
    uint32_t i = 0, j = 0, k = 0;
    bool advance(uint32_t outer, uint32_t inner, uint32_t lines);  // false at the end
  };
  // What wants which scratchpad bank in this cycle, -1: none. Requests are refused in the order of this struct.
  struct Banks {
    int64_t rows = -1, weights = -1, store = -1;
  };

  void step();
  void step_load_requests();
  void step_load_answers(const Banks& banks);
  void step_weights(bool preloaded, bool guarded);
  void step_rows(bool preloaded);
  void step_sums();
  void step_store(Banks& banks, bool sums_read);
  void step_epilogue(Banks& banks);
  void dispatch(const std::array<bool, kUnits>& ready);
  bool idle() const;

  bool has_tokens(Unit unit, const Command& command) const;
  void begin(Unit unit, uint32_t command);
  void end(Unit unit, uint32_t command);
  uint32_t at(Unit unit, size_t stage) const;
  int64_t line_bank(int64_t line) const { return line / (machine_.scratchpad_lines / machine_.scratchpad_banks); }
  int64_t row_bank(int64_t row) const { return row / (machine_.accumulator_rows / machine_.accumulator_banks); }
  bool rows_in_window() const;
  int64_t rows_line() const;
  bool row_leaves() const;  // in the next cycle
  int64_t leaving_row() const;
  bool grants(const Banks& banks, int64_t bank);

  Machine machine_;
  std::span<const Command> commands_;
  std::vector<Event>* events_ = nullptr;
  Counters counters_;
  size_t sent_ = 0;  // commands that the queues took
  std::array<Queue, kUnits> queues_;
  std::array<std::array<int32_t, kUnits>, kUnits> tokens_{}, given_{};  // [from][to]; given_ counts from the next cycle

  // Load.
  bool asking_ = false;
  Load ask_, answer_;
  Walk ask_walk_, answer_walk_;
  bool answer_fresh_ = true;
  std::deque<uint64_t> answers_;  // the cycle from which each is there
  MemoryChannel read_channel_, write_channel_;

  // Compute.
  bool loading_ = false, feeding_ = false;
  Matmul weights_, rows_;
  uint32_t weight_row_ = 0, guard_ = 0;
  Walk rows_walk_;
  std::vector<uint8_t> pipeline_;     // by cycle modulo its size: whether a row entered the array then
  uint32_t summed_ = 0;               // rows of the command that leaves the array
  std::optional<uint32_t> last_sum_;  // the command whose last row is written in this cycle
  bool summing_ = false;

  // Store.
  bool setting_ = false, storing_ = false;
  uint32_t store_command_ = 0;
  Store store_;
  Epilogue epilogue_;
  uint32_t vector_ = 0, rows_read_ = 0, rows_written_ = 0;
  bool vector_comes_ = false, came_ = false, full_ = false, just_began_ = false;
  uint32_t out_left_ = 0;
  uint64_t out_address_ = 0;
};

}  // namespace atalla
