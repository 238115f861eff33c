#include "body.h"
#include "check.h"
#include "model.h"
#include "rtl.h"
#include "timing.h"
#include "zeroed.h"

namespace atalla {

namespace {

// `model`, and `cycles`, which is the same with time.
class SoftwareBody : public Body {
 public:
  SoftwareBody(const Machine& machine, uint64_t memory_bytes, bool keeps_time)
      : machine_(machine),
        memory_(memory_bytes),
        checker_(machine, memory_bytes),
        model_(machine, memory_.span()),
        keeps_time_(keeps_time) {}

  const Machine& machine() const override { return machine_; }
  std::span<uint8_t> memory() override { return memory_.span(); }

  RunResult submit(std::span<const Command> commands, const RunOptions& options) override {
    RunResult run;
    run.fault = checker_.check(commands);
    if (run.fault) return run;
    Recorder recorder(options, commands.size());
    model_.reset();
    for (size_t i = 0; i < commands.size(); ++i) model_.execute(static_cast<uint32_t>(i), commands[i], recorder);
    recorder.finish(run);
    if (keeps_time_) run.counters = Timing(machine_, commands).run(options.events ? &run.events : nullptr);
    return run;
  }

 private:
  Machine machine_;
  Zeroed<uint8_t> memory_;
  Checker checker_;
  Model model_;
  bool keeps_time_;
};

}  // namespace

std::unique_ptr<Body> make_body(std::string_view name, const Machine& machine, const BodyOptions& options,
                                std::string& error) {
  error = invalid(machine);
  if (!error.empty()) return nullptr;
  if (name == "model" || name == "cycles")
    return std::make_unique<SoftwareBody>(machine, options.memory_bytes, name == "cycles");
  if (name == "rtl") return make_rtl_body(machine, options, error);
  error = "there is no body \"" + std::string(name) + "\"; there are model, cycles and rtl";
  return nullptr;
}

}  // namespace atalla
