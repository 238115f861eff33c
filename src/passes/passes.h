// Passes: Graph to Graph, one a file, all of one signature, and one runner that skips, times, verifies and shows them.
// A pass is a pure function of the graph; it logs nothing.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/dead_code.h"
#include "graph/graph.h"

namespace tenon {

Graph canonicalize(const Graph& graph);  // simplifies nodes and folds constants
Graph eliminate_common_subexpressions(const Graph& graph);
Graph decompose(const Graph& graph);      // expands every composite
Graph arrange_views(const Graph& graph);  // moves reshapes and slices out of the way of fusion
// Puts batch norms into the weights of the convolutions before them. Only for weights that do not change any more.
Graph fold_norms(const Graph& graph);
// Says convolutions otherwise where that is faster for weights that change from run to run: as products of matrices.
// Parameters and buffers that nothing updates do not change if they are frozen.
Graph rewrite_convolutions(const Graph& graph, bool freeze);

struct Pass {
  std::string_view name;
  std::string_view doc;
  Graph (*run)(const Graph&);
};

std::span<const Pass> all_passes();
const Pass& pass_named(std::string_view name);  // throws an Error that suggests the nearest name

struct PassRun {
  std::string_view name;
  bool skipped = false;
  bool changed = false;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
  double milliseconds = 0;
};

struct PassOptions {
  std::vector<std::string> skip;                            // names of passes not to run
  bool verify = true;                                       // the graph after each pass
  std::function<void(const PassRun&, const Graph&)> after;  // sees every pass, with the graph that it left
};

// Runs passes in order. One that leaves an invalid graph is a bug: an InternalError that names it.
Result<Graph> run_passes(Graph graph, std::span<const Pass> passes, const PassOptions& options = {});
// The same for passes of all_passes(), by name.
Result<Graph> run_passes(Graph graph, std::span<const std::string> names, const PassOptions& options = {});

}  // namespace tenon
