#include "fusion/rematerialize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/run.h"
#include "runtime/thread_pool.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSide = 96;
constexpr int64_t kSquare = kSide * kSide * 4;  // bytes of one value below

// Values of a forward part that a backward part needs in reverse order, all of one shape.
struct Model {
  Graph graph{"model"};
  Builder b{graph};
  test::Random random{7};
  Value w = buffer("w");

  Tensor numbers() { return test::random_tensor({DType::kF32, {kSide, kSide}}, {}, {-0.2, 0.2}, random); }
  Value buffer(std::string name) {
    const Tensor data = numbers();
    return b.value(graph.add_buffer(std::move(name), type_of(data), data));
  }
  Value input() { return b.value(graph.add_input("x", {DType::kF32, {kSide, kSide}})); }
  Value product(Value x) { return b.contract(x, w, "ik,kj->ij"); }
  void output(Value value) { graph.set_outputs({value.ref()}); }

  // product(...) of as many layers as there are values of it, then back: each layer's values are multiplied with what
  // comes from behind.
  void go_back(Value at_end, const std::vector<std::vector<Value>>& layers) {
    Value gradient = at_end;
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      gradient = product(gradient);
      for (const Value& value : *layer) gradient = gradient * value;
    }
    output(gradient);
  }
};

// Scratch is counted for each thread, and one makes it known how many there are.
Program compiled(const Graph& graph, std::optional<int64_t> budget = {}) {
  const ThreadCount one(1);
  return compile_program(graph, {.freeze = false, .budget = budget}).value();
}

int64_t natural_bytes(const Graph& graph) { return compiled(graph, kInt64Max).memory_report->natural_bytes; }

// What a budget that is too small names.
int64_t least_budget(const Graph& graph) {
  const ThreadCount one(1);
  const Result<Program> result = compile_program(graph, {.freeze = false, .budget = 1});
  EXPECT_FALSE(result.ok());
  const std::string& message = result.diagnostic().message;
  EXPECT_THAT(message, HasSubstr("its budget is 1: the least is "));
  return std::stoll(message.substr(message.rfind(' ') + 1));
}

struct Outcome {
  Tensor result;
  int64_t peak;
};

Outcome run(const Program& program, const Tensor& x, int64_t budget) {
  const std::unique_ptr<runtime::Context> context = program.runner->make_context({.budget = budget, .threads = 1});
  Tensor result = ProgramRunner::run_in(*context, program, std::vector{x})[0];
  return {result, context->allocator().peak()};
}

// A run within the budget gives the same bits as one without.
MemoryReport expect_same_within(Model& model, int64_t budget) {
  const Tensor x = model.numbers();
  const Program natural = compiled(model.graph), planned = compiled(model.graph, budget);
  const Outcome outcome = run(planned, x, budget);
  EXPECT_TRUE(identical(outcome.result, natural.run(std::vector{x})[0]));
  EXPECT_LE(outcome.peak, budget);
  EXPECT_EQ(outcome.peak, planned.memory_report->bytes);
  return *planned.memory_report;
}

std::vector<std::string> ops_of(const MemoryReport& report) {
  std::vector<std::string> ops;
  for (const Recomputation& each : report.recomputed) ops.insert(ops.end(), each.ops.begin(), each.ops.end());
  return ops;
}

// Layers that each leave two values: one of much work, and one that is cheap to compute of it.
void add_layers(Model& model, size_t count) {
  std::vector<std::vector<Value>> layers;
  Value h = model.input();
  for (size_t i = 0; i < count; ++i) {
    const Value product = model.product(h);
    h = model.b.tanh(product);
    layers.push_back({product, h});
  }
  model.go_back(h, layers);
}

TEST(Rematerialize, TheCheapestIsComputedAgainFirst) {
  Model model;
  add_layers(model, 6);
  const int64_t natural = natural_bytes(model.graph);
  EXPECT_GE(natural, 12 * kSquare);
  const MemoryReport report = expect_same_within(model, natural - kSquare);
  EXPECT_EQ(ops_of(report), std::vector<std::string>{"tanh"});
  EXPECT_EQ(report.recomputed[0].bytes, kSquare);
  EXPECT_LT(report.work, 1.1);
}

TEST(Rematerialize, LessMemoryTakesMoreWork) {
  Model model;
  add_layers(model, 6);
  const int64_t natural = natural_bytes(model.graph);
  double work = 1;
  for (double part : {0.9, 0.7, 0.5}) {
    const MemoryReport report = expect_same_within(model, static_cast<int64_t>(part * static_cast<double>(natural)));
    EXPECT_GE(report.work, work) << part;
    work = report.work;
  }
}

