#include <gtest/gtest.h>

#include "graph/graph.h"
#include "tests/graph/support_broken_graph.h"

namespace tenon {
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

}  // namespace
}  // namespace tenon
