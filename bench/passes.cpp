// How long the passes and partition take, and that the time grows with the size of the graph and no faster. The bars:
// canonicalize, cse and dce on 5,000 nodes in 50 ms; partition on 25,000 nodes in 100 ms.
#include "passes/passes.h"

#include <chrono>
#include <cstdio>

#include "bench/bench.h"
#include "driver/pipeline.h"
#include "partition/partition.h"
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

// A device that accepts one of the graph's ops.
Claimant device() {
  const auto claim = [](const Graph& graph, NodeRef node) {
    const bool accepted = graph.node(node).op->name.get() == "exp";
    return Claim{accepted, accepted ? "" : "not exp", -1};
  };
  return {.name = "device", .claim = claim};
}

double partition_milliseconds(int nodes) {
  const Graph graph = test::layered_graph(nodes);
  const std::vector<Claimant> claimants = {device(), pytorch_claimant(), reference_claimant(), cpu_claimant()};
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    (void)partition(graph, claimants);
    rounds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return bench::median(rounds);
}

void print_rows(double (*milliseconds_of)(int nodes)) {
  for (const int nodes : {1000, 5000, 25000}) {
    const double time = milliseconds_of(nodes);
    std::printf("%7d  %8.2f  %8.3f\n", nodes, time, 1000 * time / nodes);
  }
}

void print_table() {
  std::puts("canonicalize + cse + dce, median of 9 rounds\n  nodes        ms   us/node");
  print_rows(milliseconds);
  std::puts("partition, median of 9 rounds\n  nodes        ms   us/node");
  print_rows(partition_milliseconds);
}

}  // namespace
}  // namespace tenon

int main() { return tenon::bench::run(tenon::print_table); }
