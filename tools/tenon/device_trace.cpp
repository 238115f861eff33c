// tenon device trace: when each command of a device ran, beside the tasks of the host.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backends/device_backend.h"
#include "device_commands.h"
#include "device_debug.h"
#include "graph/value_names.h"
#include "json.h"
#include "output_files.h"
#include "profile.h"
#include "support/file.h"
#include "terminal.h"
#include "tiles/compile.h"
#include "units.h"
#include "watched_model.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(trace runs a model once and writes what https://ui.perfetto.dev opens: a track for each unit of the device (DMA in,
compute, DMA out), one for the stalls of compute, and tracks for launches, transfers, and tasks of the host and of the
fallback. Commands have their cycles; on the time axis a cycle takes what the device says. Everything else takes the
time that it took here. The device must keep time: atalla:body=cycles, or body=rtl.

Examples:
  tenon device trace --plugin atalla.so --device cycles model.pt2 -o trace.json)";

struct TraceOptions {
  ModelOptions model;
  std::string device;
  std::vector<std::string> inputs;
  std::string output;
  int64_t seed = 0;
};

struct LaunchTrace {
  uint32_t task = 0;
  const Task* of = nullptr;
  std::vector<CommandInfo> commands;
  std::shared_ptr<const TileCode> tiles;  // Of a tile machine: which commands each command waits for.
  LaunchAnswers answers;
};

// Of the nodes of a launch, in cycles from the first command to the last.
struct NodeCycles {
  std::string node;
  Location location;
  uint64_t begin = UINT64_MAX, end = 0;
};

constexpr std::pair<uint32_t, const char*> kUnits[] = {
    {TENON_UNIT_LOAD, "DMA in"}, {TENON_UNIT_COMPUTE, "compute"}, {TENON_UNIT_STORE, "DMA out"}};

std::string node_text(const Graph& segment, uint32_t node) {
  const Node& it = segment.nodes()[node];
  return fmt::format("{} = {}", value_names(segment)[it.results[0].id], it.op->name.get());
}

class DeviceTrace {
 public:
  explicit DeviceTrace(const TraceOptions& options) : options_(options), model_(model_options()) {
    const std::shared_ptr<const Backend> backend = find_backend(spec_).value();
    const tenon_tile_machine* const machine = tile_machine_of(*backend);
    if (machine != nullptr) machine_ = *machine;
    if (machine != nullptr && machine->hertz > 0) ns_per_cycle_ = 1e9 / machine->hertz;
  }

  void run() {
    const std::unique_ptr<runtime::Context> context =
        model_.run(model_.inputs(options_.inputs, options_.seed), [&](const WatchedLaunch& it) { watch(it); },
                   {.telemetry = true});
    size_t next = 0;
    for (const TaskTime& time : times_of(*context, model_.runnable().graph())) {
      if (next < launches_.size() && launches_[next].task == time.task) {
        add_launch(launches_[next++], time);
      } else {
        add_task(time);
      }
    }
    write_file(options_.output, trace_text("tenon " + model_.program().graph.name(), slices_)).value();
    print(summary());
  }

 private:
  ModelOptions model_options() {
    spec_ = device_spec(options_.device);
    ModelOptions model = options_.model;
    model.devices = {spec_};
    return model;
  }

  void watch(const WatchedLaunch& it) {
    LaunchTrace trace{.task = it.task_number, .of = &it.task};
    const bool has_events = has_commands(it.program);
    trace.answers = launch(it.program, it.launch, {.events = has_events});
    if (!trace.answers.fault.empty()) fail("{}", trace.answers.fault);
    for (uint64_t i = 0; has_events && i < trace.answers.events.size(); ++i)
      trace.commands.push_back(command_of(it.program, i));
    if (machine_ && it.task.segment_graph)
      trace.tiles = std::make_shared<const TileCode>(compile_tiles(*it.task.segment_graph, *machine_).value());
    launches_.push_back(std::move(trace));
  }

  // ---- slices: one task after the other, a launch in the device's own time ----

  void add_task(const TaskTime& time) {
    TraceSlice slice = slice_of(time, 0);
    slice.start_ns = now_ns_;
    slice.track = time.kind == "transfer" ? "transfers" : time.kind == "fallback" ? "fallback" : "host";
    host_ns_ += time.kind == "transfer" ? 0 : slice.duration_ns;
    transfer_ns_ += time.kind == "transfer" ? slice.duration_ns : 0;
    now_ns_ += slice.duration_ns;
    slices_.push_back(std::move(slice));
  }

  void add_launch(const LaunchTrace& it, const TaskTime& time) {
    TraceSlice slice = slice_of(time, 0);
    slice.start_ns = now_ns_;
    slice.track = spec_;
    const uint64_t cycles = it.answers.counter("cycles");
    if (!it.commands.empty()) slice.duration_ns = static_cast<double>(cycles) * ns_per_cycle_;
    if (!it.commands.empty()) std::erase_if(slice.args, [](const auto& arg) { return arg.first.ends_with("/s"); });
    for (const auto& [name, value] : it.answers.counters) slice.args.emplace_back(name, std::to_string(value));
    const double duration = slice.duration_ns;
    slices_.push_back(std::move(slice));
    add_commands(it);
    cycles_ += cycles;
    device_ns_ += duration;
    now_ns_ += duration;
  }

