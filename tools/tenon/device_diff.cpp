// tenon device diff: two bodies of a device in lockstep.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "backends/device_backend.h"
#include "device_commands.h"
#include "graph/value_names.h"
#include "json.h"
#include "launch_diff.h"
#include "model_diff.h"
#include "numbers.h"
#include "random_layers.h"
#include "segment_run.h"
#include "support/runtime_call.h"
#include "terminal.h"
#include "tiles/layer.h"
#include "tiles/text.h"
#include "watched_model.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(diff runs every launch of a model on both devices, with the same data, and stops at the first command or element
that differs: with its loop indices, its place in the model's tensors, and the line of the model. Without a model, it
compares random layers and, for tile machines, random streams of actions. The exit code is 1 if something differs.

-a and -b are devices (atalla:body=rtl), options of the plug-in's device (body=rtl), or of its body (rtl).

Examples:
  tenon device diff --plugin atalla.so -a model -b rtl model.pt2
  tenon device diff --plugin atalla.so -a model -b rtl model.tenon --input x.npy --waves first
  tenon device diff --plugin atalla.so -a model -b rtl model.pt2 --waves 2:417 --waves-file command.vcd
  tenon device diff --plugin atalla.so -a model -b rtl --random 100)";

struct DiffOptions {
  ModelOptions model;
  std::string a, b;
  std::vector<std::string> inputs;
  std::string waves;
  std::string waves_file = "waves.vcd";
  double tolerance = 0;
  int random = 400;
  int64_t seed = 0;
  bool json = false;
};

// Where a waveform is wanted: around the first command that differs, or around this one.
struct WavesPlace {
  bool is_first = false;
  size_t launch = 0;
  uint64_t command = 0;
};

std::optional<WavesPlace> parse_waves(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "first") return WavesPlace{.is_first = true};
  const size_t colon = text.find(':');
  const auto number = [&](const std::string& part) -> uint64_t {
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != part.npos)
      fail("--waves is first, COMMAND or LAUNCH:COMMAND, got '{}'", text);
    return std::stoul(part);
  };
  if (colon == text.npos) return WavesPlace{.command = number(text)};
  return WavesPlace{.launch = number(text.substr(0, colon)), .command = number(text.substr(colon + 1))};
}

// Ends the run of a model: the rest of it is not needed.
struct Stopped {};

struct Found {
  size_t launch = 0;
  Difference difference;
};

class DeviceDiff {
 public:
  explicit DeviceDiff(const DiffOptions& options)
      : options_(options), a_(device_spec(options.a)), b_(device_spec(options.b)), waves_(parse_waves(options.waves)) {
    if (a_ == b_) fail("-a and -b are the same device, {}", a_);
  }

  void run() {
    if (options_.model.path.empty()) {
      if (waves_ && !waves_->is_first) fail("--waves {} needs a model", options_.waves);
      compare_random();
    } else {
      compare_model();
    }
    report();
  }

 private:
  // ---- models ----

  void compare_model() {
    ModelOptions model = options_.model;
    model.devices = {a_};
    const WatchedModel watched(model);
    const std::vector<Tensor> inputs = watched.inputs(options_.inputs, options_.seed);
    if (!takes_segments(watched)) return compare_whole(watched, inputs);
    if (waves_ && !waves_->is_first) focus_on(waves_->launch, waves_->command, true);
    compare_in(watched, inputs);
    if (waves_ && !waves_->is_first) require_focus();
    if (!found_ || !found_->difference.command || is_described()) return;
    focus_on(found_->launch, *found_->difference.command, waves_ && waves_->is_first);
    const Found before = *std::exchange(found_, {});
    launches_ = commands_ = 0;
    compare_in(watched, inputs);  // again from the start, on another b: the same thing happens
    if (!found_) found_ = before;
  }

