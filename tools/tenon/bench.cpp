// tenon bench: how fast a model loads and runs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>

#include "command.h"
#include "json.h"
#include "model.h"
#include "numbers.h"
#include "profile.h"
#include "runnable.h"
#include "runtime/thread_pool.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter =
    R"(Inputs that are not given are random, for which symbolic sizes need values (--size). Rounds go through the thread counts
in turn, so that a busy moment of the machine meets all of them. `overhead` is the time of a run that is no task's, for
each task; it is measured in runs of its own, with the clock read around every task.

Examples:
  tenon bench model.tenon
  tenon bench model.tenon --threads 1,2 --rounds 200 --size N=64
  tenon bench model.pt2 --input x.npy --json | jq .results)";

constexpr int64_t kMostRounds = 1'000'000;

struct Options {
  ModelOptions model;
  std::vector<std::string> inputs;
  std::vector<std::string> sizes;
  std::string threads = "0";
  int64_t rounds = 50;
  bool no_native = false;
  bool json = false;
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::vector<int64_t> thread_counts(const std::string& text) {
  std::vector<int64_t> counts;
  for (const std::string& part : split_commas(text)) {
    int64_t count = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    const bool is_whole = error == std::errc() && end == part.data() + part.size();
    if (!is_whole || count < 0 || count > kMostThreads)
      fail("--threads {}: say it as 1,2; each is from 0 to {}", text, kMostThreads);
    counts.push_back(count);
  }
  return counts;
}

double quantile(std::vector<int64_t> times, double part) {
  std::ranges::sort(times);
  return static_cast<double>(times[static_cast<size_t>(std::lround(part * static_cast<double>(times.size() - 1)))]);
}

// The runs with one number of threads.
struct Series {
  int64_t threads;
  std::unique_ptr<runtime::Context> context;
  std::unique_ptr<runtime::Context> watched;  // with telemetry
  int64_t first_ns = 0;
  std::vector<int64_t> times = {};
  std::vector<int64_t> overheads = {};  // of all tasks of a run
};

class Bench {
 public:
  Bench(const Options& options, const Runnable& runnable, const std::vector<Tensor>& inputs, double load_ms)
      : options_(options), runnable_(runnable), inputs_(inputs), load_ms_(load_ms) {}

  void run() {
    for (int64_t threads : thread_counts(options_.threads)) begin(threads);
    Progress progress(static_cast<size_t>(options_.rounds));
    for (int64_t round = 0; round < options_.rounds; ++round) {
      progress.begin("running");
      for (Series& series : series_) measure(series);
    }
  }

  std::string text() const {
    const size_t tasks = runnable_.graph().tasks.size();
    std::string text =
        fmt::format("load {:.2f} ms, {} tasks, {} rounds\n{:>7} {:>11} {:>11} {:>11} {:>11} {:>14}\n", load_ms_, tasks,
                    options_.rounds, "threads", "first", "median", "p10", "p90", "overhead/task");
    for (const Series& series : series_) {
      text += fmt::format("{:>7} {:>11} {:>11} {:>11} {:>11} {:>14}\n", series.threads,
                          time_text(static_cast<double>(series.first_ns)), time_text(quantile(series.times, 0.5)),
                          time_text(quantile(series.times, 0.1)), time_text(quantile(series.times, 0.9)),
                          time_text(overhead(series)));
    }
    return text;
  }

  std::string json() const {
    const auto series_json = [this](const Series& series) {
      return json::object({{"threads", std::to_string(series.threads)},
                           {"first_ns", std::to_string(series.first_ns)},
                           {"median_ns", fmt::format("{:.0f}", quantile(series.times, 0.5))},
                           {"p10_ns", fmt::format("{:.0f}", quantile(series.times, 0.1))},
                           {"p90_ns", fmt::format("{:.0f}", quantile(series.times, 0.9))},
                           {"overhead_ns_per_task", fmt::format("{:.1f}", overhead(series))},
                           {"peak_bytes", std::to_string(series.context->allocator().peak())}});
    };
    return json::object({{"model", json::string(options_.model.path)},
                         {"load_ms", fmt::format("{:.3f}", load_ms_)},
                         {"tasks", std::to_string(runnable_.graph().tasks.size())},
                         {"rounds", std::to_string(options_.rounds)},
                         {"results", json::array_of(series_, series_json)}}) +
           "\n";
  }

