// tenon compile: makes a file of a model that runs without a compiler, or shows a stage on the way there.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "artifact_info.h"
#include "backends/other_machines.h"
#include "capture/whole_model.h"
#include "codegen/target.h"
#include "command.h"
#include "compile_training.h"
#include "driver/pipeline.h"
#include "driver/stage_text.h"
#include "json.h"
#include "model.h"
#include "numbers.h"
#include "output_files.h"
#include "program/artifact.h"
#include "program/report.h"
#include "runnable.h"
#include "runtime/thread_pool.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"
#include "web_module.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"--(With -o it writes a file that `tenon run`, and any program with Tenon's runtime, runs. It holds the graph, the weights
and code for each CPU of --cpu; whoever loads it takes the best that its machine is. Without -o it says what came out and
how long each step took.

With --train the file has a step of training, an evaluation and a prediction, which `tenon train` and any program with
the runtime use. The model may be exported in either mode. One that is exported with a fixed batch size trains with that
size only: export it with a dynamic one.

Examples:
  tenon compile bert.pt2 -o bert.tenon
  tenon compile bert.pt2 -o bert.tenon --cpu x86-64-v3,x86-64-v4
  tenon compile bert.pt2 -o bert.tenon --cpu native,aarch64,neoverse-n1
  tenon compile bert.pt2 -o bert.wasm                 with the runtime, for browsers and Node
  tenon compile cnn.pt2 -o cnn.tenon --train --loss cross_entropy --optimizer "adamw(lr=1e-3)"
  tenon compile bert.pt2                              what becomes of it
  tenon compile bert.pt2 --emit graph -o bert.tg      the captured graph
  tenon compile bert.pt2 --emit groups                which nodes run as one kernel
  tenon compile bert.pt2 --emit all -o stages/        every stage, a file each
  tenon compile bert.pt2 --from stages/13-groups.txt -o bert.tenon
  tenon compile bert.pt2 --stop-after schedules       how long each stage took, so far
The stages: )--";

std::string footer() {
  std::string text = kFooter;
  for (const Stage& stage : pipeline()) text += fmt::format("\n  {:<22} {}", stage.name, stage.doc);
  return text;
}

struct Options {
  ModelOptions model;
  std::string output;
  std::string emit;        // "graph", a stage, or "all"
  std::string stop_after;  // a stage
  std::string from;        // a file with the text of a stage
  std::string cpus;
  int64_t threads = 0;
  bool json = false;
  TrainingRequest training;
};

class Clock {
 public:
  double milliseconds() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The memory of this process that is in RAM, in bytes.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t weight_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.data.defined()) bytes += leaf.data.numel() * size_of(leaf.data.dtype());
  }
  return bytes;
}

void give(const std::string& text, const std::string& output) {
  if (output.empty()) return print(text);
  write_file(output, text).value();
}

// A captured model, and what capturing it took.
struct Captured {
  Model model;
  double milliseconds;
  int64_t grown;  // resident bytes
};

Captured capture_model(const ModelOptions& options) {
  const int64_t resident = resident_bytes();
  Clock clock;
  Model model = read_model(options);
  return {std::move(model), clock.milliseconds(), resident_bytes() - resident};
}

// ---- without a file -------------------------------------------------------------------------------------------------

void show_compilation(const Captured& captured, const Options& options) {
  const Model& model = captured.model;
  require_supported(model);
  Clock clock;
  const Program program = compile_program(model.graph, {.devices = options.model.devices, .cpu = options.cpus}).value();
  const double compile_ms = clock.milliseconds();
  const int64_t weights = std::max<int64_t>(weight_bytes(model.graph), 1);
  print(describe(program));
  print(fmt::format("captured {} nodes in {:.1f} ms; resident memory grew by {:.1f} MiB, {:.1f}% of the weights\n",
                    model.graph.nodes().size(), captured.milliseconds, static_cast<double>(captured.grown) / (1 << 20),
                    100.0 * static_cast<double>(captured.grown) / static_cast<double>(weights)));
  print(fmt::format("{} {} tasks in {:.1f} ms; weights {} bytes, arena {} bytes\n",
                    program.is_from_cache ? "took from the cache" : "compiled", program.tasks.size(), compile_ms,
                    program.constant_bytes(), program.arena_bytes()));
}

// ---- stage by stage -------------------------------------------------------------------------------------------------

struct Stages {
  Module module;
  const Stage* done = nullptr;  // null: none yet
};

Stages begin_stages(const Graph& graph, const ProgramOptions& program_options, const Options& options) {
  if (options.from.empty()) return {new_module(graph)};
  ParsedStage parsed =
      parse_stage(read_file(options.from).value().text(), graph, program_options, options.from).value();
  return {std::move(parsed.module), parsed.stage};
}

std::string stage_file(const std::string& folder, const Stage& stage) {
  return fmt::format("{}/{:02}-{}.txt", folder, &stage - pipeline().data() + 1, stage.name);
}

