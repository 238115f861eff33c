#include "rtl.h"

#include <verilated.h>
#include <verilated_vcd_c.h>

#include <algorithm>
#include <deque>

#include "Vatalla.h"
#include "Vatalla___024root.h"
#include "check.h"
#include "memory_port.h"
#include "recorder.h"
#include "zeroed.h"

namespace atalla {

namespace {

constexpr uint32_t kSize = ATALLA_SIZE;
constexpr uint64_t kPatience = 100000;  // cycles without an event, beside those of the longest command
constexpr uint64_t kWaveTail = 32;      // cycles of a waveform after its command

// The machine that the RTL was built as. The memory is not part of it.
Machine built() {
  return {.size = kSize,
          .scratchpad_lines = ATALLA_SCRATCHPAD_LINES,
          .scratchpad_banks = ATALLA_SCRATCHPAD_BANKS,
          .accumulator_rows = ATALLA_ACCUMULATOR_ROWS,
          .accumulator_banks = ATALLA_ACCUMULATOR_BANKS,
          .queue_depth = ATALLA_QUEUE_DEPTH};
}

class RtlBody : public Body {
 public:
  RtlBody(const Machine& machine, const BodyOptions& options)
      : machine_(machine), memory_(options.memory_bytes), checker_(machine, options.memory_bytes) {
    context_.traceEverOn(true);
    const std::string bug = "+bug=" + std::to_string(options.rtl_bug);
    std::array<const char*, 2> arguments = {"atalla", bug.c_str()};
    context_.commandArgs(static_cast<int>(arguments.size()), arguments.data());
    top_ = std::make_unique<Vatalla>(&context_, "atalla");
    top_->eval();  // an edge needs a level before it
  }
  ~RtlBody() override { top_->final(); }

  const Machine& machine() const override { return machine_; }
  std::span<uint8_t> memory() override { return memory_.span(); }
  RunResult submit(std::span<const Command> commands, const RunOptions& options) override;

  VerilatedContext context_;
  std::unique_ptr<Vatalla> top_;
  Machine machine_;
  Zeroed<uint8_t> memory_;
  Checker checker_;
  uint64_t time_ = 0;  // of waveforms
};

// One submit: the host, the memory and the observers around the RTL.
class Session {
 public:
  Session(RtlBody& body, std::span<const Command> commands, const RunOptions& options, RunResult& run)
      : body_(body),
        top_(*body.top_),
        commands_(commands),
        options_(options),
        run_(run),
        recorder_(options, commands.size()),
        read_channel_(body.machine_.dma_bytes),
        write_channel_(body.machine_.dma_bytes) {
    if (options.events) run.events.resize(commands.size());
    for (size_t i = 0; i < commands.size(); ++i)
      order_[static_cast<size_t>(*unit_of(commands[i]))].push_back(static_cast<uint32_t>(i));
    for (const Command& command : commands) patience_ = std::max(patience_, kPatience + 4 * most_cycles(command));
  }

  void run() {
    reset();
    while (!run_.fault && (sent_ < commands_.size() || !top_.idle)) cycle();
    if (vcd_) vcd_->close();
    run_.counters = counters();
    recorder_.finish(run_);
  }

 private:
  struct Answer {
    uint64_t cycle = 0;
    std::array<uint8_t, kSize> bytes{};
  };

  void reset() {
    top_.command_valid = top_.read_ready = top_.write_ready = top_.data_valid = 0;
    top_.rst = 1;
    tick();
    top_.rst = 0;
  }

  void tick() {
    top_.clk = 1;
    top_.eval();
    if (vcd_) vcd_->dump(body_.time_++);
    top_.clk = 0;
    top_.eval();
    if (vcd_) vcd_->dump(body_.time_++);
  }

  void cycle() {
    const bool taken = offer_command();
    serve_read();
    offer_answer();
    serve_write();
    tick();
    sent_ += taken;
    if (top_.line_written) take_answer();
    observe();
    ++cycle_;
    if (cycle_ - last_event_ > patience_)
      fail(oldest(), "the RTL hangs: no command began or ended in " + std::to_string(patience_) + " cycles");
  }