  // Whether b can run the launches of a: weights are packed for an array, and b may have another one.
  bool takes_segments(const WatchedModel& model) const {
    const std::shared_ptr<const Backend> b = find_backend(b_).value();
    const bool by_graphs = graph_compiler(*b) != nullptr;
    const tenon_tile_machine* const machine = tile_machine_of(*b);
    const auto takes = [&](const Task& task) {
      if (task.kind != TaskKind::kDevice || machine == nullptr) return true;
      return std::ranges::all_of(task.segment_graph->nodes(),
                                 [&](const Node& node) { return misfit(*task.segment_graph, node, *machine).empty(); });
    };
    return std::ranges::all_of(model.program().tasks, [&](const Task& task) {
      const bool same_form = task.kind != TaskKind::kDevice || (task.segment_graph != nullptr) == by_graphs;
      return same_form && takes(task);
    });
  }

  void compare_whole(const WatchedModel& model, const std::vector<Tensor>& inputs) {
    if (waves_) fail("--waves: {} and {} run different code", a_, b_);
    launches_ = static_cast<size_t>(std::ranges::count(model.program().tasks, TaskKind::kDevice, &Task::kind));
    const auto found = compare_models(*model.program().source, a_, b_, inputs, options_.tolerance);
    if (found) found_ = Found{0, *found};
  }

  void compare_in(const WatchedModel& model, const std::vector<Tensor>& inputs) {
    const std::shared_ptr<const Backend> a = find_backend(a_).value(), b = find_backend(b_).value();
    std::map<uint32_t, std::unique_ptr<Compiled>> codes;
    try {
      model.run(inputs, [&](const WatchedLaunch& it) {
        std::unique_ptr<Compiled>& code = codes[it.task_number];
        if (!code)
          code = it.task.segment_graph ? device_backend(*b).compile_graph(*it.task.segment_graph)
                                       : b->compile(*it.task.tree).value();
        compare(it, {a_, a, it.task.kernel->device_program()}, {b_, b, code->device_program()});
      });
    } catch (const Stopped&) {
    }
  }

  // The launch in memory of its own on both devices. The model goes on with the results of a.
  void compare(const WatchedLaunch& it, const DiffSide& a, const DiffSide& b) {
    runtime::Device& device = it.program.device();
    const DiffLaunch launch = launch_of(it, a);
    const DiffResult result = compare_launch(launch, a, b, focus_at(it.number), options_.tolerance);
    note(it.number, result);
    call_runtime([&] {
      for (size_t i = 0; i < result.outputs.size(); ++i) {
        device.wait(device.copy_in(it.launch.buffers[it.inputs + i], result.outputs[i].data(),
                                   static_cast<int64_t>(result.outputs[i].size())));
      }
    });
  }

  static DiffLaunch launch_of(const WatchedLaunch& it, const DiffSide& a) {
    DiffLaunch launch{.name = fmt::format("launch {}, {}", it.number, it.task.name),
                      .segment = it.task.segment_graph,
                      .location = it.task.location,
                      .inputs = it.inputs,
                      .size_exprs = it.task.launch_sizes,
                      .sizes = {it.launch.sizes, it.launch.sizes + it.launch.size_count}};
    runtime::Device& device = it.program.device();
    for (size_t i = 0; i < it.bytes.size(); ++i) {
      Bytes& bytes = launch.buffers.emplace_back(static_cast<size_t>(it.bytes[i]));
      if (i >= it.inputs) continue;
      call_runtime([&] { device.wait(device.copy_out(bytes.data(), it.launch.buffers[i], it.bytes[i])); });
    }
    name_buffers(launch, it.task);
    if (const tenon_tile_machine* const machine = tile_machine_of(*a.backend); machine && launch.segment)
      launch.tiles = std::make_shared<const TileCode>(compile_tiles(*launch.segment, *machine).value());
    return launch;
  }

  static void name_buffers(DiffLaunch& launch, const Task& task) {
    if (launch.segment) {
      const std::vector<std::string> names = value_names(*launch.segment);
      for (ValueRef value : buffers_of(*launch.segment)) {
        launch.names.push_back(names[value.id]);
        launch.types.emplace_back(launch.segment->type(value));
      }
      return;
    }
    const loops::IR& ir = task.tree->ir;
    for (const auto& nodes : {ir.reads(), ir.writes()}) {
      for (loops::NodeRef node : nodes) {
        launch.names.push_back("%" + ir.node(node).name);
        launch.types.emplace_back(ir.type(node));
      }
    }
  }

  // ---- random work ----

