// tenon train: trains a model that `tenon compile --train` made a file of. Nothing is compiled, and no Python is
// needed.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "autodiff/loss.h"
#include "checkpoints.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "numbers.h"
#include "output_files.h"
#include "program/artifact.h"
#include "runnable.h"
#include "runtime/checkpoint.h"
#include "runtime/thread_pool.h"
#include "support/file.h"
#include "support/runtime_call.h"
#include "terminal.h"
#include "train_data.h"
#include "train_metrics.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(MODEL is a file of `tenon compile --train`, or of a trainer's save() in Python. The data is an .npz file (np.savez, not
compressed) with an array for each input of the model, by its name, and "target". Rows are samples. Each epoch goes
through all of them in an order that the seed tells. The last, smaller batch of an epoch is trained too, unless the model
was exported with a fixed batch size: then those samples are left out of that epoch.

--checkpoint DIR saves the states after each epoch, in one step each: who is killed loses no checkpoint. --resume goes on
from the newest, to the last bit as if nothing had happened, given the same data and number of threads; where there is
none it starts. `tenon run MODEL --entry predict --checkpoint DIR` uses what was trained. Ctrl-C ends the training after
the step that runs, with a checkpoint, and whatever else was to be written at the end; a second one ends it at once.

Examples:
  tenon train cnn.tenon --data train.npz --validate test.npz --epochs 20 --batch 64 --checkpoint run/
  tenon train cnn.tenon --data train.npz --epochs 40 --batch 64 --checkpoint run/ --resume
  tenon train cnn.tenon --data train.npz --epochs 5 --metrics loss.csv --plot loss.svg --export weights.safetensors)";

struct Options {
  std::string model;
  std::string data;
  std::string validate;
  int64_t epochs = 1;
  int64_t steps = 0;  // 0: as many as the epochs have
  int64_t batch = 0;  // 0: the model's, or kUsualBatch
  std::string checkpoint;
  int64_t checkpoint_steps = 0;
  int64_t keep = 3;
  bool resume = false;
  int64_t seed = 0;
  int64_t threads = 0;
  std::vector<std::string> budgets;
  std::string metrics;
  std::string plot;
  std::string exported;
  std::string device;
  bool json = false;
};

constexpr int64_t kUsualBatch = 32;
constexpr int64_t kMostEpochs = 1'000'000'000;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- the programs ---------------------------------------------------------------------------------------------------

// A file may say anything.
int64_t integer_in(const std::string& path, std::string_view key, std::string_view text, int64_t least) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least)
    fail_at({path}, "the note '{}' is no integer from {}: '{}'", key, least, text);
  return value;
}

// The entries of the file, over one set of states.
class Programs {
 public:
  explicit Programs(const Options& options)
      : path_(options.model),
        entries_(Runnable::load_entries(path_, {.device = options.device})),
        states_(make_states(entries_)) {
    check_entries();
    read_recipe();
    runtime::ContextOptions settings{.threads = options.threads};
    const Budgets budgets = parse_budgets(options.budgets);
    if (budgets.host) settings.budget = *budgets.host;
    settings.device_budgets = budgets.devices;
    for (const Runnable& entry : entries_) contexts_.push_back(entry.make_context(settings, states_));
  }

  const Runnable& step() const { return *(find("step") ? find("step") : find("part")); }
  const Runnable& evaluation() const { return *find("evaluate"); }
  runtime::States& states() { return *states_; }
  const std::optional<Loss>& loss() const { return loss_; }

  // Step number `number`, from 0; gives the loss.
  double train(int64_t number, const std::vector<Tensor>& inputs) {
    const double loss = run(step(), inputs)[0].real(0);
    if (!find("step") && (number + 1) % accumulate_ == 0) run(*find("update"), {});
    return loss;
  }
  std::vector<Tensor> evaluate(const std::vector<Tensor>& inputs) { return run(evaluation(), inputs); }

