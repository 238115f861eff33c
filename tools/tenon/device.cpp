// tenon device: tools for those who build devices.
#include "device_commands.h"

namespace tenon::cli {

Command device_command(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("device", "Tools for those who build devices");
  app->require_subcommand(1);
  app->footer("`tenon device COMMAND --help` says more about a command. docs/bring-up.md is the tutorial.");
  const std::vector<Command> commands = {device_new_command(*app), device_check_command(*app),
                                         device_sweep_command(*app)};
  for (const Command& command : commands) command.app->fallthrough();
  return {app, [commands] {
            for (const Command& command : commands) {
              if (command.app->parsed()) command.run();
            }
          }};
}

}  // namespace tenon::cli