  void compare_random() {
    Random random(static_cast<uint32_t>(options_.seed));
    for (int i = 0; i < options_.random && !found_; ++i) {
      compare_actions(i, random);
      if (!found_ && i % 4 == 0) compare_layer(i, random);
    }
    if (launches_ == 0) fail("device {} claims none of the random layers", a_);
  }

  void compare_layer(int number, Random& random) {
    const Graph graph = random_layer(random);
    const WatchedModel watched(graph, a_);
    if (!watched.uses_device()) return;
    twice([&] { compare_in(watched, watched.inputs({}, options_.seed + number)); });
    if (found_) found_->difference.launch += fmt::format(" of random layer {} (--seed {})", number, options_.seed);
  }

  std::optional<tenon_tile_machine> tile_machine() const {
    const std::shared_ptr<const Backend> a = find_backend(a_).value();
    const tenon_tile_machine* const machine = tile_machine_of(*a);
    return machine == nullptr ? std::nullopt : std::optional(*machine);
  }

  // Both devices are opened anew, so that a stream runs twice in the same way.
  void compare_actions(int number, Random& random) {
    const std::optional<tenon_tile_machine> machine = tile_machine();
    if (!machine) return;
    DiffLaunch launch{.name = fmt::format("random actions {} (--seed {})", number, options_.seed), .inputs = 1};
    launch.tiles = std::make_shared<const TileCode>(random_actions(*machine, kActions, random));
    launch.buffers = {random_operands(random), Bytes(kActionBytes)};
    launch.names = {"operands", "results"};
    launch.types.resize(2);
    twice([&] {
      const DiffSide a = side_of(a_, launch.tiles), b = side_of(b_, launch.tiles);
      note(0, compare_launch(launch, a, b, focus_at(0), options_.tolerance), false);
    });
  }

  static DiffSide side_of(const std::string& spec, const std::shared_ptr<const TileCode>& tiles) {
    struct Segment {
      std::shared_ptr<const TileCode> tiles;
      std::string text;
      tenon_segment segment;
    };
    return call_runtime([&]() -> DiffSide {
      const std::shared_ptr<runtime::Device> device = runtime::open_device(spec);
      const auto owner = std::make_shared<Segment>(Segment{tiles, to_string(*tiles), {}});
      owner->segment = {.size = sizeof(tenon_segment),
                        .name = "actions",
                        .text = owner->text.c_str(),
                        .actions = tiles->actions.data(),
                        .action_count = tiles->actions.size()};
      return {spec, nullptr,
              std::make_shared<const runtime::DeviceProgram>(device, device->compile(owner->segment, owner))};
    });
  }

  // Compares, and once more with a look at the command that differs.
  template <class Body>
  void twice(Body body) {
    body();
    if (!found_ || !found_->difference.command) return;
    focus_on(found_->launch, *found_->difference.command, waves_.has_value());
    const Found before = *std::exchange(found_, {});
    body();
    if (!found_) found_ = before;
    focus_ = {};
  }

  // ---- what was found ----

  void focus_on(size_t launch, uint64_t command, bool with_waves) {
    focus_launch_ = launch;
    focus_ = {.command = command, .waves = with_waves ? options_.waves_file : ""};
  }

  DiffFocus focus_at(size_t launch) {
    if (launch != focus_launch_) return {};
    has_focused_ = true;
    return focus_;
  }

  bool is_described() const { return focus_launch_ == found_->launch && focus_.command == found_->difference.command; }

  void require_focus() const {
    if (!has_focused_ && !found_) fail("--waves {}: the model has {} launches", options_.waves, launches_);
  }

  void note(size_t launch, const DiffResult& result, bool stops = true) {
    ++launches_;
    commands_ += result.commands;
    if (focus_.command && launch == focus_launch_ && *focus_.command >= result.commands)
      fail("--waves: launch {} has {} commands", launch, result.commands);
    if (!result.difference) return;
    found_ = Found{launch, *result.difference};
    if (stops) throw Stopped();
  }

  void report() const {
    if (options_.json)
      print(json_text());
    else
      print(found_ ? text_of(found_->difference) : same_text());
    if (found_) fail("{} and {} differ", a_, b_);
  }

