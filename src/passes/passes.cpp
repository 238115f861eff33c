#include "passes/passes.h"

#include <algorithm>
#include <chrono>

#include "support/text.h"

namespace tenon {
namespace {

constexpr Pass kPasses[] = {
    {"decompose", "expand every composite op into the ops it is made of", decompose},
    {"canonicalize", "simplify nodes and fold constants", canonicalize},
    {"cse", "compute equal expressions once", eliminate_common_subexpressions},
    {"dce", "drop what no output or update needs", eliminate_dead_code},
    {"arrange", "move reshapes and slices to where they cost nothing", arrange_views},
    {"convolutions", "say convolutions as products of matrices, where weights change from run to run",
     [](const Graph& graph) { return rewrite_convolutions(graph, true); }},
    {"norms", "put batch norms into the weights of the convolutions before them", fold_norms},
};

Graph checked_run(const Pass& pass, const Graph& graph, bool verified, PassRun& run) {
  const auto start = std::chrono::steady_clock::now();
  Graph result = pass.run(graph);
  run.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  run.changed = !(result == graph);
  if (verified && run.changed) {
    const Status status = verify(result);
    check(status.ok(), "pass {} left an invalid graph: {}", pass.name, status.ok() ? "" : status.diagnostic().text());
  }
  return result;
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

const Pass& pass_named(std::string_view name) {
  const auto found = std::ranges::find(kPasses, name, &Pass::name);
  if (found != std::end(kPasses)) return *found;
  std::vector<std::string_view> names;
  for (const Pass& pass : kPasses) names.push_back(pass.name);
  fail("there is no pass '{}'{}", name, did_you_mean(name, names));
}

Result<Graph> run_passes(Graph graph, std::span<const Pass> passes, const PassOptions& options) {
  return attempt([&] {
    for (const Pass& pass : passes) {
      PassRun run{.name = pass.name, .nodes_before = graph.nodes().size()};
      run.skipped = std::ranges::find(options.skip, pass.name) != options.skip.end();
      if (!run.skipped) graph = checked_run(pass, graph, options.verify, run);
      run.nodes_after = graph.nodes().size();
      if (options.after) options.after(run, graph);
    }
    return std::move(graph);
  });
}

Result<Graph> run_passes(Graph graph, std::span<const std::string> names, const PassOptions& options) {
  return attempt([&] {
    for (const std::string& name : options.skip) pass_named(name);
    std::vector<Pass> passes;
    for (const std::string& name : names) passes.push_back(pass_named(name));
    return run_passes(std::move(graph), passes, options).value();
  });
}

}  // namespace tenon
