#include "fusion/fuse.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>

#include "driver/pipeline.h"
#include "fusion/groups_text.h"
#include "fusion/rematerialize.h"
#include "graph/builder.h"
#include "tests/graph/support_random_graph.h"
#include "tests/support/support_text_cases.h"

namespace tenon {
namespace {

using testing::ElementsAre;

// ---- tests/fusion/*.txt ----
// Steps are passes by name, `expand`, `fuse`, and `rematerialize N`, which plans for N bytes.

int64_t number_of(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The graph's outputs are in memory of the caller.
MemoryModel memory_of(const Graph& graph) {
  MemoryModel model{{}, std::vector<bool>(graph.value_count())};
  for (ValueRef output : graph.outputs()) model.elsewhere[output.id] = true;
  return model;
}

// The groups, after the graph where it is not the input's.
std::string output_of(const test::TextCase& c) {
  const Graph input = parse_graph(c.input).value();
  Graph graph = input;
  std::vector<FusedGroup> groups;
  for (const std::string& step : c.steps) {
    if (step == "expand") {
      graph = expand_for_fusion(graph);
    } else if (step == "fuse") {
      groups = fuse(graph);
    } else if (step.starts_with("rematerialize ")) {
      groups = rematerialize(graph, groups, memory_of(graph), number_of(step.substr(14))).groups;
    } else {
      graph = run_passes(graph, std::vector{step}).value();
    }
  }
  const Status status = verify_groups(graph, groups);
  EXPECT_TRUE(status.ok()) << status.diagnostic().message;
  const std::string text = to_string(graph, groups);
  EXPECT_EQ(parse_groups(graph, text).value(), groups);
  return graph == input ? text : to_string(graph) + text;
}

TEST(FusionFiles, GiveTheExpectedGroups) {
  test::run_text_files("tests/fusion", [](const test::TextCase& c) {
    const Result<std::string> output = attempt([&] { return output_of(c); });
    EXPECT_TRUE(output.ok()) << output.diagnostic().text();
    return output.ok() ? *output : std::string();
  });
}

TEST(Fuse, GroupsOfRandomGraphsAreValidAndParseBack) {
  test::Random random(11);
  for (int i = 0; i < 300; ++i) {
    const Graph graph = expand_for_fusion(test::random_graph(random, 1 + i % 12));
    const std::vector<FusedGroup> groups = fuse(graph);
    const std::string text = to_string(graph, groups);
    const Status status = verify_groups(graph, groups);
    EXPECT_TRUE(status.ok()) << status.diagnostic().message << "\n" << to_string(graph) << text;
    EXPECT_EQ(parse_groups(graph, text).value(), groups) << text;
    if (HasFailure()) return;
  }
}

// ---- limits ----

struct Model {
  Graph graph{"model"};
  Builder b{graph};

  Value input(Shape shape) {
    return b.value(graph.add_input(fmt::format("x{}", graph.inputs().size()), {DType::kF32, std::move(shape)}));
  }
  std::vector<size_t> sizes_of_groups(std::vector<Value> outputs) {
    std::vector<ValueRef> refs;
    for (const Value& output : outputs) refs.push_back(output.ref());
    graph.set_outputs(std::move(refs));
    const std::vector<FusedGroup> groups = fuse(graph);
    EXPECT_TRUE(verify_groups(graph, groups).ok());
    std::vector<size_t> sizes;
    for (const FusedGroup& group : groups) sizes.push_back(group.nodes.size());
    return sizes;
  }
  Value chain(Value x, int length) {
    for (int i = 0; i < length; ++i) x = i % 2 == 0 ? b.tanh(x) : b.exp(x);
    return x;
  }
};

TEST(FuseLimits, AChainIsCutAfter64Nodes) {
  Model m;
  EXPECT_THAT(m.sizes_of_groups({m.chain(m.input({4}), 64)}), ElementsAre(64));
  Model n;
  EXPECT_THAT(n.sizes_of_groups({n.chain(n.input({4}), 65)}), ElementsAre(64, 1));
}

TEST(FuseLimits, BranchesMeetInAtMost64Nodes) {
  Model m;
  const Value x = m.input({4});
  EXPECT_THAT(m.sizes_of_groups({m.chain(x, 31) + m.chain(x, 32)}), ElementsAre(64));
  Model n;
  const Value y = n.input({4});
  EXPECT_THAT(n.sizes_of_groups({n.chain(y, 32) + n.chain(y, 32)}), ElementsAre(32, 33));
}

// A product, and what its last addition needs besides.
TEST(FuseLimits, AProductTakesInAtMost64Nodes) {
  const auto sizes = [](int besides) {
    Model m;
    const Value product = m.b.contract(m.input({4, 8}), m.input({8, 6}), "ik,kj->ij");
    return m.sizes_of_groups({m.chain(m.input({4, 6}), besides) + product});
  };
  EXPECT_THAT(sizes(62), ElementsAre(64));
  EXPECT_THAT(sizes(63), ElementsAre(63, 2));
}

TEST(FuseLimits, ViewsAreReadThroughUpTo32) {
  const auto sizes = [](int views) {
    Model m;
    Value x = m.input({200});
    for (int i = 0; i < views; ++i) x = m.b.slice(x, 0, 1, Expr(200 - i));
    return m.sizes_of_groups({m.b.exp(x)});
  };
  EXPECT_THAT(sizes(32), ElementsAre(33));
  EXPECT_THAT(sizes(33), ElementsAre(1, 33));
}

// What the second product's kernel reads of the chain follows from the chain's beginning, which it reads as well.
TEST(FuseLimits, AtMost16NodesAreComputedAgain) {
  const auto sizes = [](int length) {
    Model m;
    const Value x = m.input({4, 6});
    const Value end = m.chain(x, length);
    const Value product = m.b.contract(m.input({4, 8}), m.input({8, 6}), "ik,kj->ij");
    return m.sizes_of_groups({m.b.sum(end, {0}, false), product * end * x});
  };
  EXPECT_THAT(sizes(16), ElementsAre(16, 19, 1));
  EXPECT_THAT(sizes(17), ElementsAre(17, 3, 1));
}

// Two values, each of few nodes of its own, do not fit with 60 others.
TEST(FuseLimits, WhatIsComputedAgainFitsInto64Nodes) {
  const auto sizes = [](int others) {
    Model m;
    const Value x = m.input({4, 6});
    const Value end = m.chain(x, 8);
    const Value product = m.b.contract(m.input({4, 8}), m.input({8, 6}), "ik,kj->ij");
    return m.sizes_of_groups({m.b.sum(end, {0}, false), m.chain(product, others) * end * x});
  };
  EXPECT_THAT(sizes(53), ElementsAre(8, 64, 1));
  EXPECT_THAT(sizes(54), ElementsAre(8, 57, 1));
}

// Of i64 and f32: the result is f32, so every part is.
TEST(FuseLimits, AConcatJoins64OperandsAtATime) {
  const auto expanded = [](size_t parts) {
    Model m;
    std::vector<Value> xs(parts - 1, m.input({2}));
    xs.push_back(m.b.value(m.graph.add_input("last", {DType::kI64, {3}})));
    m.graph.set_outputs({m.b.op("concat", xs, {{"dim", int64_t{0}}}).ref()});
    return expand_for_fusion(m.graph);
  };
  const auto operands = [](const Graph& graph) {
    std::vector<size_t> counts;
    for (const Node& node : graph.nodes()) {
      if (node.op->name.get() == "concat") counts.push_back(node.operands.size());
    }
    return counts;
  };
  EXPECT_THAT(operands(expanded(64)), ElementsAre(64));
  EXPECT_THAT(operands(expanded(65)), ElementsAre(64, 1, 2));
  EXPECT_THAT(operands(expanded(130)), ElementsAre(64, 64, 2, 3));
  const Graph graph = expanded(130);
  EXPECT_EQ(graph.type(graph.outputs()[0]), (TensorType{DType::kF32, {129 * 2 + 3}}));
}

}  // namespace
}  // namespace tenon