TEST(Rematerialize, TheLeastBudgetIsNamedAndWorks) {
  Model model;
  add_layers(model, 6);
  const int64_t least = least_budget(model.graph);
  EXPECT_LT(least, natural_bytes(model.graph) / 2);
  const MemoryReport report = expect_same_within(model, least);
  EXPECT_THAT(ops_of(report), Contains("contract"));  // chains: of what is computed again as well
  const ThreadCount one(1);
  const Result<Program> result = compile_program(model.graph, {.freeze = false, .budget = least - 1});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, HasSubstr(fmt::format("the least is {}", least)));
}

// A value that no group gives away takes the place of three that are computed of it.
TEST(Rematerialize, OneValueIsKeptForAllThatIsComputedOfIt) {
  Model model;
  std::vector<Value> values;
  Value h = model.input();
  for (int i = 0; i < 4; ++i) {
    const Value product = model.product(h);
    const Value a = model.b.tanh(product), b = model.b.exp(product), c = model.b.sigmoid(product);
    h = a + b * c;
    values.insert(values.end(), {a, b, c});
  }
  for (size_t i = values.size(); i-- > 0;) h = model.b.contract(h, values[i], "ik,kj->ij") * 0.01;
  model.output(h);
  const int64_t natural = natural_bytes(model.graph);
  const MemoryReport report = expect_same_within(model, natural - 4 * kSquare);
  EXPECT_THAT(ops_of(report), testing::IsSupersetOf({"tanh", "exp", "sigmoid"}));
  EXPECT_THAT(ops_of(report), testing::Not(Contains("contract")));
}

TEST(Rematerialize, RandomNumbersAreTheSameAgain) {
  Model model;
  Tensor seed = Tensor::zeros(DType::kI64, {2});
  const Value key = model.b.value(model.graph.add_buffer("random.key", type_of(seed), seed));
  const Value words = model.b.op("philox", {key}, {{"shape", Shape{kSide, kSide}}});
  const Value noise = model.b.cast(words, DType::kF32) * 1e-10;
  Value h = model.product(model.input()) * noise;
  std::vector<std::vector<Value>> layers = {{noise}};
  for (int i = 0; i < 8; ++i) layers.push_back({h = model.product(h)});
  model.go_back(h, layers);
  model.graph.add_update(key.ref(), (key + model.b.integer(1)).ref());
  const int64_t least = least_budget(model.graph);

  const Graph graph = model.graph;
  const Program planned = compiled(graph, least);
  EXPECT_THAT(ops_of(*planned.memory_report), Contains("philox"));
  const Tensor x = model.numbers();
  std::vector<Tensor> with_budget, without;
  const ThreadCount one(1);
  for (int i = 0; i < 3; ++i) with_budget.push_back(planned.run(std::vector{x})[0]);
  EXPECT_EQ(seed.integer(0), 3);
  seed.set_integer(0, 0);
  seed.set_integer(1, 0);
  const Program natural = compiled(graph);
  for (int i = 0; i < 3; ++i) without.push_back(natural.run(std::vector{x})[0]);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(identical(with_budget[i], without[i])) << i;
  EXPECT_FALSE(identical(without[0], without[1]));
}

TEST(Rematerialize, NothingWaitsInAChain) {
  Model model;
  Value h = model.input();
  for (int i = 0; i < 5; ++i) h = model.product(h);
  model.output(h);
  const int64_t natural = natural_bytes(model.graph);
  EXPECT_EQ(least_budget(model.graph), natural);
  EXPECT_THAT(expect_same_within(model, natural).recomputed, IsEmpty());
}