  std::string same_text() const {
    const std::string commands = commands_ == 0 ? "results" : fmt::format("{} commands", commands_);
    const std::string waves =
        has_focused_ && waves_ ? fmt::format("waves of the command: {}\n", options_.waves_file) : "";
    return fmt::format("{} and {} agree: {} of {} launches\n{}", a_, b_, commands, launches_, waves);
  }

  std::string text_of(const Difference& it) const {
    std::string text = it.launch + ": ";
    text += it.command ? fmt::format("command {} of {} differs\n", *it.command, it.commands) : "the results differ\n";
    const auto line = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) text += fmt::format("  {:<9}{}\n", name, value);
    };
    line("command", it.text);
    line("node", it.node);
    line("model", it.location.known() ? to_string(it.location) : "");
    for (const std::string& where : it.where) line("where", where);
    line("a", it.a.empty() ? it.fault_a : it.a);
    line("b", it.b.empty() ? it.fault_b : it.b);
    if (!it.a.empty()) line("a failed", it.fault_a);
    if (!it.b.empty()) line("b failed", it.fault_b);
    line("devices", fmt::format("a is {}, b is {}", a_, b_));
    if (waves_ && it.command) line("waves", options_.waves_file);
    return text;
  }

  std::string json_text() const {
    std::vector<std::pair<std::string_view, std::string>> fields = {{"a", json::string(a_)},
                                                                    {"b", json::string(b_)},
                                                                    {"launches", std::to_string(launches_)},
                                                                    {"commands", std::to_string(commands_)}};
    if (found_) fields.emplace_back("difference", json_of(found_->difference));
    return json::object(fields) + "\n";
  }

  static std::string json_of(const Difference& it) {
    const auto text = [](const std::string& value) { return json::string(value); };
    return json::object({{"launch", text(it.launch)},
                         {"command", it.command ? std::to_string(*it.command) : "null"},
                         {"commands", std::to_string(it.commands)},
                         {"unit", text(it.unit)},
                         {"text", text(it.text)},
                         {"node", text(it.node)},
                         {"model", text(it.location.known() ? to_string(it.location) : "")},
                         {"where", json::array_of(it.where, text)},
                         {"a", text(it.a)},
                         {"b", text(it.b)},
                         {"fault_a", text(it.fault_a)},
                         {"fault_b", text(it.fault_b)}});
  }

  static constexpr size_t kActions = 80;

  const DiffOptions& options_;
  std::string a_, b_;
  std::optional<WavesPlace> waves_;
  size_t focus_launch_ = SIZE_MAX;
  DiffFocus focus_;
  bool has_focused_ = false;
  std::optional<Found> found_;
  size_t launches_ = 0;
  uint64_t commands_ = 0;
};

}  // namespace

Command device_diff_command(CLI::App& device) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* app = device.add_subcommand("diff", "Run two devices in lockstep, up to the first command that differs");
  app->add_option("MODEL", options->model.path, "A .tenon or .pt2 file, or a graph's text; none: random work")
      ->type_name("");
  app->add_option("-a,--a", options->a, "A device that is right, or options of the plug-in's")
      ->required()
      ->type_name("DEVICE");
  app->add_option("-b,--b", options->b, "The device to compare with it")->required()->type_name("DEVICE");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated. None: random numbers")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED");
  app->add_option("--waves", options->waves,
                  "Write a waveform around the first command that differs, or around this one")
      ->type_name("first|[LAUNCH:]COMMAND");
  app->add_option("--waves-file", options->waves_file, "Where to")->type_name("FILE.vcd")->capture_default_str();
  app->add_option("--tolerance", options->tolerance, "How far results of different code may be apart, relatively")
      ->capture_default_str();
  app->add_option("--random", options->random, "Without a model: how many random streams")
      ->capture_default_str()
      ->check(integer_from(0, kMostRandom));
  app->add_option("--seed", options->seed, "Of random numbers")->capture_default_str();
  app->add_flag("--json", options->json, "Print what was found as JSON");
  app->footer(kFooter);
  return {app, [options] { DeviceDiff(*options).run(); }};
}

}  // namespace tenon::cli
