// tenon run: runs a model, compiled before or now.
#include <algorithm>
#include <memory>

#include "checkpoints.h"
#include "command.h"
#include "dump.h"
#include "model.h"
#include "numbers.h"
#include "outcomes.h"
#include "output_files.h"
#include "profile.h"
#include "runnable.h"
#include "runtime/thread_pool.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(MODEL is a .tenon file, as `tenon compile` writes it, a .pt2 file, as torch.export.save writes it, or a graph's
text. Inputs are given in the model's order, by name (x=x.npy), or all at once by the names in an .npz archive. No Python
is needed. --profile writes what https://ui.perfetto.dev opens, and says which tasks took longest.

Examples:
  tenon run bert.tenon --input ids.npy --input mask.npy --output out/    writes out/*.npy
  tenon run cnn.tenon --entry predict --checkpoint run/ --input x.npy    with what was trained
  tenon run bert.pt2 --input inputs.npz --output results.npz --threads 2
  tenon run bert.tenon --input inputs.npz --budget 64MiB --profile trace.json --output results.npz
  tenon run mlp.tg --input x.npy --random-params 1 --json | jq .outputs)";

constexpr size_t kShownTasks = 10;

struct Options {
  ModelOptions model;
  std::vector<std::string> inputs;
  std::string output;
  std::string entry;
  std::string states;
  std::string checkpoint;
  std::vector<std::string> budgets;
  std::string profile;
  std::vector<std::string> dump;
  int64_t threads = 0;
  int64_t seed = 0;
  bool no_native = false;
  bool json = false;
};

runtime::ContextOptions context_options(const Options& options) {
  runtime::ContextOptions result{.threads = options.threads, .telemetry = !options.profile.empty()};
  const Budgets budgets = parse_budgets(options.budgets);
  if (budgets.host) result.budget = *budgets.host;
  result.device_budgets = budgets.devices;
  return result;
}

FileOptions file_options(const Options& options) {
  return {.native = !options.no_native, .entry = options.entry, .device = device_of_file(options.model)};
}

// What the model keeps for its next run, under its own names.
void write_states(const std::string& path, runtime::States& states) {
  NamedTensors tensors;
  for (size_t i = 0; i < states.all().size(); ++i) {
    const runtime::StateInfo& info = states.all()[i];
    tensors.emplace_back(info.name, Tensor::borrow(static_cast<DType>(info.dtype), info.shape,
                                                   contiguous_strides(info.shape), states.read(i), nullptr));
  }
  write_npz(path, tensors).value();
}

// As they were saved, of all programs of the file; none where no checkpoint is given.
std::shared_ptr<runtime::States> saved_states(const Options& options) {
  if (options.checkpoint.empty()) return {};
  std::shared_ptr<runtime::States> states =
      make_states(Runnable::load_entries(options.model.path, file_options(options)));
  load_checkpoint(*states, newest_checkpoint(options.checkpoint));
  return states;
}

struct Ran {
  std::vector<Tensor> results;
  std::vector<Outcome> dumped;
};

// What tasks wrote, then the results.
std::vector<Outcome> joined(std::vector<Outcome> dumped, const std::vector<Outcome>& results) {
  dumped.insert(dumped.end(), results.begin(), results.end());
  return dumped;
}

Ran run_once(const Options& options, const Runnable& runnable, const std::vector<Tensor>& inputs, Outputs& outputs) {
  Dump dump(options.dump, runnable);
  runtime::ContextOptions settings = context_options(options);
  dump.observe(settings);
  const std::unique_ptr<runtime::Context> context = runnable.make_context(settings, saved_states(options));
  Ran ran{runnable.run(*context, inputs), dump.take()};
  if (!options.states.empty()) outputs.attempt([&] { write_states(options.states, *context->states()); });
  if (options.profile.empty()) return ran;
  const std::vector<TaskTime> times = times_of(*context, runnable.graph());
  const std::string trace = trace_json(std::string(runnable.graph().name), times);
  outputs.attempt([&] { write_file(options.profile, trace).value(); });
  print_error(slowest_tasks(times, kShownTasks));
  return ran;
}

std::vector<Outcome> run_model(const Options& options, Outputs& outputs) {
  if (!options.entry.empty() || !options.states.empty() || !options.checkpoint.empty()) {
    fail_at({options.model.path},
            "--entry, --states and --checkpoint are for .tenon files; what a graph updates is in its results");
  }
  const Model model = read_model(options.model);
  require_supported(model);
  const std::vector<Tensor> inputs = inputs_for(model, options.inputs, options.seed);
  check_sizes(model, inputs);
  const Runnable runnable = Runnable::compile(
      model.graph, {.backend = options.no_native ? "interpreter" : "cpu", .devices = options.model.devices});
  note_idle_devices(options.model.devices, *runnable.compiled());
  Ran ran = run_once(options, runnable, inputs, outputs);
  const std::vector<Tensor> results = checked_results(model, ran.results);
  return joined(std::move(ran.dumped), outcomes_of(model.graph, inputs, results_of(model, inputs, results)));
}

std::vector<Outcome> run_artifact(const Options& options, Outputs& outputs) {
  if (!options.model.parameters.empty() || options.model.seed) {
    fail_at({options.model.path}, "a .tenon file has its own parameters");
  }
  if (!options.states.empty() && !options.states.ends_with(".npz"))
    fail("--states writes an .npz file, got '{}'", options.states);
  const Runnable runnable = Runnable::load(options.model.path, file_options(options));
  const std::vector<Tensor> inputs = runnable.load_inputs(options.inputs, options.seed);
  Ran ran = run_once(options, runnable, inputs, outputs);
  return joined(std::move(ran.dumped), outcomes_of(runnable.graph(), inputs, ran.results));
}

void check_outputs(const Options& options) {
  require_writable_file(options.states);
  require_writable_file(options.profile);
  require_writable_results(options.output);
}

void run(const Options& options) {
  check_outputs(options);
  set_threads(options.threads);
  Outputs outputs;
  const std::vector<Outcome> outcomes =
      is_artifact(options.model.path) ? run_artifact(options, outputs) : run_model(options, outputs);
  if (!options.output.empty()) outputs.attempt([&] { write(outcomes, options.output); });
  if (options.output.empty() || options.json) outputs.attempt([&] { show(outcomes, options.json); });
  outputs.finish();
}

}  // namespace

Command run_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("run", "Run a model");
  app->add_option("MODEL", options->model.path, "A .tenon or .pt2 file, or a graph's text")->required()->type_name("");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated")->type_name("[NAME=]FILE");
  app->add_option("-p,--param", options->model.parameters, "A parameter or buffer of a graph; may be repeated")
      ->type_name("NAME=FILE");
  for (const char* name : {"--input", "--param"}) app->get_option(name)->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED")
      ->check(any_integer());
  app->add_option("-o,--output", options->output, "Write each result to DIR/name.npy, or all to FILE.npz")
      ->type_name("DIR|FILE.npz");
  app->add_option("--entry", options->entry, "Which program of a .tenon file that has several")->type_name("NAME");
  app->add_option("--states", options->states, "Write what the model keeps for its next run")->type_name("FILE.npz");
  app->add_option("--checkpoint", options->checkpoint,
                  "Run with the states of this checkpoint, or of a folder's newest")
      ->type_name("FILE|DIR");
  app->add_option("-t,--threads", options->threads, "How many threads (0: as many as there are CPUs)")
      ->type_name("N")
      ->check(integer_from(0, kMostThreads));
  add_device_option(*app, options->model);
  app->add_option("--budget", options->budgets,
                  "The most memory for temporaries and scratch; npu=64MiB: of a device, with constants and states")
      ->type_name("64MiB")
      ->allow_extra_args(false);
  app->add_flag("--no-native", options->no_native, "Run no machine code of the model's, but its portable kernels");
  app->add_option("--profile", options->profile, "Write when each task ran, as a trace")->type_name("TRACE.json");
  app->add_option("--dump", options->dump, "Also give what these tasks write; may be repeated")
      ->type_name("all|PATTERN")
      ->allow_extra_args(false);
  app->add_option("--seed", options->seed, "What the model's random numbers are drawn from")
      ->type_name("SEED")
      ->check(any_integer());
  app->add_flag("--json", options->json, "Print the results as JSON, all elements");
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
