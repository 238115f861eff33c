// tenon device: tools for those who build devices.
#include "runtime/device.h"

#include <fmt/format.h>

#include "device_commands.h"
#include "support/runtime_call.h"

namespace tenon::cli {

static constexpr const char* kFooter = R"(Examples:
  tenon device new npu                                a directory to start a device from
  tenon device check npu.so                           whether a device computes what the reference does
  tenon device diff --plugin npu.so -a model -b rtl   the first command that two devices run differently

`tenon device COMMAND --help` says more about a command. docs/bring-up.md is the tutorial.)";

std::string device_spec(const std::string& text) {
  return call_runtime([&] {
    if (runtime::has_device(runtime::name_of_spec(text))) return text;
    const std::vector<std::string_view> names = runtime::device_names();
    if (names.size() != 1)
      fail("'{}' begins with no device, and there are {} plug-ins: say NAME:OPTIONS, and --plugin", text, names.size());
    return fmt::format("{}:{}", names[0], text);
  });
}

Command device_command(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("device", "Tools for those who build devices");
  app->require_subcommand(1);
  app->footer(kFooter);
  const std::vector<Command> commands = {device_new_command(*app), device_check_command(*app),
                                         device_sweep_command(*app), device_diff_command(*app),
                                         device_trace_command(*app)};
  for (const Command& command : commands) command.app->fallthrough();
  return {app, [commands] {
            for (const Command& command : commands) {
              if (command.app->parsed()) command.run();
            }
          }};
}

}  // namespace tenon::cli
