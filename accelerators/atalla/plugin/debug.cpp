// tenon_device_debug_v1: what a launch did, for those who build the machine.
#include "plugin/device.h"

using namespace atalla;

namespace {

tenon_status commands(tenon_device*, tenon_device_program* program, uint64_t* count, tenon_text*) {
  *count = program->commands.size();
  return TENON_OK;
}

tenon_status command(tenon_device*, tenon_device_program* program, uint64_t number, tenon_debug_command* command,
                     tenon_text* to) {
  return guarded(to, TENON_INVALID_ARGUMENT, [&] {
    const Relocatable& it = program->commands.at(number);
    command->unit = 1U << static_cast<int>(unit_of(it.command).value());
    command->node = it.node;
    command->action = number;  // each action is a command
    tenon_write_text(to, TENON_OK, text(it.command).c_str());
  });
}

// ---- a launch ----

RunOptions options_of(const tenon_debug_run& run, const Stream& stream) {
  RunOptions options{.events = run.events != nullptr, .digests = run.digests != nullptr, .bases = stream.bases};
  const size_t count = stream.commands.size();
  if (run.logged < count) options.log = static_cast<uint32_t>(run.logged);
  if (run.waved < count) {
    options.waves = static_cast<uint32_t>(run.waved);
    options.waves_path = run.waves_path;
  }
  return options;
}

void tell_writes(const tenon_debug_run& run, const Relocatable& command, std::span<const Write> writes) {
  static constexpr uint32_t kMemories[] = {TENON_DEBUG_SCRATCHPAD, TENON_DEBUG_ACCUMULATORS, TENON_DEBUG_MEMORY};
  for (const Write& write : writes) {
    const tenon_debug_write it{.size = sizeof it,
                               .memory = kMemories[static_cast<size_t>(*unit_of(command.command))],
                               .buffer = command.buffer,
                               .address = write.address,
                               .bytes = write.bytes.data(),
                               .count = write.bytes.size()};
    run.write(run.self, &it);
  }
}

void tell_counters(const tenon_debug_run& run, const Counters& counters) {
  const std::pair<const char*, uint64_t> all[] = {{"cycles", counters.cycles},
                                                  {"rows", counters.rows},
                                                  {"load_waits", counters.load_waits},
                                                  {"compute_waits", counters.compute_waits},
                                                  {"store_waits", counters.store_waits},
                                                  {"weight_stalls", counters.weight_stalls},
                                                  {"bank_stalls", counters.bank_stalls},
                                                  {"read_stalls", counters.read_stalls},
                                                  {"write_stalls", counters.write_stalls}};
  for (const auto& [name, value] : all) run.counter(run.self, name, value);
}

void tell(tenon_debug_run& run, const tenon_device_program& program, const RunResult& result) {
  if (run.digests != nullptr) std::ranges::copy(result.digests, run.digests);
  for (size_t i = 0; run.events != nullptr && i < result.events.size(); ++i)
    run.events[i] = {result.events[i].begin, result.events[i].end};
  if (run.write != nullptr && run.logged < program.commands.size())
    tell_writes(run, program.commands[run.logged], result.writes);
  if (run.counter != nullptr) tell_counters(run, result.counters);
}

tenon_status launch(tenon_device* device, tenon_device_program* program, const tenon_launch* launch,
                    tenon_debug_run* run, tenon_text* error) {
  run->failed = TENON_NO_COMMAND;
  if (run->events != nullptr && device->options.body == "model")
    return tenon_write_text(error, TENON_UNSUPPORTED, "the body model keeps no time: say body=cycles or body=rtl");
  if (run->waved != TENON_NO_COMMAND && device->options.body != "rtl")
    return tenon_write_text(error, TENON_UNSUPPORTED, "only the body rtl writes waveforms");
  return guarded(error, TENON_RUN_FAILED, [&] {
    const Stream stream = stream_of(device, *program, *launch);
    const RunResult result = device->body->submit(stream.commands, options_of(*run, stream));
    device->cycles += result.counters.cycles;
    tell(*run, *program, result);
    if (!result.fault) return;
    run->failed = result.fault->command;
    throw std::runtime_error(fault_text(*result.fault, stream.commands));
  });
}

const tenon_device_debug_api kDebug = {
    .size = sizeof(tenon_device_debug_api), .commands = commands, .command = command, .launch = launch};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tenon_device_debug_api* tenon_device_debug_v1() {
  return &kDebug;
}