 private:
  const Runnable* find(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &Runnable::entry);
    return found == entries_.end() ? nullptr : &*found;
  }

  bool gives_loss(std::string_view name) const {
    const Runnable* const entry = find(name);
    return entry && !entry->graph().outputs.empty();
  }

  void check_entries() const {
    const bool trains = gives_loss("step") || (gives_loss("part") && find("update"));
    if (!trains || !gives_loss("evaluate"))
      fail_at({path_}, "has no step to train with: `tenon compile --train` makes a file that has one");
  }

  void read_recipe() {
    const Notes notes = read_notes(*entries_[0].container(), entries_[0].entry()).value();
    if (const auto loss = notes.find("loss"); loss != notes.end()) loss_ = parse_loss(loss->second).value();
    if (const auto parts = notes.find("accumulate"); parts != notes.end())
      accumulate_ = integer_in(path_, "accumulate", parts->second, 1);
  }

  std::vector<Tensor> run(const Runnable& entry, const std::vector<Tensor>& inputs) {
    return entry.run(*contexts_[static_cast<size_t>(&entry - entries_.data())], inputs);
  }

  std::string path_;
  std::vector<Runnable> entries_;
  std::shared_ptr<runtime::States> states_;
  std::vector<std::unique_ptr<runtime::Context>> contexts_;
  std::optional<Loss> loss_;
  int64_t accumulate_ = 1;
};

// ---- validation -----------------------------------------------------------------------------------------------------

struct Validation {
  double loss = 0;  // the mean over samples
  std::optional<double> accuracy;
  int64_t samples = 0;
};

bool has_classes(const std::optional<Loss>& loss) {
  return loss && ((loss->kind == LossKind::kCrossEntropy && !loss->probabilities) || loss->kind == LossKind::kNll);
}

struct Hits {
  int64_t right = 0;
  int64_t counted = 0;
};

// Scores are [N, C, ...] or [C]; classes are without the C. What is not so has no accuracy.
void count_hits(Hits& hits, const Tensor& scores, const Tensor& classes, int64_t ignored) {
  if (scores.rank() != classes.rank() + 1 || is_float(classes.dtype())) return;
  const int64_t kinds = scores.size(scores.rank() > 1 ? 1 : 0);
  const int64_t outer = scores.rank() > 1 ? scores.size(0) : 1;
  const int64_t inner = outer * kinds == 0 ? 0 : scores.numel() / (outer * kinds);
  for (int64_t i = 0; i < std::min(outer * inner, classes.numel()); ++i) {
    const int64_t wanted = classes.integer(classes.offset(i));
    if (wanted == ignored) continue;
    const int64_t first = i / inner * kinds * inner + i % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < kinds; ++k) {
      if (scores.real(first + k * inner) > scores.real(first + best * inner)) best = k;
    }
    ++hits.counted;
    hits.right += best == wanted;
  }
}

Validation validate(Programs& programs, TrainingData& data, const EpochSize& epoch) {
  Validation result{.samples = epoch.used};
  Hits hits;
  std::vector<int64_t> samples;
  for (int64_t step = 0; step < epoch.steps; ++step) {
    samples.resize(static_cast<size_t>(epoch.size_of(step)));
    std::iota(samples.begin(), samples.end(), step * epoch.batch);
    const std::vector<Tensor> inputs = data.batch(samples);
    const std::vector<Tensor> outputs = programs.evaluate(inputs);
    result.loss += outputs.back().real(0) * static_cast<double>(samples.size()) / static_cast<double>(epoch.used);
    if (has_classes(programs.loss()))
      count_hits(hits, outputs[0].contiguous(), inputs.back(), programs.loss()->ignore_index);
  }
  if (hits.counted > 0) result.accuracy = static_cast<double>(hits.right) / static_cast<double>(hits.counted);
  return result;
}

// ---- where a training is --------------------------------------------------------------------------------------------