// The layers' weights change in the same run: what is computed again needs them as they were.
TEST(Rematerialize, StatesAreReadBeforeTheyChange) {
  Model model;
  std::vector<Value> weights, before, after;
  Value h = model.input();
  for (int i = 0; i < 4; ++i) {
    weights.push_back(model.buffer("w" + std::to_string(i)));
    before.push_back(h);
    after.push_back(model.b.tanh(model.b.contract(h, weights.back(), "ik,kj->ij")));
    h = after.back();
  }
  Value gradient = h;
  for (size_t i = 4; i-- > 0;) {
    gradient = gradient * (1.0 - after[i] * after[i]);
    const Value change = model.b.contract(before[i], gradient, "ki,kj->ij");
    gradient = model.b.contract(gradient, weights[i], "ik,jk->ij");
    model.graph.add_update(weights[i].ref(), (weights[i] - change * 0.1).ref());
  }
  model.output(gradient);
  const auto states_after = [&](std::optional<int64_t> budget) {
    Graph graph = model.graph;
    for (const Leaf& leaf : model.graph.leaves()) {
      if (leaf.kind == LeafKind::kBuffer) graph.bind(leaf.name, leaf.data.copy());
    }
    const Program program = compiled(graph, budget);
    test::Random random{3};
    const Tensor x = test::random_tensor({DType::kF32, {kSide, kSide}}, {}, {-1, 1}, random);
    const ThreadCount one(1);
    std::vector<Tensor> states = {program.run(std::vector{x})[0]};
    for (const Leaf& leaf : graph.leaves()) {
      if (leaf.kind == LeafKind::kBuffer) states.push_back(leaf.data);
    }
    return states;
  };
  const std::vector<Tensor> natural = states_after({}), planned = states_after(least_budget(model.graph));
  for (size_t i = 0; i < natural.size(); ++i) EXPECT_TRUE(identical(natural[i], planned[i])) << i;
}

// ---- sizes that are not fixed ----

Graph dynamic_layers(symbolic::Interval range) {
  Graph graph("dynamic");
  const Expr n = Symbol("N");
  graph.declare_symbol(Symbol("N"), range);
  Builder b(graph);
  test::Random random{7};
  const Tensor data = test::random_tensor({DType::kF32, {kSide, kSide}}, {}, {-0.2, 0.2}, random);
  const Value w = b.value(graph.add_parameter("w", type_of(data), data));
  const auto product = [&](Value x) { return b.contract(x, w, "ik,kj->ij"); };
  Value h = b.value(graph.add_input("x", {DType::kF32, {n, kSide}}));
  std::vector<Value> values;
  for (int i = 0; i < 6; ++i) values.push_back(h = b.tanh(product(h)));
  for (size_t i = values.size(); i-- > 0;) h = product(h) * values[i];
  graph.set_outputs({h.ref()});
  return graph;
}

TEST(Rematerialize, ABudgetIsForTheLargestSize) {
  const Graph graph = dynamic_layers({1, 32});
  const int64_t budget = natural_bytes(graph) * 7 / 10;
  const Program planned = compiled(graph, budget), natural = compiled(graph);
  EXPECT_EQ(planned.memory_report->sizes.at(Symbol("N")), 32);
  EXPECT_THAT(to_string(*planned.memory_report), HasSubstr("for N=32"));
  for (int64_t n : {1, 7, 32}) {
    test::Random random{2};
    const Tensor x = test::random_tensor({DType::kF32, {n, kSide}}, {}, {-1, 1}, random);
    const Outcome outcome = run(planned, x, budget);
    EXPECT_TRUE(identical(outcome.result, natural.run(std::vector{x})[0])) << n;
    EXPECT_LE(outcome.peak, budget);
  }
}

TEST(Rematerialize, ASizeWithoutAnEndHasNoBudget) {
  const Result<Program> result = compile_program(dynamic_layers({1, kInt64Max}), {.budget = 1 << 20});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, HasSubstr("size N of graph dynamic has no upper end"));
}

// ---- the estimate ----

TEST(LiveMemory, CountsWhatWaitsAndWhatIsInPlace) {
  const Graph graph = parse_graph(R"(graph g(%x: f32[16, 16]) {
  %a: f32[16, 16] = contract(%x, %x) {spec="ik,kj->ij"}
  %r: f32[256] = reshape(%a) {shape=[256]}
  %b: f32[16, 16] = contract(%a, %x) {spec="ik,kj->ij"}
  %c: f32[16, 16] = contract(%b, %x) {spec="ik,kj->ij"}
  %s: f32[16, 16] = reshape(%r) {shape=[16, 16]}
  %d: f32[16, 16] = contract(%c, %s) {spec="ik,kj->ij"}
  return %d
}
)")
                          .value();
  GroupList groups;
  for (const FusedGroup& group : fuse(graph)) groups.push_back(std::make_shared<const FusedGroup>(group));
  MemoryModel model{{}, std::vector<bool>(graph.value_count())};
  model.elsewhere[graph.outputs()[0].id] = true;
  EXPECT_EQ(LiveMemory(graph, groups, model).peak(), 3 * 1024);  // a waits under another name, while b becomes c
  model.elsewhere[graph.nodes()[0].results[0].id] = true;
  EXPECT_EQ(LiveMemory(graph, groups, model).peak(), 2 * 1024);
}

}  // namespace
}  // namespace tenon