 private:
  void begin(int64_t threads) {
    Series series{threads == 0 ? thread_count() : threads, runnable_.make_context({.threads = threads}),
                  runnable_.make_context({.threads = threads, .telemetry = true})};
    series.first_ns = time_of(*series.context);
    time_of(*series.watched);
    series_.push_back(std::move(series));
  }

  void measure(Series& series) const {
    series.times.push_back(time_of(*series.context));
    const int64_t whole = time_of(*series.watched);
    int64_t inside = 0;
    for (const runtime::Event& event : series.watched->events()) inside += event.end_ns - event.start_ns;
    series.overheads.push_back(whole - inside);
  }

  int64_t time_of(runtime::Context& context) const {
    const int64_t start = now_ns();
    runnable_.run(context, inputs_);
    return now_ns() - start;
  }

  double overhead(const Series& series) const {
    return quantile(series.overheads, 0.5) / static_cast<double>(std::max<size_t>(runnable_.graph().tasks.size(), 1));
  }

  const Options& options_;
  const Runnable& runnable_;
  const std::vector<Tensor>& inputs_;
  double load_ms_;
  std::vector<Series> series_;
};

Runnable load(const Options& options) {
  if (is_artifact(options.model.path)) {
    return Runnable::load(options.model.path, {.native = !options.no_native, .device = device_of_file(options.model)});
  }
  ModelOptions reading = options.model;
  if (!is_pt2(reading.path) && !reading.seed) reading.seed = 0;  // the values change no time
  const Model model = read_model(reading);
  require_supported(model);
  Runnable runnable = Runnable::compile(
      model.graph, {.backend = options.no_native ? "interpreter" : "cpu", .devices = options.model.devices});
  note_idle_devices(options.model.devices, *runnable.compiled());
  return runnable;
}

void bench(const Options& options) {
  const int64_t start = now_ns();
  const Runnable runnable = load(options);
  const double load_ms = static_cast<double>(now_ns() - start) / 1e6;
  const std::vector<Tensor> inputs = options.inputs.empty() ? runnable.random_inputs(parse_sizes(options.sizes), 0)
                                                            : runnable.load_inputs(options.inputs, 0);
  Bench bench(options, runnable, inputs, load_ms);
  bench.run();
  print(options.json ? bench.json() : bench.text());
}

}  // namespace

Command bench_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("bench", "Measure how fast a model loads and runs");
  app->add_option("MODEL", options->model.path, "A .tenon or .pt2 file, or a graph's text")->required()->type_name("");
  app->add_option("-i,--input", options->inputs, "An input; may be repeated")->type_name("[NAME=]FILE");
  app->add_option("--size", options->sizes, "The value of a symbolic size; repeat it for more")->type_name("N=64");
  for (const char* name : {"--input", "--size"}) app->get_option(name)->allow_extra_args(false);
  app->add_option("-t,--threads", options->threads, "Thread counts to measure (0: as many as there are CPUs)")
      ->type_name("N,...");
  app->add_option("--rounds", options->rounds, "How many times it runs")
      ->type_name("N")
      ->check(integer_from(1, kMostRounds));
  app->add_flag("--no-native", options->no_native, "Run no machine code of the model's, but its portable kernels");
  app->add_flag("--json", options->json, "Print it as JSON");
  add_device_option(*app, options->model);
  app->footer(kFooter);
  return {app, [options] { bench(*options); }};
}

}  // namespace tenon::cli
