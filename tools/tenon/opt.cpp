// tenon opt: runs passes over a graph's text.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backends/cpp/cpp.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/schedule.h"
#include "backends/wasm/wasm.h"
#include "codegen/codegen.h"
#include "command.h"
#include "driver/pipeline.h"
#include "loops/lower.h"
#include "output_files.h"
#include "support/file.h"
#include "terminal.h"

namespace tenon::cli {
namespace {

constexpr const char* kFooter = R"(Without --passes the graph is checked and printed in its canonical form.

Examples:
  tenon opt --list-passes
  tenon opt model.tg --passes decompose,canonicalize,cse,dce -o small.tg
  tenon opt model.tg --passes canonicalize,dce --print-changed --time
  tenon opt model.tg --emit cpp -o model.cpp
  tenon opt model.tg --emit asm --cpu x86-64-v3
  generate | tenon opt - --passes cse)";

struct Options {
  std::string path;
  std::string output;
  std::vector<std::string> passes;
  std::vector<std::string> skip;
  bool list = false;
  bool print = false;
  bool print_changed = false;
  bool no_verify = false;
  bool train = false;
  bool time = false;
  std::string emit = "graph";
  std::string cpu = "native";
};

std::string pass_list() {
  size_t width = 0;
  for (const Stage& pass : all_passes()) width = std::max(width, pass.name.size());
  std::string text;
  for (const Stage& pass : all_passes()) text += fmt::format("{:<{}}  {}\n", pass.name, width, pass.doc);
  return text;
}

std::string time_table(const std::vector<StageRun>& runs) {
  std::string text = fmt::format("{:<16}{:>8}{:>8}{:>12}\n", "pass", "nodes", "after", "ms");
  double total = 0;
  for (const StageRun& run : runs) {
    const std::string time = run.skipped ? "skipped" : fmt::format("{:.3f}", run.milliseconds);
    text += fmt::format("{:<16}{:>8}{:>8}{:>12}\n", run.name, run.nodes_before, run.nodes_after, time);
    total += run.milliseconds;
  }
  return text + fmt::format("{:<32}{:>12.3f}\n", "total", total);
}

Graph optimize(Graph graph, const Options& options, std::vector<StageRun>& runs) {
  RunOptions run_options{.skip = options.skip, .verify = !options.no_verify, .compare = true};
  run_options.after = [&](const Stage&, const StageRun& run, const Module& after) {
    runs.push_back(run);
    if (!options.print && !(options.print_changed && run.changed)) return;
    print_error(fmt::format("# after {}{}\n{}\n", run.name, run.skipped ? " (skipped)" : "", to_string(after.graph)));
  };
  return run_passes(std::move(graph), options.passes, run_options, {.freeze = !options.train}).value();
}

// The graph, or what it becomes as one kernel.
std::string emitted(const Graph& graph, const Options& options) {
  const std::string_view stage = options.emit;
  if (stage == "graph") return to_string(graph);
  const loops::IR kernel = lower(graph).value();
  if (stage == "loops") return to_string(kernel);
  const loops::LoopTree tree(kernel);
  if (stage == "tree") return tree.dump();
  if (stage == "cpp") return emit_cpp(tree, graph.name());
  if (stage == "wasm") return wasm::to_text(emit_wasm(tree));
  if (stage == "ptx") return to_text(compile_cuda(schedule_cuda(kernel)));
  const codegen::KernelSource source{&tree, graph.name()};
  const codegen::Target target = codegen::find_target(options.cpu);
  return stage == "llvm" ? codegen::emit_llvm({&source, 1}, target) : codegen::emit_asm({&source, 1}, target);
}

void run(const Options& options) {
  if (options.list) return print(pass_list());
  if (options.output != "-") require_writable_file(options.output);
  std::vector<StageRun> runs;
  const Graph graph = optimize(read_graph(options.path), options, runs);
  if (options.time) print_error(time_table(runs));
  const std::string text = emitted(graph, options);
  if (options.output.empty() || options.output == "-") return print(text);
  write_file(options.output, text).value();
}

}  // namespace

Command opt_command(CLI::App& tenon) {
  auto options = std::make_shared<Options>();
  CLI::App* app = tenon.add_subcommand("opt", "Run passes over a graph");
  app->add_flag("--list-passes", options->list, "Print the passes and what they do");
  CLI::Option* path = app->add_option("GRAPH", options->path, "A graph's text; - reads standard input")->type_name("");
  app->add_option("--passes", options->passes, "The passes to run, in this order")
      ->delimiter(',')
      ->type_name("A,B,...");
  app->add_option("--skip", options->skip, "Passes to leave out")->delimiter(',')->type_name("A,B,...");
  for (const char* name : {"--passes", "--skip"}) app->get_option(name)->allow_extra_args(false);
  app->add_flag("--print", options->print, "Print the graph after each pass, on standard error");
  app->add_flag("--print-changed", options->print_changed, "Likewise, after each pass that changed it");
  app->add_flag("--train", options->train, "Let weights change on every run, as in training");
  app->add_flag("--no-verify", options->no_verify, "Do not check the graph after each pass");
  app->add_flag("--time", options->time, "Print node counts and times, on standard error");
  app->add_option("--emit", options->emit,
                  "What to print: the graph, or its kernel as loops, as a tree, as C++, as "
                  "WebAssembly without LLVM, as steps and PTX for a GPU, as LLVM's text or as assembly")
      ->type_name("STAGE")
      ->check(CLI::IsMember({"graph", "loops", "tree", "cpp", "wasm", "ptx", "llvm", "asm"}).description(""));
  app->add_option("--cpu", options->cpu,
                  "What llvm and asm are for: " + fmt::format("{}", fmt::join(codegen::target_names(), ", ")))
      ->type_name("NAME");
  app->add_option("-o,--output", options->output, "Write it to a file instead of standard output")->type_name("FILE");
  app->footer(kFooter);
  app->callback([=] {
    if (!options->list && path->count() == 0) throw CLI::RequiredError("GRAPH");
  });
  return {app, [options] { run(*options); }};
}

}  // namespace tenon::cli