  // That a command takes if nothing is in its way.
  uint64_t most_cycles(const Command& command) const {
    const uint64_t beats = kSize / body_.machine_.dma_bytes + 2;
    const auto rows = [](const auto& c) { return uint64_t{c.inner} * c.outer; };
    switch (static_cast<Opcode>(command.opcode)) {
      case Opcode::kLoad: {
        const auto c = decode<Load>(command);
        return rows(c) * (c.run / kSize + 1) * beats + body_.machine_.dma_latency;
      }
      case Opcode::kMatmul:
        return rows(decode<Matmul>(command)) + 4 * kSize;
      case Opcode::kEpilogue:
        return 64;
      case Opcode::kStore:
        return rows(decode<Store>(command)) * (4 * beats + 1);
    }
    return 0;
  }

  bool offer_command() {
    top_.command_valid = sent_ < commands_.size();
    if (!top_.command_valid) return false;
    std::memcpy(&top_.command, &commands_[sent_], sizeof(Command));
    if (options_.waves == sent_ && !vcd_) open_waves();
    return top_.command_ready >> static_cast<int>(*unit_of(commands_[sent_])) & 1;
  }

  void serve_read() {
    top_.read_ready = top_.read && read_channel_.takes(top_.read_address, top_.read_bytes);
    if (!top_.read_ready) return;
    Answer& answer = answers_.emplace_back(Answer{cycle_ + body_.machine_.dma_latency, {}});
    answer.bytes.fill(0xa5);  // A memory gives anything where nothing was asked for.
    if (top_.read_bytes > kSize || top_.read_address + top_.read_bytes > body_.memory_.size())
      return fail(current(Unit::kLoad), "the RTL reads outside of the memory");
    std::memcpy(answer.bytes.data(), &body_.memory_[top_.read_address], top_.read_bytes);
  }

  void offer_answer() {
    top_.data_valid = !answers_.empty() && answers_.front().cycle <= cycle_;
    if (top_.data_valid) std::memcpy(&top_.data, answers_.front().bytes.data(), kSize);
  }

  void take_answer() {
    if (answers_.empty()) return fail(current(Unit::kLoad), "the RTL writes a line that it did not ask for");
    answers_.pop_front();
  }

  void serve_write() {
    top_.write_ready = top_.write && write_channel_.takes(top_.write_address, top_.write_bytes);
    if (!top_.write_ready) return;
    if (top_.write_bytes > kSize || top_.write_address + top_.write_bytes > body_.memory_.size())
      return fail(current(Unit::kStore), "the RTL writes outside of the memory");
    std::memcpy(&body_.memory_[top_.write_address], &top_.write_data, top_.write_bytes);
    if (recorder_.on())
      recorder_.write(current(Unit::kStore), top_.write_address,
                      {&body_.memory_[top_.write_address], top_.write_bytes});
  }

  void observe() {
    if (recorder_.on()) {
      if (top_.line_written) record(Unit::kLoad, top_.rootp->atalla__DOT__scratchpad__DOT__mem, top_.written_line);
      if (top_.row_written) record(Unit::kCompute, top_.rootp->atalla__DOT__accumulators__DOT__mem, top_.written_row);
    }
    if (top_.began | top_.done) {
      last_event_ = cycle_;
      for (size_t u = 0; u < kUnits; ++u) {
        if (top_.began >> u & 1) event(u, began_[u]++, &Event::begin, cycle_);
        if (top_.done >> u & 1) event(u, done_[u]++, &Event::end, cycle_ + 1);
      }
    }
    if (vcd_ && options_.waves && finished(*options_.waves) && !waves_end_) waves_end_ = cycle_ + kWaveTail;
    if (waves_end_ && cycle_ >= *waves_end_) vcd_.reset();
  }

  template <typename Memory>
  void record(Unit unit, const Memory& memory, uint64_t index) {
    const size_t bytes = sizeof(memory[0]);
    if (index >= sizeof(memory) / bytes) return fail(current(unit), "the RTL writes outside of the chip's memory");
    recorder_.write(current(unit), index * bytes, {reinterpret_cast<const uint8_t*>(&memory[index]), bytes});
  }