  // A unit begins with a command while it finishes the one before; a bar begins where the bar before ended.
  void add_commands(const LaunchTrace& it) {
    std::vector<NodeCycles> nodes(it.of->segment_graph ? it.of->segment_graph->nodes().size() : 0);
    for (const auto& [unit, track] : kUnits) {
      uint64_t end = 0;
      for (size_t i = 0; i < it.commands.size(); ++i) {
        const tenon_debug_event& event = it.answers.events[i];
        if (it.commands[i].unit != unit) continue;
        if (unit == TENON_UNIT_COMPUTE && event.begin > end) add_stall(it, i, end, event.begin);
        add_command(it, i, track, std::max(end, event.begin));
        end = std::max(end, event.end);
        note_node(it, it.commands[i].node, event, nodes);
      }
    }
    for (NodeCycles& node : nodes) {
      if (node.end > 0) nodes_.push_back(std::move(node));
    }
  }

  TraceSlice cycles_slice(std::string track, std::string name, uint64_t begin, uint64_t end) const {
    return {.track = std::move(track),
            .name = std::move(name),
            .category = "device",
            .start_ns = now_ns_ + static_cast<double>(begin) * ns_per_cycle_,
            .duration_ns = static_cast<double>(end - begin) * ns_per_cycle_};
  }

  void add_command(const LaunchTrace& it, size_t i, const char* track, uint64_t begin) {
    const CommandInfo& command = it.commands[i];
    const tenon_debug_event& event = it.answers.events[i];
    TraceSlice slice =
        cycles_slice(track, command.text.substr(0, command.text.find(' ')), std::min(begin, event.end), event.end);
    slice.args = {{"command", std::to_string(i)},
                  {"text", json::string(command.text)},
                  {"begin cycle", std::to_string(event.begin)},
                  {"end cycle", std::to_string(event.end)}};
    if (it.of->segment_graph && command.node < it.of->segment_graph->nodes().size()) {
      slice.args.emplace_back("node", json::string(node_text(*it.of->segment_graph, command.node)));
      const Location& location = it.of->segment_graph->nodes()[command.node].location;
      if (location.known()) slice.args.emplace_back("model", json::string(to_string(location)));
    }
    slices_.push_back(std::move(slice));
  }

  void add_stall(const LaunchTrace& it, size_t i, uint64_t begin, uint64_t end) {
    uint32_t waits = 0;
    if (it.tiles && it.commands[i].action < it.tiles->actions.size())
      waits = it.tiles->actions[it.commands[i].action].wait;
    std::string whom;
    for (const auto& [unit, track] : kUnits) {
      if ((waits & unit) != 0) whom += (whom.empty() ? "waits for " : " and ") + std::string(track);
    }
    stalled_ += end - begin;
    slices_.push_back(cycles_slice("stalls", whom.empty() ? "has no command" : whom, begin, end));
    slices_.back().args = {{"before command", std::to_string(i)}, {"cycles", std::to_string(end - begin)}};
  }

  static void note_node(const LaunchTrace& it, uint32_t node, const tenon_debug_event& event,
                        std::vector<NodeCycles>& nodes) {
    if (node >= nodes.size()) return;
    if (nodes[node].node.empty()) nodes[node].node = node_text(*it.of->segment_graph, node);
    nodes[node].location = it.of->segment_graph->nodes()[node].location;
    nodes[node].begin = std::min(nodes[node].begin, event.begin);
    nodes[node].end = std::max(nodes[node].end, event.end);
  }

  // ---- for people ----

  std::string summary() const {
    const std::string cycles =
        cycles_ == 0 ? "" : fmt::format("{} cycles, of which compute waits in {}, ", cycles_, stalled_);
    std::string text = fmt::format("{}: {} launches, {}{}\nhost {}, transfers {}\n", spec_, launches_.size(), cycles,
                                   time_text(device_ns_), time_text(host_ns_), time_text(transfer_ns_));
    for (const NodeCycles& it : nodes_)
      text += fmt::format("{:>12} cycles  {}{}\n", it.end - it.begin, it.node,
                          it.location.known() ? "  " + to_string(it.location) : "");
    return text;
  }

  const TraceOptions& options_;
  std::string spec_;
  WatchedModel model_;
  std::optional<tenon_tile_machine> machine_;
  double ns_per_cycle_ = 1;
  std::vector<LaunchTrace> launches_;
  std::vector<TraceSlice> slices_;
  std::vector<NodeCycles> nodes_;
  double now_ns_ = 0, host_ns_ = 0, transfer_ns_ = 0, device_ns_ = 0;
  uint64_t cycles_ = 0, stalled_ = 0;
};

}  // namespace

Command device_trace_command(CLI::App& device) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* app = device.add_subcommand("trace", "Write when each command of a device ran, for Perfetto");
  app->add_option("MODEL", options->model.path, "A .tenon or .pt2 file, or a graph's text")->required()->type_name("");
  app->add_option("--device", options->device, "The device, or options of the plug-in's")
      ->required()
      ->type_name("DEVICE");
  app->add_option("-o,--output", options->output, "Where to")->required()->type_name("TRACE.json");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated. None: random numbers")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED");
  app->add_option("--seed", options->seed, "Of random numbers")->capture_default_str();
  app->footer(kFooter);
  return {app, [options] {
            require_writable_file(options->output);
            DeviceTrace(*options).run();
          }};
}

}  // namespace tenon::cli
