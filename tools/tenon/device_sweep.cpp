// tenon device sweep: a model over a grid of a device's options.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backends/device_backend.h"
#include "device_commands.h"
#include "layer_costs.h"
#include "model.h"
#include "output_files.h"
#include "runnable.h"
#include "runtime/device.h"
#include "support/file.h"
#include "support/runtime_call.h"
#include "sweep_picture.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Runs the model once at each point of the grid, on random inputs, and adds up the times of its launches: in cycles, where
the device is a tile machine that names its clock, else in nanoseconds of the device. A device that tells no times, or a
point that it refuses, is a row with the error.

The area comes from a program: npu.area beside npu.so, or --area. It is run as `npu.area size=8 dma_bytes=16`, and prints an
amount and a unit. Atalla's counts cells with yosys where that is installed; else its unit says that it is an estimate.

Examples:
  tenon device sweep model.tg --plugin build/accelerators/atalla.so --device atalla:body=cycles \
    --grid "size=8,16,32;dma_bytes=8,16,32" -o sweep.html
  tenon device sweep resnet.pt2 --plugin npu.so --device npu --grid "queue=2,4,8" --area ./area.sh -o sweep.csv)";

struct SweepCommand {
  ModelOptions model;
  std::vector<std::string> sizes;
  std::string grid;
  std::string area;
  std::string output;
};

std::string suffix_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

class Sweeper {
 public:
  Sweeper(const SweepCommand& command, const Model& model)
      : command_(command), model_(model), device_(command.model.devices[0]), program_(area_program()) {}

  Sweep run() {
    const std::vector<SweepOptions> points = points_of(parse_grid(command_.grid));
    Sweep sweep{.model = command_.model.path, .device = device_};
    Progress progress(points.size());
    for (const SweepOptions& options : points) {
      const std::string spec = spec_at(device_, options);
      progress.begin(spec);
      SweepPoint point{.options = options};
      const Status ran = attempt([&] {
        measure(spec, point);
        if (!program_.empty()) point.area = area_of(program_, given_and(options));
      });
      if (!ran.ok()) point.error = ran.diagnostic().message;
      sweep.points.push_back(std::move(point));
    }
    sweep.time_unit = unit_;
    return sweep;
  }

 private:
  std::string area_program() const {
    if (command_.area == "none") return "";
    return command_.area.empty() ? area_program_of(runtime::library_of(runtime::name_of_spec(device_))) : command_.area;
  }

  void measure(const std::string& spec, SweepPoint& point) {
    const Runnable runnable = Runnable::compile(model_.graph, {.devices = {spec}});
    const std::unique_ptr<runtime::Context> context = runnable.make_context({.telemetry = true});
    runnable.run(*context, runnable.random_inputs(parse_sizes(command_.sizes), 0));
    double time = 0;
    size_t launches = 0;
    for (const runtime::Event& event : context->events()) {
      if (runnable.graph().tasks[event.task].kind != runtime::TaskKind::Device) continue;
      if (!event.is_of_device) fail("the device does not tell how long its launches take");
      time += static_cast<double>(event.end_ns - event.start_ns);
      ++launches;
    }
    if (launches == 0) fail("the device runs no node of the model");
    point.time = time * cycles_per_ns(spec);
    double array = 0;
    for (const LayerCost& layer : layer_costs(model_.graph, {spec}, LayerTimes::kNone)) array += layer.array_cycles;
    if (array > 0 && unit_ == "cycles") point.utilization = array / *point.time;
  }

  // 1 for a device without a clock: its time stays nanoseconds.
  double cycles_per_ns(const std::string& spec) {
    const tenon_tile_machine* const machine = tile_machine_of(*find_backend(spec).value());
    const bool has_clock = machine != nullptr && machine->hertz > 0;
    unit_ = has_clock ? "cycles" : "ns";
    return has_clock ? machine->hertz / 1e9 : 1;
  }

  // The options of the device, too: its area depends on all of them.
  SweepOptions given_and(const SweepOptions& options) const {
    SweepOptions all;
    const size_t colon = device_.find(':');
    for (const std::string& each : split_commas(colon == std::string::npos ? "" : device_.substr(colon + 1))) {
      const size_t equals = each.find('=');
      if (equals != std::string::npos) all.emplace_back(each.substr(0, equals), each.substr(equals + 1));
    }
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  const SweepCommand& command_;
  const Model& model_;
  std::string device_;
  std::string program_;  // that tells the area; empty: none
  std::string unit_ = "cycles";
};

void sweep(const SweepCommand& command) {
  require_writable_file(command.output);
  const std::string suffix = suffix_of(command.output);
  if (!command.output.empty() && suffix != "csv" && suffix != "html" && suffix != "svg")
    fail("--output {}: the file is a .csv, .html or .svg", command.output);
  if (command.model.devices.size() != 1) fail("a sweep needs one --device, whose options it goes through");
  ModelOptions reading = command.model;
  if (!is_pt2(reading.path) && !reading.seed) reading.seed = 0;
  const Model model = read_model(reading);
  require_supported(model);
  const Sweep result = Sweeper(command, model).run();
  print(table_of(result));
  if (suffix == "csv") write_file(command.output, csv_of(result)).value();
  if (suffix == "svg") write_file(command.output, svg_of(result)).value();
  if (suffix == "html") write_file(command.output, html_of(result)).value();
  const auto ran = std::ranges::count_if(result.points, [](const SweepPoint& point) { return point.time.has_value(); });
  if (ran == 0) fail("no point of the grid ran");
}

}  // namespace

Command device_sweep_command(CLI::App& device) {
  auto command = std::make_shared<SweepCommand>();
  CLI::App* app = device.add_subcommand("sweep", "Run a model over a grid of a device's options");
  app->add_option("MODEL", command->model.path, "A .pt2 file, or a graph's text")->required()->type_name("");
  app->add_option("--grid", command->grid, "Options and their values: \"size=8,16;dma_bytes=8,16\"")
      ->required()
      ->type_name("GRID");
  app->add_option("--area", command->area, "A program that prints the area of a point; none: no area")
      ->type_name("PROGRAM");
  app->add_option("--size", command->sizes, "The value of a symbolic size; repeat it for more")
      ->type_name("N=64")
      ->allow_extra_args(false);
  app->add_option("-o,--output", command->output, "Write the table as .csv, or a picture as .svg or .html")
      ->type_name("FILE");
  add_device_option(*app, command->model);
  app->footer(kFooter);
  return {app, [command] { sweep(*command); }};
}

}  // namespace tenon::cli
