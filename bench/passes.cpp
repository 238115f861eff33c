// How long the passes take, and that the time grows with the size of the graph and no faster. The bar: canonicalize,
// cse and dce on 5,000 nodes in 50 ms.
#include "passes/passes.h"

#include <cstdio>

#include "bench/bench.h"
#include "driver/pipeline.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

constexpr int kRounds = 9;

double milliseconds(int nodes) {
  const Graph graph = test::layered_graph(nodes);
  const std::vector<std::string> passes = {"canonicalize", "cse", "dce"};
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    double total = 0;
    RunOptions options{.verify = true};
    options.after = [&](const Stage&, const StageRun& run, const Module&) { total += run.milliseconds; };
    (void)run_passes(graph, passes, options).value();
    rounds.push_back(total);
  }
  return bench::median(rounds);
}

void print_table() {
  std::puts("canonicalize + cse + dce, median of 9 rounds\n  nodes        ms   us/node");
  for (const int nodes : {1000, 5000, 25000}) {
    const double time = milliseconds(nodes);
    std::printf("%7d  %8.2f  %8.3f\n", nodes, time, 1000 * time / nodes);
  }
}

}  // namespace
}  // namespace tenon

int main() { return tenon::bench::run(tenon::print_table); }
