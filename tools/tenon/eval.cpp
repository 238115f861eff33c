// tenon eval: evaluates a graph with the reference backend.
#include <memory>
#include <optional>

#include "bind.h"
#include "command.h"
#include "graph/evaluate.h"
#include "numbers.h"
#include "outcomes.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Inputs are given in the graph's order, by name (x=x.npy), or all at once by the names in an .npz archive. A value that the
graph updates is a result, too. bf16 is stored as ml_dtypes does it: np.load(f).view(ml_dtypes.bfloat16) reads it.
Random parameters depend on the seed and their names; a parameter is uniform in [-k, k), k = 1/sqrt(elements in a row).

Examples:
  tenon eval mlp.tg --input x.npy --random-params 1
  tenon eval mlp.tg --input x=batch.npy --param fc.weight=w.npy --param fc.bias=b.npy
  tenon eval mlp.tg --input x.npy --param weights.npz --output out/       writes out/y.npy
  tenon eval mlp.tg --input x.npy --param weights.npz --json | jq .outputs)";

struct Options {
  std::string path;
  std::vector<std::string> inputs;
  std::vector<std::string> parameters;
  std::optional<int64_t> seed;
  std::string output;
  bool json = false;
};

std::vector<Outcome> evaluate_file(const Options& options) {
  Graph graph = read_graph(options.path);
  try {
    load_parameters(graph, options.parameters);
    if (options.seed) fill_parameters(graph, *options.seed);
    require_parameters(graph);
    const std::vector<Tensor> inputs = load_inputs(input_infos(graph), options.inputs);
    return outcomes_of(graph, inputs, named_outputs(graph, evaluate(graph, inputs).value()));
  } catch (const Error& error) {
    if (error.diagnostic().where.known()) throw;
    fail_at({options.path == "-" ? "<stdin>" : options.path}, "{}", error.diagnostic().message);
  }
}

void run(const Options& options) {
  require_writable_results(options.output);
  const std::vector<Outcome> outcomes = evaluate_file(options);
  if (!options.output.empty()) write(outcomes, options.output);
  if (options.output.empty() || options.json) show(outcomes, options.json);
}

}  // namespace

Command eval_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("eval", "Evaluate a graph on the CPU: slow, and right by definition");
  app->add_option("GRAPH", options->path, "A graph's text; - reads standard input")->required()->type_name("");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated")->type_name("[NAME=]FILE");
  app->add_option("-p,--param", options->parameters, "A parameter or buffer, or an archive of them; may be repeated")
      ->type_name("NAME=FILE");
  for (const char* name : {"--input", "--param"}) app->get_option(name)->allow_extra_args(false);
  app->add_option("--random-params", options->seed, "Fill the parameters that are not given")
      ->type_name("SEED")
      ->check(any_integer());
  app->add_option("-o,--output", options->output, "Write each result to DIR/name.npy, or all to FILE.npz")
      ->type_name("DIR|FILE.npz");
  app->add_flag("--json", options->json, "Print the results as JSON, all elements");
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
