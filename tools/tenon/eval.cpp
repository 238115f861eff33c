// tenon eval: evaluates a graph with the reference backend.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "backends/reference/evaluate.h"
#include "bind.h"
#include "command.h"
#include "graph/npy.h"
#include "json.h"
#include "terminal.h"
#include "values.h"

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

struct Outcome {
  std::string name;  // unique, and good for a file
  Tensor tensor;
  bool updated = false;  // the new value of a buffer or an input
};

class Outcomes {
 public:
  void add(const std::string& wish, Tensor tensor, bool updated) {
    outcomes_.push_back({unique(wish), std::move(tensor), updated});
  }
  const std::vector<Outcome>& all() const { return outcomes_; }

 private:
  std::string unique(std::string wish) {
    const auto is_plain = [](char c) { return is_identifier(std::string{'_', c}); };
    std::ranges::replace_if(wish, [&](char c) { return !is_plain(c); }, '_');
    if (!is_identifier(wish)) wish.insert(0, "_");
    std::string name = wish;
    for (int suffix = 1; !taken_.insert(name).second; ++suffix) name = fmt::format("{}_{}", wish, suffix);
    return name;
  }

  std::vector<Outcome> outcomes_;
  std::set<std::string> taken_;
};

Outcomes evaluate_graph(const Graph& graph, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> outputs = evaluate(graph, inputs).value();
  Outcomes outcomes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.value_name(graph.outputs()[i]);
    outcomes.add(name.empty() ? fmt::format("out{}", i) : name, outputs[i], false);
  }
  const std::vector<ValueRef> formal = graph.inputs();
  for (const Update& update : graph.updates()) {
    const Leaf& leaf = *graph.leaf(update.target);
    const auto position = std::ranges::find(formal, update.target) - formal.begin();
    outcomes.add(leaf.name, leaf.kind == LeafKind::kInput ? inputs[static_cast<size_t>(position)] : leaf.data, true);
  }
  return outcomes;
}

std::string text_of(const Outcome& outcome) {
  const std::string title = outcome.updated ? outcome.name + " (updated)" : outcome.name;
  return fmt::format("{}: {}\n{}\n", title, to_string(type_of(outcome.tensor)), format_values(outcome.tensor));
}

std::string json_of(const Outcome& outcome) {
  return json::object(
      {{"name", json::string(outcome.name)},
       {"updated", json::boolean(outcome.updated)},
       {"dtype", json::string(name_of(outcome.tensor.dtype()))},
       {"shape", json::array_of(outcome.tensor.shape(), [](int64_t size) { return std::to_string(size); })},
       {"data", json_values(outcome.tensor)}});
}

void show(const std::vector<Outcome>& outcomes, bool as_json) {
  if (as_json) return print(json::object({{"outputs", json::array_of(outcomes, json_of)}}) + "\n");
  for (const Outcome& outcome : outcomes) print(text_of(outcome));
}

void write(const std::vector<Outcome>& outcomes, const std::string& output) {
  if (output.ends_with(".npz")) {
    NamedTensors tensors;
    for (const Outcome& outcome : outcomes) tensors.emplace_back(outcome.name, outcome.tensor);
    write_npz(output, tensors).value();
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(output, error);
  if (error) fail_at({output}, "cannot make the folder: {}", error.message());
  for (const Outcome& outcome : outcomes) {
    write_npy((std::filesystem::path(output) / (outcome.name + ".npy")).string(), outcome.tensor).value();
  }
}

Outcomes evaluate_file(const Options& options) {
  Graph graph = read_graph(options.path);
  try {
    load_parameters(graph, options.parameters);
    if (options.seed) fill_parameters(graph, *options.seed);
    require_parameters(graph);
    return evaluate_graph(graph, load_inputs(graph, options.inputs));
  } catch (const Error& error) {
    if (error.diagnostic().where.known()) throw;
    fail_at({options.path == "-" ? "<stdin>" : options.path}, "{}", error.diagnostic().message);
  }
}

void run(const Options& options) {
  const Outcomes outcomes = evaluate_file(options);
  if (!options.output.empty()) write(outcomes.all(), options.output);
  if (options.output.empty() || options.json) show(outcomes.all(), options.json);
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
  app->add_option("--random-params", options->seed, "Fill the parameters that are not given")->type_name("SEED");
  app->add_option("-o,--output", options->output, "Write each result to DIR/name.npy, or all to FILE.npz")
      ->type_name("DIR|FILE.npz");
  app->add_flag("--json", options->json, "Print the results as JSON, all elements");
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
