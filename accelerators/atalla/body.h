// A body of Atalla runs streams of commands on memory of its own. All bodies give the same bits.
//
//     std::string error;
//     const auto body = make_body("cycles", Machine{}, {}, error);
//     std::ranges::copy(bytes, body->memory().begin());
//     const RunResult run = body->submit(commands);
//     if (!run.fault) std::cout << run.counters.cycles;
#pragma once

#include <memory>
#include <span>

#include "isa.h"

namespace atalla {

// Why a stream was refused, or stopped.
struct Fault {
  uint32_t command = 0;  // index in the stream
  std::string reason;
};

// Cycles, but for `rows`. A body that keeps no time (`model`) leaves all of them 0 but `rows`.
struct Counters {
  uint64_t cycles = 0;         // from the first command to idle
  uint64_t rows = 0;           // of activations that entered the array: cycles in which it is busy
  uint64_t load_waits = 0;     // the load unit has a command, and waits for a token
  uint64_t compute_waits = 0;  // likewise, to load weights
  uint64_t store_waits = 0;
  uint64_t weight_stalls = 0;  // the array is idle, and its next command's weights are not loaded yet
  uint64_t bank_stalls = 0;    // of each reader or writer that another one keeps from a bank
  uint64_t read_stalls = 0;    // the memory does not take a read request
  uint64_t write_stalls = 0;   // likewise a write

  bool operator==(const Counters&) const = default;
  // The part of the array's multipliers that had work, over all cycles.
  double utilization() const { return cycles == 0 ? 0 : static_cast<double>(rows) / static_cast<double>(cycles); }
};

struct Event {
  uint32_t command = 0;
  Unit unit = Unit::kLoad;
  uint64_t begin = 0;  // the cycle in which the command has its tokens
  uint64_t end = 0;    // the cycle after its last write
};

// Bytes that a command wrote: to the scratchpad (load, at line * N), the accumulators (matmul, at row * 4 * N) or
// memory (store).
struct Write {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;

  bool operator==(const Write&) const = default;
};

struct RunOptions {
  bool events = false;          // fill RunResult::events
  bool digests = false;         // fill RunResult::digests
  std::optional<uint32_t> log;  // fill RunResult::writes with what this command writes
  // By command: subtracted from the addresses of its writes to memory, in digests and logs. Empty: nothing is.
  std::span<const uint64_t> bases;
  std::optional<uint32_t> waves;  // `rtl`: write a waveform around this command
  std::string waves_path = "atalla.vcd";
};

struct RunResult {
  std::optional<Fault> fault;
  Counters counters;
  std::vector<Event> events;      // by command
  std::vector<uint64_t> digests;  // by command: a hash of its writes, in order. Bodies that agree have equal digests.
  std::vector<Write> writes;
};

class Body {
 public:
  virtual ~Body() = default;
  virtual const Machine& machine() const = 0;
  // The machine's memory; lives as long as the body.
  virtual std::span<uint8_t> memory() = 0;
  // Checks the whole stream, then runs it until all units are idle. A stream with a fault changes nothing, unless the
  // fault is the hardware's: a body of RTL that hangs. Tokens do not outlive the call; scratchpad and accumulators do.
  virtual RunResult submit(std::span<const Command> commands, const RunOptions& options = {}) = 0;
};

inline constexpr int kRtlBugs = 30;

struct BodyOptions {
  uint64_t memory_bytes = 64 << 20;
  int rtl_bug = 0;  // of `rtl`: a mistake of rtl/bugs.svh, 1 to kRtlBugs; 0: none
};

// "model", "cycles" or "rtl". Null, and the reason in `error`, for a body that is not there or a machine that it cannot
// be. Defined in bodies.cpp, which the RTL is linked to where it is built.
std::unique_ptr<Body> make_body(std::string_view name, const Machine& machine, const BodyOptions& options,
                                std::string& error);
// The machine that the RTL was built as; none: there is no RTL.
std::optional<Machine> rtl_machine();
inline bool has_rtl() { return rtl_machine().has_value(); }

}  // namespace atalla