void write_captured_graph(const Graph& graph, const std::string& folder) {
  if (folder.empty()) fail("--emit all writes many files: name a folder with -o");
  std::filesystem::create_directories(folder);
  write_file(folder + "/00-graph.tg", to_string(graph)).value();
}

void show_stages(const Graph& graph, const Options& options) {
  const ProgramOptions program_options{.devices = options.model.devices, .cpu = options.cpus};
  const bool emits_all = options.emit == "all";
  if (emits_all) write_captured_graph(graph, options.output);
  Stages stages = begin_stages(graph, program_options, options);
  const std::span<const Stage> list = pipeline();
  const size_t first = stages.done == nullptr ? 0 : static_cast<size_t>(stages.done - list.data()) + 1;
  const std::string& last_name = options.stop_after.empty() ? options.emit : options.stop_after;
  const size_t end = emits_all && options.stop_after.empty()
                         ? list.size()
                         : static_cast<size_t>(&stage_named(last_name) - list.data()) + 1;
  if (end <= first) fail("{} is the text of a stage that comes after {}", options.from, last_name);
  RunOptions run = default_run_options();
  std::string times;
  run.after = [&](const Stage& stage, const StageRun& it, const Module& module) {
    times += fmt::format("{:<22} {:>10.3f} ms\n", stage.name, it.milliseconds);
    if (emits_all) write_file(stage_file(options.output, stage), stage_text(module, stage, program_options)).value();
    if (stage.name == options.emit) give(stage_text(module, stage, program_options), options.output);
  };
  run_stages(stages.module, list.subspan(first, end - first), target_of(program_options), program_options, run);
  if (options.emit.empty()) print(times);
}

// ---- a file ---------------------------------------------------------------------------------------------------------

struct Level {
  std::string cpu;
  Program program;
  double compile_ms;

  std::vector<std::string> devices() const {
    std::vector<std::string> names;
    for (const ProgramSpace& space : program.spaces) names.push_back(space.device);
    return names;
  }
};

std::vector<std::string> requested_levels(const Options& options) {
  std::vector<std::string> names, cpus;
  for (const std::string& name : split_commas(options.cpus)) {
    const codegen::Target target = codegen::find_target(name);
    if (target.arch == codegen::Arch::kPtx)
      fail("--cpu {}: a .tenon file holds code for x86-64, aarch64 and wasm32", name);
    const std::string level = codegen::level_of(target);
    if (std::ranges::find(cpus, level) != cpus.end()) fail("--cpu {}: {} is there twice", options.cpus, level);
    cpus.push_back(level);
    names.push_back(name);
  }
  return names;
}

std::string json_of(const Level& level) {
  return json::object({{"cpu", json::string(level.cpu)},
                       {"devices", json::array_of(level.devices(), json::string)},
                       {"tasks", std::to_string(level.program.tasks.size())},
                       {"weight_bytes", std::to_string(level.program.constant_bytes())},
                       {"from_cache", json::boolean(level.program.is_from_cache)},
                       {"compile_ms", fmt::format("{:.3f}", level.compile_ms)}});
}

void report(const std::vector<Level>& levels, const Captured& captured, const Options& options, double write_ms) {
  const int64_t bytes = file_bytes(options.output);
  if (options.json) {
    return print(json::object({{"output", json::string(options.output)},
                               {"bytes", std::to_string(bytes)},
                               {"levels", json::array_of(levels, json_of)},
                               {"capture_ms", fmt::format("{:.3f}", captured.milliseconds)},
                               {"write_ms", fmt::format("{:.3f}", write_ms)},
                               {"warnings", json::warnings()}}) +
                 "\n");
  }
  for (const Level& level : levels) {
    const std::string devices =
        level.program.spaces.empty() ? "" : fmt::format("{} and ", fmt::join(level.devices(), ", "));
    print(fmt::format("{}{}: {} tasks, {} in {:.1f} ms\n", devices, level.cpu, level.program.tasks.size(),
                      level.program.is_from_cache ? "from the cache" : "compiled", level.compile_ms));
  }
  print(fmt::format("{}: {}; the weights of the model are {}\n", options.output, bytes_text(bytes),
                    bytes_text(weight_bytes(captured.model.graph))));
}

Program compiled(const Graph& graph, const ProgramOptions& program_options, const Options& options) {
  if (options.from.empty()) return compile_program(graph, program_options).value();
  Stages stages = begin_stages(graph, program_options, options);
  return finish_program(std::move(stages.module), stages.done, program_options).value();
}

// For each CPU, and then for each with the devices.
std::vector<ProgramOptions> variants_of(const Options& options, const std::vector<Assertion>& assertions) {
  std::vector<ProgramOptions> variants;
  std::vector<std::vector<std::string>> lists = {{}};
  if (!options.model.devices.empty()) lists.push_back(options.model.devices);
  for (const std::vector<std::string>& devices : lists) {
    for (const std::string& cpu : requested_levels(options))
      variants.push_back({.devices = devices, .cpu = cpu, .assertions = assertions});
  }
  return variants;
}

