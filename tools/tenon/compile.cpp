// tenon compile: makes a file of a model that runs without a compiler, or shows a stage on the way there.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>

#include "artifact_info.h"
#include "capture/whole_model.h"
#include "codegen/target.h"
#include "command.h"
#include "compile_training.h"
#include "json.h"
#include "model.h"
#include "numbers.h"
#include "output_files.h"
#include "program/artifact.h"
#include "program/program.h"
#include "program/report.h"
#include "runnable.h"
#include "runtime/thread_pool.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

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
  tenon compile cnn.pt2 -o cnn.tenon --train --loss cross_entropy --optimizer "adamw(lr=1e-3)"
  tenon compile bert.pt2                              what becomes of it
  tenon compile bert.pt2 --emit graph -o bert.tg      the graph that was captured
  tenon compile bert.pt2 --emit fused                 the graph that kernels are made of
  tenon compile bert.pt2 --emit tree                  the loops of every kernel)--";

struct Options {
  ModelOptions model;
  std::string output;
  std::string emit;
  std::string cpus = "native";
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

std::string trees_of(const Program& program) {
  std::string text;
  for (const Task& task : program.tasks()) {
    if (task.tree) text += fmt::format("# {}\n{}\n", task.name, task.tree->dump());
  }
  return text;
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
  if (options.emit == "graph") return give(to_string(model.graph), options.output);
  require_supported(model);
  Clock clock;
  const Program program = compile_program(model.graph, {.cpu = options.cpus}).value();
  const double compile_ms = clock.milliseconds();
  if (options.emit == "fused") return give(to_string(program.graph()), options.output);
  if (options.emit == "tree") return give(trees_of(program), options.output);
  const int64_t weights = std::max<int64_t>(weight_bytes(model.graph), 1);
  print(describe(program));
  print(fmt::format("captured {} nodes in {:.1f} ms; resident memory grew by {:.1f} MiB, {:.1f}% of the weights\n",
                    model.graph.nodes().size(), captured.milliseconds, static_cast<double>(captured.grown) / (1 << 20),
                    100.0 * static_cast<double>(captured.grown) / static_cast<double>(weights)));
  print(fmt::format("{} {} tasks in {:.1f} ms; weights {} bytes, arena {} bytes\n",
                    program.is_from_cache() ? "took from the cache" : "compiled", program.tasks().size(), compile_ms,
                    program.constant_bytes(), program.arena_bytes()));
}

// ---- a file ---------------------------------------------------------------------------------------------------------

struct Level {
  std::string cpu;
  Program program;
  double compile_ms;
};

std::vector<std::string> requested_levels(const Options& options) {
  std::vector<std::string> names, cpus;
  for (const std::string& name : split_commas(options.cpus)) {
    const codegen::Target target = codegen::find_target(name);
    if (target.arch != codegen::Arch::kX86) fail("--cpu {}: a .tenon file holds code for x86 CPUs", name);
    if (std::ranges::find(cpus, target.cpu) != cpus.end())
      fail("--cpu {}: {} is there twice", options.cpus, target.cpu);
    cpus.push_back(target.cpu);
    names.push_back(name);
  }
  return names;
}

std::string json_of(const Level& level) {
  return json::object({{"cpu", json::string(level.cpu)},
                       {"tasks", std::to_string(level.program.tasks().size())},
                       {"weight_bytes", std::to_string(level.program.constant_bytes())},
                       {"from_cache", json::boolean(level.program.is_from_cache())},
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
    print(fmt::format("{}: {} tasks, {} in {:.1f} ms\n", level.cpu, level.program.tasks().size(),
                      level.program.is_from_cache() ? "from the cache" : "compiled", level.compile_ms));
  }
  print(fmt::format("{}: {}; the weights of the model are {}\n", options.output, bytes_text(bytes),
                    bytes_text(weight_bytes(captured.model.graph))));
}

void write_file_of(const Captured& captured, const Options& options) {
  const std::vector<std::string> names = requested_levels(options);
  require_supported(captured.model);
  const auto [whole, form] = saved_model(captured.model);
  std::vector<Level> levels;
  Clock clock;
  {
    Progress progress(names.size() + 1);
    for (const std::string& name : names) {
      progress.begin("compiling for " + name);
      Program program = compile_program(whole.graph, {.cpu = name, .assertions = whole.assertions}).value();
      levels.push_back({codegen::find_target(name).cpu, std::move(program), clock.milliseconds()});
    }
    progress.begin("writing " + options.output);
    std::vector<const Program*> programs;
    for (const Level& level : levels) programs.push_back(&level.program);
    Notes notes;
    if (!captured.model.key_input.empty()) notes[kKeyNote] = captured.model.key_input;
    if (form) notes[kCallNote] = to_string(*form);
    write_artifact(options.output, programs, notes).value();
  }
  report(levels, captured, options, clock.milliseconds());
}

void check_options(const Options& options) {
  const bool writes = options.emit.empty() && !options.output.empty();
  if (writes && !is_artifact(options.output)) {
    fail("-o {}: a compiled model is called NAME.tenon; to write a stage, say which with --emit", options.output);
  }
  if (options.json && !writes) fail("--json tells about the file that -o NAME.tenon writes");
  if (options.training.train && !writes) fail("--train writes a file: say which with -o NAME.tenon");
  require_writable_file(options.output);
  if (is_artifact(options.model.path)) fail_at({options.model.path}, "is compiled already: `tenon run` runs it");
}

void compile(const Options& options) {
  check_options(options);
  set_threads(options.threads);
  if (options.training.train) {
    return write_training_file(options.model, options.training, requested_levels(options), options.output,
                               options.json);
  }
  const Captured captured = capture_model(options.model);
  const bool writes = options.emit.empty() && !options.output.empty();
  writes ? write_file_of(captured, options) : show_compilation(captured, options);
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
  app->add_option("-t,--threads", options->threads, "How many threads compile (0: as many as there are CPUs)")
      ->type_name("N")
      ->check(integer_from(0, kMostThreads));
  app->add_option("--emit", options->emit, "Print a stage instead: graph, fused, tree")
      ->check(CLI::IsMember({"graph", "fused", "tree"}));
  app->add_option("-o,--output", options->output, "Write the compiled model, or the stage, there")->type_name("FILE");
  app->add_flag("--json", options->json, "Print what was written as JSON");
  add_training_options(*app, options->training);
  app->footer(kFooter);
  return {app, [options, app] {
            check_training_options(*app, options->training);
            compile(*options);
          }};
}

}  // namespace tenon::cli
