#include "compile_training.h"

#include <fmt/ranges.h>

#include <chrono>

#include "artifact_info.h"
#include "json.h"
#include "numbers.h"
#include "terminal.h"
#include "training/file.h"
#include "training/model.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kGroup = "Training";
constexpr int64_t kMostAccumulated = 1'000'000;

TrainingOptions options_of(const TrainingRequest& request, std::vector<std::string> frozen) {
  frozen.insert(frozen.end(), request.frozen.begin(), request.frozen.end());
  return {.loss = parse_loss(request.loss).value(),
          .optimizer = parse_optimizer(request.optimizer).value(),
          .frozen = std::move(frozen),
          .precision = request.precision == "bf16" ? Precision::kBf16 : Precision::kAsModel,
          .accumulate = request.accumulate,
          .seed = request.seed};
}

// A graph's text is the model in both modes.
ExportedModel read_both_modes(const ModelOptions& options) {
  if (is_pt2(options.path)) {
    if (!options.parameters.empty() || options.seed) fail_at({options.path}, "a .pt2 file has its own parameters");
    return read_exported_model(options.path);
  }
  const Graph graph = read_model(options).graph;
  return {{.training = graph, .inference = graph, .outputs = graph.outputs().size()}, {}, {}};
}

int64_t state_bytes(const TrainingFile& file) {
  std::map<std::string, int64_t> bytes;
  for (const TrainingFile::Entry& entry : file.entries) {
    const Program& program = *entry.variants[0];
    for (size_t i = 0; i < program.leaves.size(); ++i) {
      const Tensor& leaf = program.leaves[i];
      bytes[program.leaf_names[i]] = leaf.numel() * size_of(leaf.dtype());
    }
  }
  int64_t sum = 0;
  for (const auto& [name, size] : bytes) sum += size;
  return sum;
}

std::string entry_json(const TrainingFile::Entry& entry) {
  return json::object({{"name", json::string(entry.name)}, {"tasks", std::to_string(entry.variants[0]->tasks.size())}});
}

std::string text_of(const TrainingFile& file, size_t trained, const std::string& output, double milliseconds) {
  std::vector<std::string> parts;
  for (const TrainingFile::Entry& entry : file.entries) {
    parts.push_back(fmt::format("{} {} tasks", entry.name, entry.variants[0]->tasks.size()));
  }
  return fmt::format("{}, compiled in {:.1f} ms\n{}: {}; trains {} parameters, with states of {}\n",
                     fmt::join(parts, ", "), milliseconds, output, bytes_text(file_bytes(output)), trained,
                     bytes_text(state_bytes(file)));
}

std::string json_of(const TrainingFile& file, const LocalTrainingInstance& trainer, const std::string& output,
                    double milliseconds) {
  return json::object({{"output", json::string(output)},
                       {"bytes", std::to_string(file_bytes(output))},
                       {"entries", json::array_of(file.entries, entry_json)},
                       {"trained", json::array_of(trainer.trained(), json::string)},
                       {"state_bytes", std::to_string(state_bytes(file))},
                       {"compile_ms", fmt::format("{:.3f}", milliseconds)},
                       {"warnings", json::warnings()}}) +
         "\n";
}

}  // namespace

void add_training_options(CLI::App& app, TrainingRequest& request) {
  app.add_flag("--train", request.train, "Make a file that `tenon train` trains")->group(kGroup);
  app.add_option("--loss", request.loss, "cross_entropy, mse, l1, nll, bce_with_logits, output, with settings")
      ->type_name("LOSS")
      ->group(kGroup);
  app.add_option("--optimizer", request.optimizer, "sgd, adam, adamw, adagrad, rmsprop, lion, with settings")
      ->type_name("\"adamw(lr=1e-3)\"")
      ->group(kGroup);
  app.add_option("--frozen", request.frozen, "Parameters that stay as they are; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false)
      ->group(kGroup);
  app.add_option("--precision", request.precision, "f32, or products in bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->group(kGroup);
  app.add_option("--accumulate", request.accumulate, "An update of the mean gradient of so many steps")
      ->type_name("N")
      ->check(integer_from(1, kMostAccumulated))
      ->group(kGroup);
  app.add_option("--seed", request.seed, "What dropout is drawn from")
      ->type_name("SEED")
      ->check(any_integer())
      ->group(kGroup);
  app.add_option("--budget", request.budgets, "The most memory of a step, states and results included")
      ->type_name("64MiB")
      ->allow_extra_args(false)
      ->group(kGroup);
}

void check_training_options(const CLI::App& app, const TrainingRequest& request) {
  if (request.train) {
    if (request.loss.empty()) fail("--train needs --loss, such as --loss cross_entropy");
    if (request.optimizer.empty()) fail("--train needs --optimizer, such as --optimizer \"adamw(lr=1e-3)\"");
    return;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == kGroup && option->count() > 0) fail("{} is for --train", option->get_name());
  }
}

void write_training_file(const ModelOptions& model, const TrainingRequest& request,
                         const std::vector<std::string>& cpus, const std::string& output, bool json) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress(std::in_place, 3);
  progress->begin("reading " + model.path);
  ExportedModel exported = read_both_modes(model);
  note_assertions(exported.assertions, output);
  progress->begin("compiling a step");
  LocalTrainingInstance trainer(exported.model, options_of(request, std::move(exported.frozen)), 0, model.devices);
  const Budgets budgets = parse_budgets(request.budgets);
  trainer.initialize(budgets.host, budgets.devices);
  const TrainingFile file = training_file(trainer, cpus);
  progress->begin("writing " + output);
  write_training(output, trainer, file).value();
  progress.reset();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  print(json ? json_of(file, trainer, output, taken.count())
             : text_of(file, trainer.trained().size(), output, taken.count()));
}

void note_assertions(const std::vector<Assertion>& assertions, const std::string& output) {
  for (const Assertion& assertion : assertions) {
    const std::string where = assertion.location.known() ? to_string(assertion.location) + ": " : "";
    print_error(
        fmt::format("{}note: {} does not check what the model asserts here: {}\n", where, output, assertion.message));
  }
}

}  // namespace tenon::cli