void write_levels(const std::vector<const Program*>& programs, const Notes& notes, const std::string& output) {
  const std::string file = is_web_module(output) ? output + ".tenon" : output;
  write_artifact(file, programs, notes).value();
  if (file == output) return;
  const auto written = attempt([&] { return write_web_module(file, "", output); });
  std::filesystem::remove(file);
  written.value();
}

void write_file_of(const Captured& captured, const Options& options) {
  require_supported(captured.model);
  const auto [whole, form] = saved_model(captured.model);
  const std::vector<ProgramOptions> variants = variants_of(options, whole.assertions);
  std::vector<Level> levels;
  Clock clock;
  {
    Progress progress(variants.size() + 1);
    for (const ProgramOptions& variant : variants) {
      progress.begin("compiling for " + (variant.devices.empty() ? variant.cpu : variant.devices[0]));
      Program program = compiled(whole.graph, variant, options);
      note_idle_devices(variant.devices, program);
      const bool has_nothing_for_devices = !variant.devices.empty() && !program.uses_devices();
      if (has_nothing_for_devices) continue;
      levels.push_back(
          {codegen::level_of(codegen::find_target(variant.cpu)), std::move(program), clock.milliseconds()});
    }
    progress.begin("writing " + options.output);
    std::vector<const Program*> programs;
    for (const Level& level : levels) programs.push_back(&level.program);
    Notes notes;
    if (!captured.model.key_input.empty()) notes[kKeyNote] = captured.model.key_input;
    if (form) notes[kCallNote] = to_string(*form);
    write_levels(programs, notes, options.output);
  }
  report(levels, captured, options, clock.milliseconds());
}

bool writes_model(const Options& options) {
  return options.emit.empty() && options.stop_after.empty() && !options.output.empty();
}

void check_options(const Options& options) {
  if (!options.emit.empty() && options.emit != "all" && options.emit != "graph") stage_named(options.emit);
  if (!options.stop_after.empty()) stage_named(options.stop_after);
  const bool writes = writes_model(options);
  if (writes && !is_artifact(options.output) && !is_web_module(options.output)) {
    fail(
        "-o {}: a compiled model is called NAME.tenon, or NAME.wasm with the runtime in it; to write a stage, say "
        "which "
        "with --emit",
        options.output);
  }
  if (writes && is_web_module(options.output)) {
    require_web_runtime("");
    if (options.training.train) fail("--train writes NAME.tenon; `tenon web` makes a module of it");
  }
  if (options.json && !writes) fail("--json tells about the file that -o NAME.tenon writes");
  if (writes && !options.model.devices.empty() && !options.from.empty())
    fail("--from goes on from one program, and a file with --device has one for the CPU, too");
  if (options.training.train && !writes) fail("--train writes a file: say which with -o NAME.tenon");
  if (options.emit != "all") require_writable_file(options.output);
  if (is_artifact(options.model.path)) fail_at({options.model.path}, "is compiled already: `tenon run` runs it");
}

void compile(const Options& options) {
  check_options(options);
  set_threads(options.threads);
  if (options.training.train) {
    return write_training_file(options.model, options.training, requested_levels(options), options.output,
                               options.json);
  }
  const ForOtherMachines devices_may_be_missing;
  const Captured captured = capture_model(options.model);
  if (options.emit == "graph") return give(to_string(captured.model.graph), options.output);
  if (writes_model(options)) return write_file_of(captured, options);
  if (options.emit.empty() && options.stop_after.empty() && options.from.empty())
    return show_compilation(captured, options);
  require_supported(captured.model);
  show_stages(saved_model(captured.model).whole.graph, options);
}

}  // namespace

Command compile_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("compile", "Compile a model into a file");
  app->add_option("MODEL", options->model.path, "A .pt2 file or a graph's text")->required()->type_name("");
  app->add_option("-p,--param", options->model.parameters, "A parameter or buffer of a graph; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED")
      ->check(any_integer());
  app->add_option("--cpu", options->cpus, "What to compile for; more than one go into one file")->type_name("CPU,...");
  add_device_option(*app, options->model);
  app->add_option("-t,--threads", options->threads, "How many threads compile (0: as many as there are CPUs)")
      ->type_name("N")
      ->check(integer_from(0, kMostThreads));
  app->add_option("--emit", options->emit,
                  "Print the text of a stage (below) instead, or the captured graph; `all` writes each into a file of "
                  "the folder -o")
      ->type_name("STAGE");
  app->add_option("--stop-after", options->stop_after, "Run the stages up to this one, and say how long each took")
      ->type_name("STAGE");
  app->add_option("--from", options->from, "Go on from the text of a stage; the model gives the weights")
      ->type_name("FILE");
  app->add_option("-o,--output", options->output, "Write the compiled model, or the stage, there")->type_name("FILE");
  app->add_flag("--json", options->json, "Print what was written as JSON");
  add_training_options(*app, options->training);
  app->footer(footer());
  return {app, [options, app] {
            check_training_options(*app, options->training);
            if (options->cpus.empty())
              options->cpus = is_web_module(options->output) ? "wasm32,wasm32-relaxed" : "native";
            compile(*options);
          }};
}

}  // namespace tenon::cli