// Goes into checkpoints, beside the states: with the seed and the data it tells everything that comes.
struct Position {
  int64_t step = 0;       // how many are done
  double epoch_loss = 0;  // of the current epoch: the sum over its samples so far
  int64_t batch = 0;      // how the data is gone through: it must not change on the way
  int64_t seed = 0;
  int64_t samples = 0;
};

constexpr std::string_view kLossNote = "train.epoch_loss", kBatchNote = "train.batch", kSeedNote = "train.seed",
                           kSamplesNote = "train.samples";

void write_position(runtime::Notes& notes, const Position& position) {
  notes[std::string(kStepNote)] = std::to_string(position.step);
  notes[std::string(kLossNote)] = fmt::format("{:a}", position.epoch_loss);
  notes[std::string(kBatchNote)] = std::to_string(position.batch);
  notes[std::string(kSeedNote)] = std::to_string(position.seed);
  notes[std::string(kSamplesNote)] = std::to_string(position.samples);
}

const std::string& note_in(const runtime::Notes& notes, std::string_view key, const std::string& path) {
  const auto found = notes.find(key);
  if (found == notes.end()) fail_at({path}, "`tenon train` has not written this: it has no note '{}'", key);
  return found->second;
}

Position read_position(const runtime::Notes& notes, const std::string& path) {
  const auto integer = [&](std::string_view key, int64_t least) {
    return integer_in(path, key, note_in(notes, key, path), least);
  };
  const double epoch_loss = std::strtod(note_in(notes, kLossNote, path).c_str(), nullptr);
  return {integer(kStepNote, 0), epoch_loss, integer(kBatchNote, 1), integer(kSeedNote, INT64_MIN),
          integer(kSamplesNote, 1)};
}

void check_continues(const std::string& path, const Position& saved, const Position& now) {
  const auto check_same = [&](std::string_view what, int64_t before, int64_t given) {
    if (before != given)
      fail_at({path}, "was saved with {} {}, and now it is {}: a training goes on as it began", what, before, given);
  };
  check_same("--batch", saved.batch, now.batch);
  check_same("--seed", saved.seed, now.seed);
  check_same("a number of samples of", saved.samples, now.samples);
}

// ---- the training ---------------------------------------------------------------------------------------------------

