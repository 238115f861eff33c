#include "passes/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/evaluate.h"
#include "graph/rewrite.h"
#include "tests/graph/support_random_graph.h"

namespace tenon {
namespace {

const std::vector<std::string> kAllPasses = {"decompose", "canonicalize", "cse", "dce", "arrange"};

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
  ASSERT_EQ(runs.size(), kAllPasses.size());
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

// What `arrange` moves may be simplified further.
TEST(Passes, AreIdempotentOnRandomGraphs) {
  const std::vector<std::string> passes = {"decompose", "canonicalize", "cse", "dce"};
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
  const Graph result = run_passes(graph, kAllPasses).value();
  EXPECT_EQ(result.leaf_named("w")->data.data(), weight.data());
}

// ---- passes keep every bit of every result ----

// The type with 3 for each symbol.
TensorType with_numbers(TensorType type) {
  for (Expr& size : type.shape) {
    symbolic::Bindings bindings;
    for (const Symbol& symbol : symbols_of(size)) bindings.emplace(symbol, 3);
    size = evaluate(size, bindings);
  }
  return type;
}

// Data for the graph's leaves: special values among random ones.
std::vector<Tensor> bind_randomly(Graph& graph, test::Random& random) {
  std::vector<Tensor> inputs;
  for (const Leaf& leaf : std::vector<Leaf>(graph.leaves())) {
    if (leaf.kind == LeafKind::kConstant) continue;
    Tensor data = test::random_tensor(with_numbers(graph.type(leaf.value)), {}, {-3, 3}, random);
    for (int64_t i = 0; i < data.numel() && is_float(data.dtype()); i += 3)
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

// Where the graph evaluates, the rewritten one gives the same bits.
bool expect_same_results(Graph graph, const std::vector<std::string>& passes, test::Random& random) {
  const std::vector<Tensor> inputs = bind_randomly(graph, random);
  const Graph rewritten = run_passes(graph, passes).value();
  const auto expected = evaluate(graph, copies_of(inputs));
  if (!expected.ok()) return false;
  const auto actual = evaluate(rewritten, copies_of(inputs));
  EXPECT_TRUE(actual.ok()) << actual.diagnostic().text() << to_string(graph) << to_string(rewritten);
  for (size_t i = 0; actual.ok() && i < expected->size(); ++i) {
    EXPECT_TRUE(test::same_bits_or_nan((*actual)[i], (*expected)[i])) << "output " << i << " of\n" << to_string(graph);
  }
  return true;
}

TEST(Passes, KeepTheResultsOfTheCaseFiles) {
  test::Random random(3);
  for (const auto& entry : std::filesystem::directory_iterator("tests/passes")) {
    if (entry.path().extension() != ".txt") continue;
    for (const Case& c : cases_in(entry.path())) {
      SCOPED_TRACE(c.title);
      expect_same_results(parse_graph(c.input).value(), c.passes, random);
    }
  }
}

TEST(Passes, KeepTheResultsOfRandomGraphs) {
  test::Random random(4);
  int evaluated = 0;
  for (int i = 0; i < 600; ++i) {
    Graph graph = test::random_graph(random, 1 + i % 6);
    graph.clear_updates();
    evaluated += expect_same_results(std::move(graph), kAllPasses, random) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(evaluated, 150) << "too few of the random graphs evaluate";
}

}  // namespace

// Breaks what Graph guards.
struct GraphTestPeer {
  static Node& node(Graph& graph, size_t position) { return graph.nodes_[position]; }
  static TensorType& type(Graph& graph, ValueRef value) { return graph.values_[value.id].type; }
  static Leaf& leaf(Graph& graph, size_t position) { return graph.leaves_[position]; }
  static std::vector<Update>& updates(Graph& graph) { return graph.updates_; }
  static std::vector<ValueRef>& outputs(Graph& graph) { return graph.outputs_; }
};

namespace {

Graph valid_graph() {
  return parse_graph(
             "graph g(%x: f32[3], %y: f32[3]) {\n"
             "  %m: f32[3] = buffer \"m\"\n"
             "  %a = add(%x, %y)\n"
             "  %b = sum(%a) {dims=[0]}\n"
             "  update %m = %a\n"
             "  return %b\n"
             "}")
      .value();
}

std::string verdict(const Graph& graph) {
  const Status status = verify(graph);
  return status.ok() ? "valid" : status.diagnostic().message;
}

TEST(Verifier, AcceptsTheGraphThatTheOthersBreak) { EXPECT_EQ(verdict(valid_graph()), "valid"); }

TEST(Verifier, SeesAnOperandThatIsDefinedLater) {
  Graph graph = valid_graph();
  GraphTestPeer::node(graph, 0).operands[0] = graph.nodes()[1].results[0];
  EXPECT_EQ(verdict(graph), "an operand of add is used before it is defined");
}

TEST(Verifier, SeesAResultOfAnotherType) {
  Graph graph = valid_graph();
  GraphTestPeer::type(graph, graph.nodes()[1].results[0]).dtype = DType::kF64;
  EXPECT_EQ(verdict(graph), "the result types of sum do not follow from its operands");
}

TEST(Verifier, SeesAnAttributeOfTheWrongKind) {
  Graph graph = valid_graph();
  GraphTestPeer::node(graph, 1).attrs[1] = 0.5;
  EXPECT_EQ(verdict(graph), "sum: attribute 'keepdim' is of the wrong kind");
  GraphTestPeer::node(graph, 1).attrs.pop_back();
  EXPECT_EQ(verdict(graph), "sum has incomplete attributes");
}

TEST(Verifier, SeesAnOutputThatDoesNotExist) {
  Graph graph = valid_graph();
  GraphTestPeer::outputs(graph) = {ValueRef{99}};
  EXPECT_EQ(verdict(graph), "an output is used before it is defined");
}

TEST(Verifier, SeesALeafThatIsUpdatedTwiceOrToAnotherType) {
  Graph graph = valid_graph();
  GraphTestPeer::updates(graph).push_back(graph.updates()[0]);
  EXPECT_EQ(verdict(graph), "a leaf is updated twice");
  GraphTestPeer::updates(graph) = {{graph.updates()[0].target, graph.nodes()[1].results[0]}};
  EXPECT_EQ(verdict(graph), "the update of 'm' changes its type");
}

TEST(Verifier, SeesLeavesOfOneNameAndDataOfAnotherType) {
  Graph graph = valid_graph();
  GraphTestPeer::leaf(graph, 2).data = Tensor::zeros(DType::kF32, {4});
  EXPECT_EQ(verdict(graph), "buffer 'm' is f32[3], but its data is f32[4]");
  GraphTestPeer::leaf(graph, 1).name = "x";
  EXPECT_EQ(verdict(graph), "two leaves are named 'x'");
}

TEST(Verifier, SeesASymbolThatNothingBinds) {
  const auto parsed = [](const char* text) { return parse_graph(text).value(); };
  EXPECT_EQ(verdict(parsed("graph g() { %a = iota() {size=K} return %a }")),
            "iota: nothing before it binds the symbol K");
  EXPECT_EQ(verdict(parsed("graph g(%x: f32[4]) { %a = iota() {size=K} %i = nonzero(%x) {count=K} return %a, %i }")),
            "iota: nothing before it binds the symbol K");
  EXPECT_EQ(verdict(parsed("graph g(%x: f32[4]) { %i = nonzero(%x) {count=K} %a = iota() {size=K} return %a, %i }")),
            "valid");
}

TEST(PassRunner, NamesThePassThatLeavesAnInvalidGraph) {
  const Pass breaker{"breaker", "breaks a type", [](const Graph& graph) {
                       Graph broken = graph;
                       GraphTestPeer::type(broken, broken.outputs()[0]).dtype = DType::kF64;
                       return broken;
                     }};
  const auto run = [&] { (void)run_passes(valid_graph(), std::span<const Pass>(&breaker, 1)); };
  EXPECT_THROW(
      {
        try {
          run();
        } catch (const InternalError& error) {
          EXPECT_NE(std::string(error.what()).find("pass breaker left an invalid graph"), std::string::npos);
          throw;
        }
      },
      InternalError);
}

}  // namespace
}  // namespace tenon