  void event(size_t unit, size_t ordinal, uint64_t Event::* field, uint64_t cycle) {
    if (ordinal >= order_[unit].size())
      return fail(oldest(),
                  std::string("the RTL's ") + name(static_cast<Unit>(unit)) + " unit ends commands that it never got");
    if (!options_.events) return;
    Event& event = run_.events[order_[unit][ordinal]];
    event.command = order_[unit][ordinal];
    event.unit = static_cast<Unit>(unit);
    event.*field = cycle;
  }

  bool finished(uint32_t command) const {
    const auto unit = static_cast<size_t>(*unit_of(commands_[command]));
    return done_[unit] != 0 && order_[unit][std::min(done_[unit], order_[unit].size()) - 1] >= command;
  }

  // The command whose writes the unit makes now.
  uint32_t current(Unit unit) const {
    const auto& order = order_[static_cast<size_t>(unit)];
    return order.empty() ? 0 : order[std::min(done_[static_cast<size_t>(unit)], order.size() - 1)];
  }

  // The first command that is not done.
  uint32_t oldest() const {
    uint32_t result = static_cast<uint32_t>(commands_.size()) - 1;
    for (size_t u = 0; u < kUnits; ++u)
      if (done_[u] < order_[u].size()) result = std::min(result, order_[u][done_[u]]);
    return result;
  }

  void fail(uint32_t command, const std::string& reason) {
    if (!run_.fault) run_.fault = Fault{command, reason};
  }

  void open_waves() {
    vcd_ = std::make_unique<VerilatedVcdC>();
    top_.trace(vcd_.get(), 99);
    vcd_->open(options_.waves_path.c_str());
    if (!vcd_->isOpen()) fail(static_cast<uint32_t>(sent_), "cannot write the waveform " + options_.waves_path);
  }

  Counters counters() const {
    return {.cycles = cycle_,
            .rows = top_.count_rows,
            .load_waits = top_.count_waits[0],
            .compute_waits = top_.count_waits[1],
            .store_waits = top_.count_waits[2],
            .weight_stalls = top_.count_weight_stalls,
            .bank_stalls = top_.count_bank_stalls,
            .read_stalls = top_.count_read_stalls,
            .write_stalls = top_.count_write_stalls};
  }

  RtlBody& body_;
  Vatalla& top_;
  std::span<const Command> commands_;
  const RunOptions& options_;
  RunResult& run_;
  Recorder recorder_;
  MemoryChannel read_channel_, write_channel_;
  std::deque<Answer> answers_;
  std::array<std::vector<uint32_t>, kUnits> order_;  // each unit's commands
  std::array<size_t, kUnits> began_{}, done_{};
  size_t sent_ = 0;
  uint64_t cycle_ = 0, last_event_ = 0, patience_ = kPatience;
  std::unique_ptr<VerilatedVcdC> vcd_;
  std::optional<uint64_t> waves_end_;
};

RunResult RtlBody::submit(std::span<const Command> commands, const RunOptions& options) {
  RunResult run;
  run.fault = checker_.check(commands);
  if (!run.fault) Session(*this, commands, options, run).run();
  return run;
}

}  // namespace

std::optional<Machine> rtl_machine() { return built(); }

std::unique_ptr<Body> make_rtl_body(const Machine& machine, const BodyOptions& options, std::string& error) {
  Machine wanted = machine;
  wanted.dma_bytes = built().dma_bytes;
  wanted.dma_latency = built().dma_latency;
  if (!(wanted == built())) {
    error =
        "the RTL is built as another machine: build it with -DATALLA_SIZE=... and the other ATALLA_ variables of "
        "CMakeLists.txt; only dma_bytes and dma_latency may differ";
    return nullptr;
  }
  if (options.rtl_bug < 0 || options.rtl_bug > kRtlBugs) {
    error = "rtl_bug is " + std::to_string(options.rtl_bug) + "; it must be from 0 to " + std::to_string(kRtlBugs);
    return nullptr;
  }
  return std::make_unique<RtlBody>(machine, options);
}

}  // namespace atalla