int64_t chosen_batch(const Options& options, const BatchSize& size) {
  if (size.fixed) {
    if (options.batch != 0 && options.batch != *size.fixed) {
      fail_at({options.model},
              "--batch {}: the model was exported with a batch of {}, and trains with that size only; export it with a "
              "dynamic one for others",
              options.batch, *size.fixed);
    }
    return *size.fixed;
  }
  const int64_t batch = options.batch == 0 ? std::clamp(kUsualBatch, size.low, size.high) : options.batch;
  if (batch < size.low || batch > size.high)
    fail_at({options.model}, "--batch {}: the model takes batches of {} to {}", batch, size.low, size.high);
  return batch;
}

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        programs_(options),
        size_(batch_size_of(options.model, programs_.step())),
        data_(options.data, programs_.step(), size_),
        epoch_(checked_size(options.data, checked_samples())),
        position_{.batch = epoch_.batch, .seed = options.seed, .samples = epoch_.samples},
        total_(checked_mul(options.epochs, epoch_.steps)) {
    if (options.steps > 0) total_ = options.steps;
    if (!options.validate.empty()) {
      validation_.emplace(options.validate, programs_.evaluation(),
                          batch_size_of(options.model, programs_.evaluation()));
      validation_size_ = checked_size(options.validate, validation_->samples());
    }
    check_outputs();
    if (keeps_checkpoints()) open_folder();
    if (!options.metrics.empty()) {
      metrics_.emplace(options.metrics, position_.step);
      rows_ = metrics_->kept();
    }
  }

  void run() {
    const Interruptible interruptible;
    const Clock::time_point start = Clock::now();
    epoch_start_ = start;
    while (position_.step < total_ && !Interruptible::was_interrupted()) train_step();
    const bool is_done = position_.step == total_;
    if (!is_done && keeps_checkpoints() && saved_ != newest_path()) save();
    progress_.clear();
    write_results();
    report(seconds_since(start));
    if (!is_done) throw Interrupted{interruption()};
    outputs_.finish();
  }

 private:
  int64_t checked_samples() const {
    if (options_.batch > data_.samples())
      fail_at({options_.data}, "--batch {}: there are {} samples, and a batch is from 1 to {} of them", options_.batch,
              data_.samples(), data_.samples());
    return data_.samples();
  }

  EpochSize checked_size(const std::string& path, int64_t samples) const {
    const EpochSize epoch = epoch_size(samples, chosen_batch(options_, size_), size_);
    if (epoch.steps == 0) fail_at({path}, "has {} samples, fewer than a batch of {}", samples, epoch.batch);
    return epoch;
  }

  // Before the first step: what could not be written in the end would be lost.
  void check_outputs() const {
    require_writable_file(options_.metrics);
    require_writable_file(options_.plot);
    require_regular_file(options_.exported);
    require_writable_folder(options_.checkpoint);
  }

  void write_results() {
    if (metrics_) outputs_.attempt([&] { metrics_->flush(); });
    if (!options_.plot.empty()) {
      outputs_.attempt([&] { write_file(options_.plot, loss_picture("loss of " + options_.model, rows_)).value(); });
    }
    if (options_.exported.empty()) return;
    outputs_.attempt([&] { call_runtime([&] { runtime::export_states(programs_.states(), options_.exported); }); });
  }

  // The training goes on where nobody reads what it says, and where that cannot be written.
  void say(const std::string& text) {
    outputs_.attempt([&] { print(text); });
  }

  void open_folder() {
    prepare_folder(options_.checkpoint);
    const std::vector<CheckpointFile> found = checkpoints_in(options_.checkpoint);
    if (found.empty()) return;
    const std::string& path = found.back().path;
    if (!options_.resume)
      fail_at({options_.checkpoint}, "there are checkpoints in this folder, up to step {}: --resume goes on from there",
              found.back().step);
    load_checkpoint(programs_.states(), path);
    const Position saved = read_position(programs_.states().notes(), path);
    check_continues(path, saved, position_);
    position_ = saved;
    saved_ = path;
  }

  void train_step() {
    const int64_t epoch = position_.step / epoch_.steps, number = position_.step % epoch_.steps;
    if (order_epoch_ != epoch) {
      order_ = shuffled(epoch_.samples, options_.seed, epoch);
      order_epoch_ = epoch;
    }
    const auto size = static_cast<size_t>(epoch_.size_of(number));
    const auto samples = std::span(order_).subspan(static_cast<size_t>(number * epoch_.batch), size);
    const double loss = programs_.train(position_.step, data_.batch(samples));
    if (std::isnan(loss))
      fail("the loss of step {} is not a number: a smaller learning rate may help", position_.step + 1);
    ++position_.step;
    position_.epoch_loss += loss * static_cast<double>(size);
    epoch_samples_ += static_cast<int64_t>(size);
    add_row({.epoch = epoch + 1, .step = position_.step, .loss = loss});
    show_progress(epoch + 1, loss);
    if (number + 1 == epoch_.steps) end_epoch(epoch + 1);
    if (is_to_be_saved(number + 1 == epoch_.steps)) save();
  }

  void end_epoch(int64_t epoch) {
    MetricRow row{.is_epoch = true, .epoch = epoch, .step = position_.step};
    row.loss = position_.epoch_loss / static_cast<double>(epoch_.used);
    row.samples_per_second = static_cast<double>(epoch_samples_) / seconds_since(epoch_start_);
    if (validation_) {
      const Validation found = validate(programs_, *validation_, *validation_size_);
      row.validation_loss = found.loss;
      row.accuracy = found.accuracy;
    }
    position_.epoch_loss = 0;
    epoch_samples_ = 0;
    epoch_start_ = Clock::now();
    add_row(row);
    epochs_.push_back(row);
    progress_.clear();
    if (!options_.json) say(epoch_text(row));
  }

  void add_row(const MetricRow& row) {
    if (metrics_) metrics_->add(row);
    if (!options_.plot.empty()) rows_.push_back(row);
  }

  void show_progress(int64_t epoch, double loss) {
    constexpr double kSecondsBetween = 0.1;
    if (seconds_since(shown_) < kSecondsBetween) return;
    shown_ = Clock::now();
    progress_.show(static_cast<double>(position_.step) / static_cast<double>(total_),
                   fmt::format("epoch {}, step {} of {}, loss {:.4f}, {:.0f} samples/s", epoch, position_.step, total_,
                               loss, static_cast<double>(epoch_samples_) / seconds_since(epoch_start_)));
  }

  bool keeps_checkpoints() const { return !options_.checkpoint.empty(); }
  std::string newest_path() const { return checkpoint_path(options_.checkpoint, position_.step); }

  std::string interruption() const {
    const std::string at = fmt::format("interrupted after step {} of {}: ", position_.step, total_);
    if (!keeps_checkpoints()) return at + "with --checkpoint DIR it could go on from here";
    return at + (options_.resume ? "the same command goes on from here" : "the same command with --resume goes on");
  }

  bool is_to_be_saved(bool ends_epoch) const {
    if (!keeps_checkpoints()) return false;
    const bool is_due = options_.checkpoint_steps > 0 && position_.step % options_.checkpoint_steps == 0;
    return ends_epoch || is_due || position_.step == total_;
  }

  // Writes metrics before the states: a resumed training then has the metrics of all steps before its states. A file
  // that cannot be written does not end the training: the next checkpoint may succeed, and there are other outputs.
  void save() {
    if (metrics_) outputs_.attempt([&] { metrics_->flush(); });
    write_position(programs_.states().notes(), position_);
    outputs_.attempt([&] {
      call_runtime([&] { runtime::save_states(programs_.states(), newest_path()); });
      saved_ = newest_path();
      keep_newest(options_.checkpoint, options_.keep);
    });
  }

  static std::string epoch_text(const MetricRow& row) {
    std::string text = fmt::format("epoch {}: loss {:.4f}", row.epoch, row.loss);
    if (row.validation_loss) text += fmt::format(", validation {:.4f}", *row.validation_loss);
    if (row.accuracy) text += fmt::format(", accuracy {:.2f}%", 100 * *row.accuracy);
    return text + fmt::format(", {:.0f} samples/s\n", *row.samples_per_second);
  }

  static std::string number_json(const std::optional<double>& value) {
    return value && std::isfinite(*value) ? fmt::format("{}", *value) : "null";
  }

  static std::string epoch_json(const MetricRow& row) {
    return json::object({{"epoch", std::to_string(row.epoch)},
                         {"step", std::to_string(row.step)},
                         {"loss", number_json(row.loss)},
                         {"validation_loss", number_json(row.validation_loss)},
                         {"accuracy", number_json(row.accuracy)},
                         {"samples_per_second", number_json(row.samples_per_second)}});
  }

  void report(double seconds) {
    if (options_.json) {
      return say(json::object({{"steps", std::to_string(position_.step)},
                               {"samples", std::to_string(epoch_.samples)},
                               {"samples_used", std::to_string(epoch_.used)},
                               {"batch", std::to_string(epoch_.batch)},
                               {"epochs", json::array_of(epochs_, epoch_json)},
                               {"seconds", fmt::format("{:.3f}", seconds)},
                               {"checkpoint", saved_.empty() ? "null" : json::string(saved_)}}) +
                 "\n");
    }
    say(fmt::format("{} steps of {} samples in {:.1f} s{}\n", position_.step, epoch_.batch, seconds,
                    saved_.empty() ? "" : "; " + saved_));
  }

  const Options& options_;
  Programs programs_;
  BatchSize size_;
  TrainingData data_;
  EpochSize epoch_;
  Position position_;
  int64_t total_;  // of steps
  std::optional<TrainingData> validation_;
  std::optional<EpochSize> validation_size_;
  std::optional<MetricFile> metrics_;
  std::vector<MetricRow> rows_;    // for the picture
  std::vector<MetricRow> epochs_;  // of this run
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;
  Progress progress_{1};
  Clock::time_point epoch_start_, shown_;
  int64_t epoch_samples_ = 0;  // of this run
  std::string saved_;          // the newest checkpoint
  Outputs outputs_;
};

