// tenon backends: what kernels can be compiled for, and devices of plug-ins.
#include <fmt/format.h>

#include <algorithm>

#include "backends/backend.h"
#include "command.h"
#include "runtime/device.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(A line for each: its name and what it is. Devices are those of
--plugin and $TENON_PLUGINS.

Examples:
  tenon backends
  tenon backends --plugin npu.so                      with the devices of a plug-in)";

struct Row {
  std::string name;
  std::string text;
};

Row row_of(const Backend& backend) {
  const std::string missing = backend.missing_hardware();
  const std::string state = missing.empty() ? "" : fmt::format(" (this machine lacks {})", missing);
  return {backend.name(), std::string(backend.doc()) + state};
}

// A device of a plug-in, which is opened.
Row row_of(const std::string& device) {
  const auto found = find_backend(device);
  return found.ok() ? Row{device, row_of(**found).text} : Row{device, "(" + found.diagnostic().message + ")"};
}

void run() {
  std::vector<Row> rows;
  for (const auto& backend : backends()) rows.push_back(row_of(*backend));
  for (std::string_view device : runtime::device_names()) {  // that of backend cuda is there already
    if (std::ranges::find(rows, device, &Row::name) == rows.end()) rows.push_back(row_of(std::string(device)));
  }
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text;
  for (const Row& row : rows) text += fmt::format("{:<{}}  {}\n", row.name, width, row.text);
  print(text);
}

}  // namespace

Command backends_command(CLI::App& tenon) {
  CLI::App* app = tenon.add_subcommand("backends", "List what kernels and models can be compiled for");
  app->footer(kFooter);
  return {app, run};
}

}  // namespace tenon::cli
