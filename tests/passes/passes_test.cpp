#include "passes/passes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/reference/evaluate.h"
#include "passes/rewrite.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

const std::vector<std::string> kAllPasses = {"decompose", "canonicalize", "cse", "dce"};

// ---- tests/passes/*.txt: a graph, "---- passes", and the graph that must come out; cases end with "====" ----

struct Case {
  std::string title;
  std::string input;
  std::vector<std::string> passes;
  std::string expected;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<Case> cases_in(const std::filesystem::path& file) {
  std::vector<Case> cases;
  std::ifstream stream(file);
  Case current;
  bool after = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("---- ")) {
      current.passes = split(line.substr(5), ',');
      after = true;
    } else if (line.starts_with("====")) {
      cases.push_back(std::move(current));
      current = {};
      after = false;
    } else if (line.starts_with("# ")) {
      current.title = line.substr(2);
    } else {
      (after ? current.expected : current.input) += line + "\n";
    }
  }
  return cases;
}

std::string trim(const std::string& text) {
  const size_t start = text.find_first_not_of('\n');
  return start == std::string::npos ? "" : text.substr(start, text.find_last_not_of('\n') - start + 1) + "\n";
}

TEST(PassFiles, GiveTheExpectedText) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/passes")) {
    if (entry.path().extension() != ".txt") continue;
    for (const Case& c : cases_in(entry.path())) {
      SCOPED_TRACE(entry.path().string() + ": " + c.title);
      const Result<Graph> graph = parse_graph(c.input);
      ASSERT_TRUE(graph.ok()) << graph.diagnostic().text();
      const Result<Graph> result = run_passes(*graph, c.passes);
      ASSERT_TRUE(result.ok()) << result.diagnostic().text();
      EXPECT_EQ(to_string(*result), trim(c.expected));
      ++count;
    }
  }
  EXPECT_GE(count, 30) << "the case files were not found";
}

// ---- the runner ----

TEST(PassRunner, ReportsAndSkips) {
  const Graph graph = test::layered_graph(50);
  std::vector<PassRun> runs;
  const PassOptions options{.skip = {"cse"}, .after = [&](const PassRun& run, const Graph&) { runs.push_back(run); }};
  ASSERT_TRUE(run_passes(graph, kAllPasses, options).ok());
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_FALSE(runs[0].changed) << "nothing to decompose";
  EXPECT_TRUE(runs[1].changed);
  EXPECT_TRUE(runs[2].skipped);
  EXPECT_LT(runs[3].nodes_after, runs[3].nodes_before);
}

TEST(PassRunner, UnknownPassIsADiagnostic) {
  const std::vector<std::string> names = {"canonicalise"};
  const Result<Graph> result = run_passes(Graph("g"), names);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().message, "there is no pass 'canonicalise'; did you mean 'canonicalize'?");
}

TEST(Rewriter, RefusesAReplacementOfAnotherType) {
  const Graph graph = parse_graph("graph g(%x: f32[3]) { %y = sum(%x) return %y }").value();
  Rewriter rewriter(graph);
  EXPECT_THROW(rewriter.replace(graph.nodes()[0], {rewriter.map(graph.inputs()[0])}), InternalError);
}

TEST(Passes, AreIdempotentOnRandomGraphs) {
  test::Random random(2);
  for (int i = 0; i < 200; ++i) {
    const Graph graph = test::random_graph(random, 8);
    const Graph once = run_passes(graph, kAllPasses).value();
    EXPECT_EQ(run_passes(once, kAllPasses).value(), once) << to_string(graph);
    if (HasFailure()) return;
  }
}

TEST(Passes, KeepWeightsByReference) {
  Graph graph;
  Tensor weight = Tensor::zeros(DType::kF32, {1000});
  const ValueRef w = graph.add_parameter("w", type_of(weight), weight);
  graph.set_outputs({graph.node(graph.add_node(op_named("exp"), {w}, {})).results[0]});
  const Graph result = run_passes(graph, kAllPasses).value();
  EXPECT_EQ(result.leaf_named("w")->data.data(), weight.data());
}

// ---- speed: 1k, 5k and 25k nodes. Bar: 5k in 50 ms, and linear growth. ----

double milliseconds(int nodes) {
  const Graph graph = test::layered_graph(nodes);
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    double total = 0;
    const PassOptions options{.verify = false,
                              .after = [&](const PassRun& run, const Graph&) { total += run.milliseconds; }};
    const std::vector<std::string> passes = {"canonicalize", "cse", "dce"};
    EXPECT_TRUE(run_passes(graph, passes, options).ok());
    best = std::min(best, total);
  }
  return best;
}

TEST(PassSpeed, GrowsLinearly) {
  const double small = milliseconds(1000);
  const double middle = milliseconds(5000);
  const double large = milliseconds(25000);
  fmt::print("canonicalize + cse + dce: 1k nodes {:.1f} ms, 5k {:.1f} ms, 25k {:.1f} ms\n", small, middle, large);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(middle, 50);
#endif
  EXPECT_LT(large, 5 * middle * 2.5) << "time must grow linearly (with room for noise)";
}

}  // namespace
}  // namespace tenon
