// Large graphs compile in time that grows with their size. The limits are several times what they take, and a small
// part of what they took when the work grew with the square.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "loops/key.h"
#include "loops/lower.h"
#include "program/tables.h"
#include "runtime/arena_plan.h"
#include "tests/graph/support_values.h"
#include "tests/support_cpu_time.h"

namespace tenon {
namespace {

using test::cpu_seconds_of;

// Each input has a size of its own.
Graph with_many_sizes(int64_t count) {
  Graph graph;
  std::vector<ValueRef> inputs, outputs;
  for (int64_t i = 0; i < count; ++i)
    inputs.push_back(graph.add_input(fmt::format("x{}", i), {DType::kF32, {Symbol(fmt::format("s{}", i))}}));
  Builder b(graph);
  for (ValueRef input : inputs) outputs.push_back(b.relu(b.value(input)).ref());
  graph.set_outputs(std::move(outputs));
  return graph;
}

TEST(Scale, ManySizes) {
  const Graph graph = with_many_sizes(1000);
  std::optional<Program> program;
  EXPECT_LT(cpu_seconds_of([&] { program = compile_program(graph).value(); }), 5);
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < 1000; ++i) inputs.push_back(Tensor::zeros(DType::kF32, {i % 7 + 1}));
  inputs[500].set_real(0, 2);
  EXPECT_EQ(program->run(inputs)[500].real(0), 2);
}

TEST(Scale, SizesThatOthersTell) {
  Graph graph;
  for (int i = 0; i < 2000; ++i) {  // the last comes first: each is told by what comes after it
    const Symbol own(fmt::format("s{}", i)), next(fmt::format("s{}", i + 1));
    graph.add_input(fmt::format("x{}", i), {DType::kF32, {Expr(own) + Expr(next) * 2}});
  }
  graph.add_input("last", {DType::kF32, {Symbol("s2000")}});
  std::vector<SymbolBinding> bindings;
  EXPECT_LT(cpu_seconds_of([&] { bindings = bind_symbols(graph); }), 2);
  ASSERT_EQ(bindings.size(), 2001u);
  EXPECT_EQ(bindings[0].symbol.name(), "s2000");
  EXPECT_EQ(bindings.back().symbol.name(), "s0");
}

TEST(Scale, KernelsThatDifferInTheNamesOfSizesAreOne) {
  const auto key = [](std::string_view text) { return loops::key_of(lower(parse_graph(text).value()).value()); };
  const std::string ab = key("graph g(%x: f32[A, 4], %y: f32[B, 4]) { %z = add(%x, %x) %w = neg(%y) return %z, %w }");
  const std::string cd = key("graph g(%x: f32[C, 4], %y: f32[D, 4]) { %z = add(%x, %x) %w = neg(%y) return %z, %w }");
  const std::string ba = key("graph g(%x: f32[B, 4], %y: f32[A, 4]) { %z = add(%x, %x) %w = neg(%y) return %z, %w }");
  const std::string aa = key("graph g(%x: f32[A, 4], %y: f32[A, 4]) { %z = add(%x, %x) %w = neg(%y) return %z, %w }");
  EXPECT_EQ(ab, cd);
  EXPECT_NE(ab, ba);  // sizes are given in the order of their names
  EXPECT_NE(ab, aa);
}

TEST(Scale, AWideConcat) {
  Graph graph;
  std::vector<ValueRef> inputs;
  for (int i = 0; i < 1000; ++i) {
    const DType dtype = i == 900 ? DType::kF64 : DType::kF32;
    inputs.push_back(graph.add_input(fmt::format("x{}", i), {dtype, {i % 3 + 1}}));
  }
  const NodeRef node = graph.add_node(op_named("concat"), inputs, complete_attrs(op_named("concat"), {}));
  graph.set_outputs(graph.node(node).results);
  std::optional<Program> program;
  EXPECT_LT(cpu_seconds_of([&] { program = compile_program(graph).value(); }), 5);
  test::Random random(3);
  std::vector<Tensor> values;
  for (ValueRef input : inputs) values.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
  EXPECT_TRUE(identical(program->run(values)[0], evaluate(graph, values).value()[0]));
}

TEST(Scale, ManyOutputs) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {4}}));
  std::vector<ValueRef> outputs(20000, (-x).ref());
  graph.set_outputs(std::move(outputs));
  EXPECT_LT(cpu_seconds_of([&] { compile_program(graph).value(); }), 5);
}

TEST(Scale, ManyNodes) {
  Graph graph;
  Builder b(graph);
  Value x = b.value(graph.add_input("x", {DType::kF32, {4}}));
  for (int i = 0; i < 5000; ++i) x = i % 2 == 0 ? b.abs(x) : b.tanh(x);
  graph.set_outputs({x.ref()});
  EXPECT_LT(cpu_seconds_of([&] { compile_program(graph).value(); }), 5);
}

// What follows from numbers alone, twice of what it was in each step: paths through it are many, nodes few.
TEST(Scale, DiamondsOfConstants) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {40}}));
  Value y = b.iota(40, DType::kF32);
  for (int i = 0; i < 50; ++i) y = b.sin(y) + b.cos(y);
  graph.set_outputs({(x * y).ref()});
  EXPECT_LT(cpu_seconds_of([&] { compile_program(graph).value(); }), 5);
}

TEST(Scale, AnArenaOfManyTensors) {
  std::vector<runtime::Lifetime> lifetimes;
  for (int64_t i = 0; i < 40000; ++i) lifetimes.push_back({(i * 7919) % 5000 + 1, i, i + i % 5});
  runtime::ArenaPlan plan;
  EXPECT_LT(cpu_seconds_of([&] { plan = runtime::plan_arena(lifetimes); }), 3);
  EXPECT_GE(plan.bytes, runtime::least_arena(lifetimes));
}

}  // namespace
}  // namespace tenon