void check_options(const Options& options) {
  if (!is_artifact(options.model)) {
    fail_at({options.model}, "is no .tenon file: compile it first, with `tenon compile {} --train -o NAME.tenon`",
            options.model);
  }
  if (options.checkpoint.empty() && options.resume) fail("--resume goes on from the checkpoints of --checkpoint DIR");
  if (options.checkpoint.empty() && options.checkpoint_steps > 0) fail("--checkpoint-steps needs --checkpoint DIR");
  if (options.checkpoint.empty() && options.exported.empty())
    print_error("note: what is trained is not kept: --checkpoint DIR or --export FILE.safetensors keeps it\n");
}

void train(const Options& options) {
  check_options(options);
  set_threads(options.threads);
  Training(options).run();
}

}  // namespace

Command train_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("train", "Train a model");
  app->add_option("MODEL", options->model, "A .tenon file of `tenon compile --train`")->required()->type_name("");
  app->add_option("-d,--data", options->data, "The samples: arrays by the names of the inputs, and target")
      ->required()
      ->type_name("FILE.npz");
  app->add_option("--validate", options->validate, "Samples to measure loss and accuracy of after each epoch")
      ->type_name("FILE.npz");
  app->add_option("-e,--epochs", options->epochs, "How many times through the data, of all runs together")
      ->type_name("N")
      ->check(integer_from(1, kMostEpochs));
  app->add_option("--steps", options->steps, "Stop after so many steps instead, of all runs together")
      ->type_name("N")
      ->check(integer_from(1, kInt64Max));
  app->add_option("-b,--batch", options->batch, "Samples in a step (32, or the model's)")
      ->type_name("N")
      ->check(integer_from(1, kInt64Max));
  app->add_option("--checkpoint", options->checkpoint, "Save the states there after each epoch")->type_name("DIR");
  app->add_option("--checkpoint-steps", options->checkpoint_steps, "And after every so many steps")
      ->type_name("N")
      ->check(integer_from(1, kInt64Max));
  app->add_option("--keep", options->keep, "How many checkpoints stay")
      ->type_name("N")
      ->check(integer_from(1, kInt64Max));
  app->add_flag("--resume", options->resume, "Go on from the newest checkpoint");
  app->add_option("--seed", options->seed, "Of the order of the samples")->type_name("SEED")->check(any_integer());
  app->add_option("-t,--threads", options->threads, "How many threads (0: as many as there are CPUs)")
      ->type_name("N")
      ->check(integer_from(0, kMostThreads));
  app->add_option("--device", options->device, "Which device of the file; cpu: none of them")->type_name("NAME");
  app->add_option("--budget", options->budgets,
                  "The most memory for temporaries and scratch; npu=64MiB: of a device, with constants and states")
      ->type_name("64MiB")
      ->allow_extra_args(false);
  app->add_option("--metrics", options->metrics, "Write the loss of each step and epoch")->type_name("FILE.csv");
  app->add_option("--plot", options->plot, "Draw the loss over the steps")->type_name("FILE.svg");
  app->add_option("--export", options->exported, "Write the states at the end, for others")
      ->type_name("FILE.safetensors");
  app->add_flag("--json", options->json, "Print the epochs as JSON, at the end");
  app->footer(kFooter);
  return {app, [options] { train(*options); }};
}

}  // namespace tenon::cli
