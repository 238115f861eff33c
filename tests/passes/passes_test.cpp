#include "passes/passes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "tests/graph/support_broken_graph.h"
#include "tests/graph/support_random_graph.h"
#include "tests/support/support_text_cases.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::HasSubstr;

// ---- tests/passes/*.txt: a file for each pass ----

TEST(PassFiles, GiveTheExpectedText) {
  test::run_text_files("tests/passes", [](const test::TextCase& c) {
    const Result<Graph> graph = attempt([&] { return run_passes(parse_graph(c.input).value(), c.steps).value(); });
    EXPECT_TRUE(graph.ok()) << graph.diagnostic().text();
    return graph.ok() ? to_string(*graph) : std::string();
  });
}

TEST(PassFiles, EveryPassHasOne) {
  std::map<std::string, std::vector<test::TextCase>> files;
  for (test::TextFile& file : test::text_files("tests/passes")) files[file.path] = std::move(file.cases);
  for (const Stage& pass : all_passes()) {
    const auto file = files.find(fmt::format("tests/passes/{}.txt", pass.name));
    ASSERT_NE(file, files.end()) << "no file with cases of " << pass.name;
    EXPECT_GE(file->second.size(), 3u) << file->first;
    for (const test::TextCase& c : file->second) EXPECT_THAT(c.steps, Contains(std::string(pass.name))) << c.title;
  }
}

// ---- the runner ----

TEST(PassRunner, ReportsAndSkips) {
  const std::vector<std::string> names = {"decompose", "canonicalize", "cse", "dce"};
  std::vector<StageRun> runs;
  const RunOptions options{
      .skip = {"cse"}, .verify = true, .compare = true, .after = [&](const Stage&, const StageRun& run, const Module&) {
        runs.push_back(run);
      }};
  ASSERT_TRUE(run_passes(test::layered_graph(50), names, options).ok());
  ASSERT_EQ(runs.size(), names.size());
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

TEST(PassRunner, NamesThePassThatLeavesAnInvalidGraph) {
  const Stage breaker{"breaker", "breaks a type", StageForm::kGraph,
                      [](Module& module, const BuildTarget&, const ProgramOptions&) {
                        GraphTestPeer::type(module.graph, module.graph.outputs()[0]).dtype = DType::kF64;
                      }};
  const Graph graph = parse_graph("graph g(%x: f32[3]) { %y = neg(%x) return %y }").value();
  const auto run = [&] {
    Module module = new_module(graph);
    run_stages(module, {&breaker, 1}, {}, {}, {.verify = true});
  };
  EXPECT_THAT(run, testing::ThrowsMessage<InternalError>(HasSubstr("stage breaker left an invalid module")));
}

// ---- what holds for all passes ----

// These sum and scale in another order than the graph says. All others keep every bit of every result.
bool rounds_otherwise(std::string_view pass) {
  return pass == "convolutions" || pass == "norms" || pass == "quantized";
}

std::vector<std::string> names_of_passes(bool with_rounding) {
  std::vector<std::string> names;
  for (const Stage& pass : all_passes()) {
    if (with_rounding || !rounds_otherwise(pass.name)) names.emplace_back(pass.name);
  }
  return names;
}

// `arrange` moves nodes to where others may simplify them further.
TEST(Passes, AreIdempotentOnRandomGraphs) {
  std::vector<std::string> passes = names_of_passes(true);
  std::erase(passes, "arrange");
  test::Random random(2);
  for (int i = 0; i < 200; ++i) {
    const Graph graph = test::random_graph(random, 8);
    const Graph once = run_passes(graph, passes).value();
    EXPECT_EQ(run_passes(once, passes).value(), once) << to_string(graph);
    if (HasFailure()) return;
  }
}

TEST(Passes, KeepWeightsByReference) {
  Graph graph;
  Tensor weight = Tensor::zeros(DType::kF32, {1000});
  const ValueRef w = graph.add_parameter("w", type_of(weight), weight);
  graph.set_outputs({graph.node(graph.add_node(op_named("exp"), {w}, {})).results[0]});
  const Graph result = run_passes(graph, names_of_passes(true)).value();
  EXPECT_EQ(result.leaf_named("w")->data.data(), weight.data());
}

// The type with 3 for each symbol.
TensorType with_numbers(TensorType type) {
  for (Expr& size : type.shape) {
    symbolic::Bindings bindings;
    for (const Symbol& symbol : symbols_of(size)) bindings.emplace(symbol, 3);
    size = evaluate(size, bindings);
  }
  return type;
}

// Data for the graph's leaves: positive and finite, or special values among random ones of both signs.
std::vector<Tensor> bind_randomly(Graph& graph, bool is_tame, test::Random& random) {
  std::vector<Tensor> inputs;
  for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
    if (leaf.kind == LeafKind::kConstant) continue;
    const Domain domain = is_tame ? Domain{0.1, 2} : Domain{-3, 3};
    Tensor data = test::random_tensor(with_numbers(graph.type(leaf.value)), {}, domain, random);
    for (int64_t i = 0; i < data.numel() && is_float(data.dtype()) && !is_tame; i += 3)
      data.set_real(i, i % 2 == 0 ? -0.0 : HUGE_VAL);
    leaf.kind == LeafKind::kInput ? inputs.push_back(data) : graph.bind(leaf.name, data);
  }
  return inputs;
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.copy());
  return copies;
}

// Where the graph evaluates, the rewritten one gives the same: bit by bit, unless a pass rounds otherwise.
bool expect_same_results(Graph graph, const std::vector<std::string>& passes, test::Random& random) {
  const bool rounds = std::ranges::any_of(passes, rounds_otherwise);
  const std::vector<Tensor> inputs = bind_randomly(graph, rounds, random);
  Graph rewritten = run_passes(graph, passes).value();
  for (Graph* each : {&graph, &rewritten}) each->clear_updates();  // both start from the same states
  const auto expected = evaluate(graph, copies_of(inputs));
  if (!expected.ok()) return false;
  const auto actual = evaluate(rewritten, copies_of(inputs));
  EXPECT_TRUE(actual.ok()) << actual.diagnostic().text() << to_string(graph) << to_string(rewritten);
  for (size_t i = 0; actual.ok() && i < expected->size(); ++i) {
    const auto compare = rounds ? test::close : test::same_bits_or_nan;
    EXPECT_TRUE(compare((*actual)[i], (*expected)[i])) << "output " << i << " of\n" << to_string(graph);
  }
  return true;
}

TEST(Passes, KeepTheResultsOfTheCaseFiles) {
  test::Random random(3);
  int evaluated = 0;
  for (const test::TextFile& file : test::text_files("tests/passes")) {
    for (const test::TextCase& c : file.cases) {
      SCOPED_TRACE(file.path + "\n" + c.title);
      evaluated += expect_same_results(parse_graph(c.input).value(), c.steps, random) ? 1 : 0;
    }
  }
  EXPECT_GT(evaluated, 50) << "too few of the cases evaluate";
}

TEST(Passes, KeepTheResultsOfRandomGraphs) {
  test::Random random(4);
  int evaluated = 0;
  for (int i = 0; i < 600; ++i) {
    Graph graph = test::random_graph(random, 1 + i % 6);
    graph.clear_updates();
    evaluated += expect_same_results(std::move(graph), names_of_passes(false), random) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(evaluated, 150) << "too few of the random graphs evaluate";
}

}  // namespace
}  // namespace tenon
