#include "device_debug.h"

#include <algorithm>

#include "support/runtime_call.h"

namespace tenon::cli {
namespace {

using runtime::DeviceProgram;

// Room for the text of a call to a plug-in.
class Text {
 public:
  tenon_text* place() { return &place_; }
  std::string str() const { return bytes_; }

 private:
  char bytes_[1024] = {};
  tenon_text place_{bytes_, sizeof bytes_};
};

const tenon_device_debug_api& debug_of(const DeviceProgram& program) {
  const tenon_device_debug_api* const debug = program.device().debug();
  if (debug == nullptr)
    fail("device {} tells nothing of its commands: its plug-in exports no {}", program.device().spec(),
         TENON_DEVICE_DEBUG_SYMBOL);
  return *debug;
}

LaunchAnswers plain_launch(const DeviceProgram& program, const tenon_launch& launch) {
  LaunchAnswers answers;
  try {
    program.device().wait(program.device().submit(program.get(), launch));
  } catch (const runtime::StatusError& error) {
    answers.fault = error.message();
  }
  return answers;
}

tenon_debug_run run_of(const LaunchQuestions& questions, LaunchAnswers& answers) {
  tenon_debug_run run{.size = sizeof run,
                      .self = &answers,
                      .logged = questions.logged.value_or(TENON_NO_COMMAND),
                      .waved = questions.waved.value_or(TENON_NO_COMMAND),
                      .waves_path = questions.waves_path.c_str(),
                      .failed = TENON_NO_COMMAND};
  if (questions.digests) run.digests = answers.digests.data();
  if (questions.events) run.events = answers.events.data();
  run.write = [](void* self, const tenon_debug_write* it) {
    const auto* const bytes = static_cast<const uint8_t*>(it->bytes);
    static_cast<LaunchAnswers*>(self)->writes.push_back(
        {it->memory, it->buffer, it->address, {bytes, bytes + it->count}});
  };
  run.counter = [](void* self, const char* name, uint64_t value) {
    static_cast<LaunchAnswers*>(self)->counters.emplace_back(name, value);
  };
  return run;
}

}  // namespace

uint64_t LaunchAnswers::counter(std::string_view name) const {
  const auto found = std::ranges::find(counters, name, &std::pair<std::string, uint64_t>::first);
  return found == counters.end() ? 0 : found->second;
}

uint64_t command_count(const DeviceProgram& program) {
  if (!has_commands(program)) return 0;
  uint64_t count = 0;
  Text error;
  const tenon_status status =
      debug_of(program).commands(program.device().handle(), program.get(), &count, error.place());
  if (status != TENON_OK) fail("device {}: {}", program.device().spec(), error.str());
  return count;
}

CommandInfo command_of(const DeviceProgram& program, uint64_t number) {
  tenon_debug_command command{.size = sizeof command, .node = UINT32_MAX, .action = TENON_NO_COMMAND};
  Text text;
  const tenon_status status =
      debug_of(program).command(program.device().handle(), program.get(), number, &command, text.place());
  if (status != TENON_OK) fail("device {}, command {}: {}", program.device().spec(), number, text.str());
  return {command.unit, command.node, command.action, text.str()};
}

LaunchAnswers launch(const DeviceProgram& program, const tenon_launch& launch, const LaunchQuestions& questions) {
  if (!has_commands(program) && !questions.digests && !questions.events && !questions.logged && !questions.waved)
    return plain_launch(program, launch);
  LaunchAnswers answers;
  const auto count = static_cast<size_t>(command_count(program));
  if (questions.digests) answers.digests.resize(count);
  if (questions.events) answers.events.resize(count);
  tenon_debug_run run = run_of(questions, answers);
  Text error;
  const tenon_status status =
      debug_of(program).launch(program.device().handle(), program.get(), &launch, &run, error.place());
  if (status == TENON_UNSUPPORTED) fail("device {}: {}", program.device().spec(), error.str());
  if (status != TENON_OK) answers.fault = error.str();
  if (status != TENON_OK && run.failed < count) answers.failed = run.failed;
  return answers;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

LaunchMemory::LaunchMemory(const DeviceProgram& program, const std::vector<std::vector<std::byte>>& contents)
    : program_(program) {
  const std::shared_ptr<runtime::Device>& device = program.shared_device();
  call_runtime([&] {
    for (const std::vector<std::byte>& bytes : contents) {
      const auto count = static_cast<int64_t>(bytes.size());
      blocks_.emplace_back(device, count);
      buffers_.push_back(blocks_.back().data());
      device->wait(device->copy_in(buffers_.back(), bytes.data(), count));
    }
    scratch_ = runtime::DeviceBlock(device, program.scratch_bytes());
  });
}

tenon_launch LaunchMemory::launch(const std::vector<int64_t>& sizes) {
  return {.size = sizeof(tenon_launch),
          .buffers = buffers_.data(),
          .buffer_count = buffers_.size(),
          .sizes = sizes.data(),
          .size_count = sizes.size(),
          .scratch = scratch_.bytes() == 0 ? nullptr : scratch_.data()};
}

std::vector<std::byte> LaunchMemory::read(size_t buffer) const {
  std::vector<std::byte> bytes(static_cast<size_t>(blocks_[buffer].bytes()));
  runtime::Device& device = program_.device();
  call_runtime(
      [&] { device.wait(device.copy_out(bytes.data(), buffers_[buffer], static_cast<int64_t>(bytes.size()))); });
  return bytes;
}

}  // namespace tenon::cli
