// tenon backends: what kernels can be compiled for.
#include <fmt/format.h>

#include <algorithm>

#include "backends/backend.h"
#include "command.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

void run() {
  size_t width = 0;
  for (const auto& backend : backends()) width = std::max(width, backend->name().size());
  std::string text;
  for (const auto& backend : backends()) {
    const std::string state = backend->is_available() ? "" : " (its hardware is missing on this machine)";
    text += fmt::format("{:<{}}  {}{}\n", backend->name(), width, backend->doc(), state);
  }
  print(text);
}

}  // namespace

Command backends_command(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("backends", "List what kernels can be compiled for");
  return {app, run};
}

}  // namespace tenon::cli
