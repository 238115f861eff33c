// tenon explain: which device runs each node of a model, and why others do not.
#include <memory>

#include "backends/other_machines.h"
#include "command.h"
#include "driver/pipeline.h"
#include "model.h"
#include "placement.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Devices are asked in order; the CPU runs what no device claims, and PyTorch the calls that Tenon lacks. A line for each
node says its segment (nodes that run as a whole) and its device; then how many nodes each device runs, and why devices
declined others. Nothing is compiled.

Examples:
  tenon explain model.pt2 --plugin npu.so --device npu
  tenon explain model.pt2 --plugin npu.so --device npu --json | jq '.nodes[] | select(.device == "cpu")')";

struct Options {
  ModelOptions model;
  bool json = false;
};

void explain(const Options& options) {
  ModelOptions reading = options.model;
  if (!is_pt2(reading.path)) reading.seed = 0;  // the values of parameters do not matter
  const ForOtherMachines devices_may_be_missing;
  const ProgramOptions program_options{.devices = reading.devices};
  Module module = new_module(read_model(reading).graph);
  const auto stages = static_cast<size_t>(&stage_named("partition") - pipeline().data()) + 1;
  run_stages(module, pipeline().first(stages), target_of(program_options), program_options);
  if (!module.placement) fail("--device {}: the CPU runs every node", reading.devices[0]);
  print(options.json ? "{\"nodes\": " + placement_json(module.placement.get()) + "}\n"
                     : table_of(*module.placement) + "\n" + summary_of(*module.placement));
}

}  // namespace

Command explain_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("explain", "Show which device runs each node of a model, and why others do not");
  app->add_option("MODEL", options->model.path, "A .pt2 file or a graph's text")->required()->type_name("");
  add_device_option(*app, options->model);
  app->get_option("--device")->required();
  app->add_flag("--json", options->json, "Print it as JSON, with the reasons of each node");
  app->footer(kFooter);
  return {app, [options] { explain(*options); }};
}

}  // namespace tenon::cli
