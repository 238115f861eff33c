// tenon tune: shows a kernel's loop tree with its speed, takes edits, and searches for better ones.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>

#include "backends/tuner.h"
#include "command.h"
#include "interrupt.h"
#include "numbers.h"
#include "schedule/edit.h"
#include "support/file.h"
#include "terminal.h"
#include "units.h"

namespace tenon::cli {
namespace {

using loops::LoopTree;
using loops::TreeRef;

constexpr const char* kFooter =
    R"(Without --search it reads edits line by line; `help` lists them. A tree's lines are numbered: edits name loops by
their lines, and nodes by their names. What is saved is the kernel with its loops: tune takes it again.

Examples:
  tenon tune matmul.loops                              edit by hand
  tenon tune matmul.loops --search 30 -o fast.loops    let it search for 30 seconds
  tenon tune conv.loops --size N=64 --backend cpp      a kernel with a symbolic size
  tenon tune mlp.tg --backend cpu --search 30 --keep   what the CPU backend does with this kernel from now on)";

struct Options {
  std::string path;
  std::string output;
  std::string backend = "cpp";
  std::vector<std::string> sizes;
  double search = 0;
  uint32_t seed = 0;
  bool one_thread = false;
  bool keep = false;
};

constexpr double kLeastSeconds = 0.001, kMostSeconds = 1e6;

double parse_seconds(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_in_range = seconds >= kLeastSeconds && seconds <= kMostSeconds;
  if (error != std::errc() || end != text.data() + text.size() || !is_in_range) {
    fail("'{}' is not a number of seconds from {} to {}: say `search 10`", text, kLeastSeconds, kMostSeconds);
  }
  return seconds;
}

std::string trimmed(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

// A kernel that is being tuned, with the trees that undo goes back to.
class Session {
 public:
  Session(loops::IR kernel, const Options& options)
      : options_(options),
        workload_(kernel, parse_sizes(options.sizes), options.seed),
        backend_(find_backend(options.backend).value()),
        kernel_(std::move(kernel)) {
    trees_.push_back(options.keep ? backend_->schedule(kernel_) : LoopTree(kernel_));
    first_seconds_ = seconds_ = workload_.measure(tree(), *backend_).value();
  }

  const LoopTree& tree() const { return trees_[current_]; }

  void edit_by_hand() {
    show();
    for (std::string line; prompt() && std::getline(std::cin, line);) {
      if (trimmed(line) == "quit" || trimmed(line) == "exit") break;
      try {
        obey(trimmed(line));
      } catch (const Error& error) {
        const Diagnostic& wrong = error.diagnostic();
        print(render({wrong.message, {"", 0, wrong.where.column}}, trimmed(line)));
      }
    }
  }

  void search(double seconds) {
    const bool live = ::isatty(STDERR_FILENO) == 1;
    const Interruptible interruptible;  // what it has found is kept
    SearchOptions search_options{.seconds = seconds, .seed = options_.seed, .parallel = !options_.one_thread};
    if (options_.keep) search_options.candidates = backend_->variants(kernel_);
    search_options.stop = Interruptible::was_interrupted;
    if (live) search_options.progress = [&](const SearchProgress& progress) { show_progress(progress, seconds); };
    Schedule found = tenon::search(tree(), *backend_, workload_, search_options).value();
    if (live) print_error("\n");
    for (const std::string& edit : found.edits) print(edit + "\n");
    seconds_ = found.seconds;
    push(std::move(found.tree));
    show();
  }

  void save(const std::string& path) const {
    if (path.empty()) fail("say where to save it: `save fast.loops`");
    write_file(path, to_string(tree().ir)).value();
  }

  void keep() const {
    if (backend_->keep(kernel_, tree())) return;
    fail("backend {} has no place to keep a schedule{}", backend_->name(),
         backend_->name() == "cpu" ? ": the cache is off, or cannot be written (TENON_CACHE)" : "");
  }

 private:
  void obey(const std::string& line) {
    const std::string word = line.substr(0, line.find(' '));
    const std::string rest = line.size() > word.size() ? line.substr(word.size() + 1) : "";
    if (word.empty()) return;
    if (word == "help") return print(std::string(loops::edit_help()) + std::string(kCommands));
    if (word == "undo" && rest.empty()) return move(-1);
    if (word == "redo" && rest.empty()) return move(1);
    if (word == "show" && rest.empty()) return show();
    if (word == "code") return print(backend_->compile(tree()).value()->dump());
    if (word == "save") return save(rest.empty() ? options_.output : rest);
    if (word == "search") return search(parse_seconds(rest));
    LoopTree next = loops::apply_edit(tree(), line).value();
    seconds_ = workload_.measure(next, *backend_).value();
    push(std::move(next));
    show();
  }

  void push(LoopTree tree) {
    trees_.erase(trees_.begin() + static_cast<std::ptrdiff_t>(current_) + 1, trees_.end());
    trees_.push_back(std::move(tree));
    ++current_;
  }

  void move(int by) {
    if (by < 0 && current_ == 0) fail("there is nothing to undo");
    if (by > 0 && current_ + 1 == trees_.size()) fail("there is nothing to redo");
    current_ += static_cast<size_t>(by);
    seconds_ = workload_.measure(tree(), *backend_).value();
    show();
  }

  void show() const {
    std::string text;
    int line = 0;
    std::string dump = tree().dump();
    for (size_t start = 0; start < dump.size();) {
      const size_t end = dump.find('\n', start);
      text += fmt::format("{:>3}  {}\n", line++, dump.substr(start, end - start));
      start = end + 1;
    }
    print(fmt::format("{}{} on {}: {:.3f} ms, {:.2f} GFLOP/s, {:.2f}x of the first\n", text, tree().ir.name(),
                      backend_->name(), seconds_ * 1e3, workload_.gflops(seconds_), first_seconds_ / seconds_));
  }

  void show_progress(const SearchProgress& progress, double seconds) const {
    print_error(fmt::format("\r{} {:4.1f} of {:.0f} s, {} tried, {} refused, {:.2f} GFLOP/s, {:.2f}x ",
                            progress_bar(progress.elapsed / seconds), std::min(progress.elapsed, seconds), seconds,
                            progress.tried, progress.failed, workload_.gflops(progress.best_seconds),
                            progress.start_seconds / progress.best_seconds));
  }

  static bool prompt() {
    if (::isatty(STDIN_FILENO) == 1) print("> ");
    return true;
  }

  static constexpr std::string_view kCommands =
      "undo, redo             goes back, and forth again\n"
      "search 10              looks for a faster schedule for 10 seconds\n"
      "save FILE              writes the kernel with its loops\n"
      "code                   what the backend makes of it\n"
      "show, help, quit\n";

  const Options& options_;
  Workload workload_;
  std::shared_ptr<const Backend> backend_;
  loops::IR kernel_;
  std::vector<LoopTree> trees_;
  size_t current_ = 0;
  double seconds_ = 0;
  double first_seconds_ = 0;
};

void run(const Options& options) {
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) fail("there is no folder {}", folder.string());
  Session session(read_kernel(options.path), options);
  options.search > 0 ? session.search(options.search) : session.edit_by_hand();
  if (!options.output.empty()) session.save(options.output);
  if (options.keep) session.keep();
}

}  // namespace

Command tune_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("tune", "Edit a kernel's loops, and see how fast they are");
  app->add_option("KERNEL", options->path, "A kernel's text, or a graph's")->required()->type_name("");
  app->add_option("--backend", options->backend, "What to compile for (see `tenon backends`)")->type_name("NAME");
  app->add_option("--size", options->sizes, "The value of a symbolic size; repeat it for more")->type_name("N=64");
  app->get_option("--size")->allow_extra_args(false);
  app->add_option("--search", options->search, "Search for so many seconds instead of reading edits")
      ->type_name("SECONDS")
      ->check(number_from(kLeastSeconds, kMostSeconds));
  app->add_option("--seed", options->seed, "Of the data and the search")
      ->type_name("N")
      ->check(integer_from(0, std::numeric_limits<uint32_t>::max()));
  app->add_flag("--one-thread", options->one_thread, "Search without parallel loops");
  app->add_flag("--keep", options->keep,
                "Begin with the backend's own schedule, and let it give the result from now on (cpu)");
  app->add_option("-o,--output", options->output, "Write the kernel with its loops when done")->type_name("FILE");
  app->footer(kFooter);
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
