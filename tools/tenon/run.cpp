// tenon run: compiles a model and runs it.
#include <chrono>
#include <memory>

#include "command.h"
#include "model.h"
#include "outcomes.h"
#include "program/program.h"
#include "runtime/thread_pool.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(MODEL is a .pt2 file, as torch.export.save writes it, or a graph's text. Inputs are given in the model's order, by name
(x=x.npy), or all at once by the names in an .npz archive. No Python is needed.

Examples:
  tenon run bert.pt2 --input ids.npy --input mask.npy --output out/      writes out/*.npy
  tenon run bert.pt2 --input inputs.npz --output results.npz --threads 2
  tenon run mlp.tg --input x.npy --random-params 1 --json | jq .outputs)";

struct Options {
  ModelOptions model;
  std::vector<std::string> inputs;
  std::string output;
  int64_t threads = 0;
  int64_t seed = 0;
  bool json = false;
};

void run(const Options& options) {
  set_threads(options.threads);
  const Model model = read_model(options.model);
  require_supported(model);
  const std::vector<Tensor> inputs = inputs_for(model, options.inputs, options.seed);
  check_sizes(model, inputs);
  const Program program = compile_program(model.graph).value();
  const std::vector<Tensor> results = checked_results(model, program.run(inputs));
  const std::vector<Outcome> outcomes = outcomes_of(model.graph, inputs, results_of(model, inputs, results));
  if (!options.output.empty()) write(outcomes, options.output);
  if (options.output.empty() || options.json) show(outcomes, options.json);
}

}  // namespace

Command run_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("run", "Compile a model and run it");
  app->add_option("MODEL", options->model.path, "A .pt2 file or a graph's text")->required()->type_name("");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated")->type_name("[NAME=]FILE");
  app->add_option("-p,--param", options->model.parameters, "A parameter or buffer of a graph; may be repeated")
      ->type_name("NAME=FILE");
  for (const char* name : {"--input", "--param"}) app->get_option(name)->allow_extra_args(false);
  app->add_option("--random-params", options->model.seed, "Fill a graph's parameters that are not given")
      ->type_name("SEED");
  app->add_option("-o,--output", options->output, "Write each result to DIR/name.npy, or all to FILE.npz")
      ->type_name("DIR|FILE.npz");
  app->add_option("-t,--threads", options->threads, "How many threads (0: as many as there are CPUs)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, kMostThreads));
  app->add_option("--seed", options->seed, "What the model's random numbers are drawn from")->type_name("SEED");
  app->add_flag("--json", options->json, "Print the results as JSON, all elements");
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
