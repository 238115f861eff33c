#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "program/report.h"
#include "tests/graph/support_values.h"
#include "tests/program/support_random_model.h"

namespace tenon {
namespace {

using test::close;
using test::Random;
using testing::HasSubstr;

Tensor numbers(Sizes shape, double start = 0) {
  Tensor tensor = Tensor::zeros(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_real(i, start + static_cast<double>(i));
  return tensor;
}

std::vector<Tensor> random_inputs(const Graph& graph, int64_t n, Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    const Sizes sizes = evaluate(type.shape, {{Symbol("N"), n}});
    inputs.push_back(test::random_tensor({type.dtype, to_shape(sizes)}, {}, {-2, 2}, random));
  }
  return inputs;
}

void expect_same(const Program& program, const Graph& graph, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> expected = evaluate(graph, inputs).value();
  const std::vector<Tensor> actual = program.run(inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i])) << to_string(graph);
}

// ---- agreement with the reference
// -------------------------------------------------------------------------------------

class RandomPrograms : public testing::TestWithParam<int> {};

TEST_P(RandomPrograms, AgreeWithTheReference) {
  Random random(static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < 8; ++i) {
    const bool symbolic = i % 2 == 1;
    const Graph graph = test::random_model(random, 4 + i * 3, symbolic);
    const Program program = compile_program(graph).value();
    for (int64_t n : {7, 1, 16}) {
      expect_same(program, graph, random_inputs(graph, n, random));
      if (!symbolic) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPrograms, testing::Range(0, 20));

// ---- groups
// -----------------------------------------------------------------------------------------------------------

struct Model {
  Graph graph{"model"};
  Builder builder{graph};

  Value input(std::string name, TensorType type) {
    return builder.value(graph.add_input(std::move(name), std::move(type)));
  }
  Value parameter(std::string name, Sizes shape) {
    Tensor data = numbers(shape, 0.5);
    for (int64_t i = 0; i < data.numel(); ++i) data.set_real(i, std::sin(data.real(i)));
    return builder.value(graph.add_parameter(std::move(name), type_of(data), data));
  }
  Program compile(std::vector<Value> outputs) {
    std::vector<ValueRef> refs;
    for (const Value& output : outputs) refs.push_back(output.ref());
    graph.set_outputs(std::move(refs));
    return compile_program(graph).value();
  }
};

TEST(Program, ALinearLayerWithItsActivationIsOneKernel) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {8, 32}});
  const Value y = m.builder.op("linear", {x, m.parameter("w", {16, 32}), m.parameter("b", {16})});
  const Program program = m.compile({m.builder.op("gelu", {y})});
  EXPECT_EQ(program.tasks.size(), 1u);
  expect_same(program, m.graph, {numbers({8, 32}, -100)});
}

TEST(Program, ALayerNormIsOneKernel) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {Symbol("N"), 64}});
  const std::vector<Value> y = m.builder.results("layer_norm", {x, m.parameter("w", {64}), m.parameter("b", {64})},
                                                 {{"normalized_rank", int64_t{1}}});
  const Program program = m.compile({y[0]});
  EXPECT_EQ(program.tasks.size(), 1u);
  expect_same(program, m.graph, {numbers({3, 64})});
}

TEST(Program, AContractionDoesNotWriteTheSquareOfItsResult) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {8, 32}});
  const Value y = m.builder.matmul(x, m.parameter("w", {32, 32})) + x;
  const Value norm = y * m.builder.rsqrt(m.builder.mean(y * y, {1}, true) + 1.0);
  const Program program = m.compile({norm, y});
  ASSERT_EQ(program.tasks.size(), 2u);
  EXPECT_EQ(program.tasks[0].outputs.size(), 1u);
  expect_same(program, m.graph, {numbers({8, 32}, -100)});
}

TEST(Program, AReshapeCostsNothing) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {4, 6}});
  const Value y = m.builder.reshape(m.builder.exp(x), {8, 3});
  const Program program = m.compile({y});
  EXPECT_EQ(program.tasks.size(), 1u);
  expect_same(program, m.graph, {numbers({4, 6}, -10)});
}

TEST(Program, WhatDependsOnParametersAloneIsComputedOnce) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {4, 6}});
  const Value scale = m.builder.rsqrt(m.builder.abs(m.parameter("w", {6})) + 1.0);
  const Program program = m.compile({x * scale});
  EXPECT_EQ(program.tasks.size(), 1u);
  expect_same(program, m.graph, {numbers({4, 6})});
}

TEST(Program, AResultThatNeedsNothingOfItsInputs) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {3}});
  const Program program = m.compile({m.builder.op("repeat", {x}, {{"repeats", std::vector<Expr>{0}}})});
  expect_same(program, m.graph, {numbers({3})});
}

TEST(Program, AResultThatNeedsNothingButASizeIsComputedInEveryRun) {
  Model m;
  const Expr n = Symbol("N");
  m.input("x", {DType::kF32, {n}});
  const Program program = m.compile({m.builder.sum(m.builder.iota(n))});
  for (int64_t size : {5, 9}) expect_same(program, m.graph, {numbers({size})});
}

TEST(Program, TemporariesShareMemory) {
  Model m;
  Value x = m.input("x", {DType::kF32, {64, 64}});
  const Value w = m.parameter("w", {64, 64});
  for (int i = 0; i < 6; ++i) x = m.builder.tanh(m.builder.matmul(x, w));
  const Program program = m.compile({x});
  EXPECT_EQ(program.arena_bytes(), 2 * 64 * 64 * 4);
}

// ---- memory
// -----------------------------------------------------------------------------------------------------------

TEST(Program, OutputsThatAreInputsOrEachOtherAreCopies) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {3}});
  const Value y = m.builder.exp(x);
  const Program program = m.compile({x, y, y});
  const Tensor input = numbers({3});
  const std::vector<Tensor> outputs = program.run({&input, 1});
  EXPECT_FALSE(outputs[0].shares_memory_with(input));
  EXPECT_FALSE(outputs[1].shares_memory_with(outputs[2]));
  EXPECT_TRUE(close(outputs[0], input));
}

TEST(Program, UpdatesHappenAfterEveryReadAndInPlace) {
  Model m;
  Tensor state = numbers({3}, 1);
  const ValueRef buffer = m.graph.add_buffer("state", type_of(state), state);
  const Value x = m.input("x", {DType::kF32, {3}});
  const Value next = m.builder.value(buffer) + x;
  m.graph.add_update(buffer, next.ref());
  m.graph.add_update(x.ref(), m.builder.value(buffer).ref());
  const Program program = m.compile({next * 2.0});
  const Tensor input = numbers({3}, 10);
  const std::vector<Tensor> outputs = program.run({&input, 1});
  EXPECT_EQ(test::values_of(outputs[0]), (std::vector<double>{22, 26, 30}));
  EXPECT_EQ(test::values_of(state), (std::vector<double>{11, 13, 15}));
  EXPECT_EQ(test::values_of(input), (std::vector<double>{1, 2, 3}));
}

TEST(Program, NonContiguousInputsWork) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {3, 2}});
  const Program program = m.compile({x * 2.0});
  const Tensor data = numbers({2, 3});
  const Tensor transposed = Tensor::borrow(DType::kF32, {3, 2}, {1, 3}, data.data(), data.owner());
  EXPECT_EQ(test::values_of(program.run({&transposed, 1})[0]), (std::vector<double>{0, 6, 2, 8, 4, 10}));
}

TEST(Program, AResultWhoseSizeOnlyTheRunKnows) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {6}});
  const Value places = m.builder.op("nonzero", {m.builder.compare("gt", x, 2.0)}, {{"count", Expr(Symbol("K"))}});
  const Value picked = m.builder.op("index", {x, m.builder.reshape(places, {Symbol("K")})});
  const Program program = m.compile({m.builder.exp(picked) * 2.0, places});
  for (double start : {0.0, -10.0, 5.0}) expect_same(program, m.graph, {numbers({6}, start)});
}

TEST(Program, LibraryFunctionsOfSizesThatTheirOperandsDoNotTell) {
  Model m;
  const Expr n = Symbol("N"), k = Symbol("M");
  const Value x = m.input("x", {DType::kF32, {n, k}});
  const Value flat = m.builder.reshape(x, {n * k});
  const Value sorted = m.builder.results("sort", {flat}, {{"dim", int64_t{0}}, {"descending", true}})[0];
  const Program program = m.compile({m.builder.op("nonzero", {flat}, {{"count", Expr(Symbol("K"))}}), sorted});
  for (int64_t size : {2, 5}) expect_same(program, m.graph, {numbers({size, 3})});
}

TEST(Program, ASizeThatOnlyTheRunKnowsAndNothingElseOfItsNode) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {6}});
  m.builder.op("nonzero", {m.builder.compare("gt", x, 2.0)}, {{"count", Expr(Symbol("K"))}});
  const Program program = m.compile({m.builder.iota(Symbol("K")) * 2.0});
  for (double start : {0.0, -10.0, 5.0}) expect_same(program, m.graph, {numbers({6}, start)});
}

TEST(Program, ASizeThatOnlyTheRunKnowsMustBeInItsRange) {
  Model m;
  m.graph.declare_symbol(Symbol("K"), {2, 4});
  const Value x = m.input("x", {DType::kF32, {6}});
  const Program program = m.compile({m.builder.op("nonzero", {x}, {{"count", Expr(Symbol("K"))}})});
  const auto result = attempt([&] { return program.run(std::vector<Tensor>{numbers({6})}); });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, HasSubstr("K is 5, which is outside of [2, 4]"));
}

TEST(Program, ABufferIsReadAnewThatIsUpdatedUnderAnotherName) {
  Model m;
  Tensor state = numbers({3}, 1);
  const ValueRef buffer = m.graph.add_buffer("state", type_of(state), state);
  const ValueRef same = m.graph.add_buffer("same", type_of(state), state);
  m.graph.add_update(buffer, (m.builder.value(buffer) * 2.0).ref());
  const Program program = m.compile({m.builder.value(same) + 1.0});
  EXPECT_EQ(test::values_of(program.run({})[0]), (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(test::values_of(program.run({})[0]), (std::vector<double>{3, 5, 7}));
}

TEST(Program, ManyThreadsRunOneProgram) {
  Model m;
  Value x = m.input("x", {DType::kF32, {Symbol("N"), 16}});
  const Value w = m.parameter("w", {16, 16});
  for (int i = 0; i < 3; ++i) x = m.builder.op("softmax", {m.builder.matmul(x, w)}, {{"dim", int64_t{-1}}});
  const Program program = m.compile({x});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor input = numbers({t, 16}, static_cast<double>(t));
      const Tensor expected = evaluate(m.graph, {&input, 1}).value()[0];
      for (int i = 0; i < 50; ++i) wrong += close(program.run({&input, 1})[0], expected) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- mistakes
// ---------------------------------------------------------------------------------------------------------

std::string error_of(const Program& program, const std::vector<Tensor>& inputs) {
  const auto result = attempt([&] { return program.run(inputs); });
  return result.ok() ? "" : result.diagnostic().message;
}

TEST(Program, InputsThatDoNotFitAreNamed) {
  Model m;
  m.graph.declare_symbol(Symbol("N"), {2, 8});
  const Value x = m.input("x", {DType::kF32, {Symbol("N"), 4}});
  const Value y = m.input("y", {DType::kF32, {Symbol("N")}});
  const Program program = m.compile({m.builder.sum(x, {1}) + y});
  EXPECT_THAT(error_of(program, {numbers({3, 4})}), HasSubstr("takes 2 inputs, got 1"));
  EXPECT_THAT(error_of(program, {numbers({3, 5}), numbers({3})}),
              HasSubstr("input 'x' must be f32[N, 4], got f32[3, 5]"));
  EXPECT_THAT(error_of(program, {numbers({3, 4}), numbers({4})}), HasSubstr("dimension 0 of input 'y'"));
  EXPECT_THAT(error_of(program, {numbers({9, 4}), numbers({9})}), HasSubstr("[2, 8]"));
  EXPECT_EQ(error_of(program, {numbers({8, 4}), numbers({8})}), "");
}

TEST(Program, WhatIsUpdatedSharesNoMemoryInAnyRun) {
  Model m;
  Tensor state = numbers({3}, 1);
  const ValueRef buffer = m.graph.add_buffer("state", type_of(state), state);
  const Value x = m.input("x", {DType::kF32, {3}});
  m.graph.add_update(x.ref(), (x * 2.0).ref());
  m.graph.add_update(buffer, (m.builder.value(buffer) + x).ref());
  const Program program = m.compile({});
  EXPECT_THAT(error_of(program, {state}), HasSubstr("'state' and 'x' are both updated, but share memory"));
  program.run(std::vector{numbers({3}, 10)});
  EXPECT_THAT(error_of(program, {state}), HasSubstr("'x' and 'state' are both updated, but share memory"));
  EXPECT_EQ(test::values_of(state), (std::vector<double>{11, 13, 15}));
}

TEST(Program, BuffersThatAreUpdatedShareNoMemory) {
  Model m;
  const Tensor state = numbers({3}, 1);
  for (const char* name : {"a", "b"}) {
    const ValueRef buffer = m.graph.add_buffer(name, type_of(state), state);
    m.graph.add_update(buffer, (m.builder.value(buffer) * 2.0).ref());
  }
  const Program program = m.compile({});
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(error_of(program, {}), HasSubstr("'b' and 'a' are both updated, but share memory"));
  }
}

TEST(Program, AnIndexOutOfRangeNamesTheOpAndUpdatesNothing) {
  Model m;
  Tensor state = numbers({2});
  const ValueRef buffer = m.graph.add_buffer("state", type_of(state), state);
  const Value at = m.input("at", {DType::kI64, {1}});
  m.graph.add_update(buffer, (m.builder.value(buffer) + 1.0).ref());
  const Program program = m.compile({m.builder.op("index", {m.parameter("table", {4}), at})});
  Tensor index = Tensor::zeros(DType::kI64, {1});
  index.set_integer(0, 7);
  EXPECT_THAT(error_of(program, {index}), HasSubstr("index 7 is out of range for a size of 4"));
  EXPECT_EQ(test::values_of(state), (std::vector<double>{0, 1}));
}

// ---- the fallback
// ---------------------------------------------------------------------------------------------------------

Value external(Model& m, std::vector<Value> operands, const std::string& types) {
  return m.builder.op("external", operands,
                      {{"target", std::string("my.op.default")}, {"call", int64_t{3}}, {"types", types}});
}

TEST(Program, ExternalCallsNeedAFallback) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  m.graph.set_outputs({external(m, {x}, "f32[2]").ref()});
  const auto program = compile_program(m.graph);
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.diagnostic().message, HasSubstr("my.op.default"));
}

TEST(Program, TheFallbackGetsOperandsInOrderAndItsResultsGoOn) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  const Value y = m.builder.exp(x);
  m.graph.set_outputs({(external(m, {y, x, y}, "f32[2]") * 2.0).ref()});
  const FallbackFn fallback = [](int64_t call, std::span<const Tensor> operands) {
    EXPECT_EQ(call, 3);
    EXPECT_EQ(operands.size(), 3u);
    Tensor sum = Tensor::zeros(DType::kF32, {2});
    for (int64_t i = 0; i < 2; ++i) {
      sum.set_real(i, operands[0].real(i) + 10 * operands[1].real(i) + 100 * operands[2].real(i));
    }
    return std::vector<Tensor>{sum};
  };
  const Program program = compile_program(m.graph, {.fallback = fallback}).value();
  const Tensor input = numbers({2});
  const double e = std::exp(1.0f);
  EXPECT_NEAR(program.run({&input, 1})[0].real(0), 202, 1e-4);
  EXPECT_NEAR(program.run({&input, 1})[0].real(1), 2 * (101 * e + 10), 1e-3);
}

TEST(Program, WhatNeedsASizeThatTheFallbackFindsOutComesAfterIt) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  external(m, {x}, "f32[K]");
  const Value places = m.builder.iota(Symbol("K"));
  m.graph.set_outputs({(places * 2.0).ref(), m.builder.sum(places).ref()});
  const FallbackFn fallback = [](int64_t, std::span<const Tensor>) { return std::vector<Tensor>{numbers({3})}; };
  const Program program = compile_program(m.graph, {.fallback = fallback}).value();
  const Tensor input = numbers({2});
  const std::vector<Tensor> outputs = program.run({&input, 1});
  EXPECT_EQ(test::values_of(outputs[0]), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(test::values_of(outputs[1]), (std::vector<double>{3}));
}

TEST(Program, ResultsOfTheFallbackThatAreOneTensorAreApart) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  const std::vector<Value> results = m.builder.results(
      "external", {x},
      {{"target", std::string("my.op.default")}, {"call", int64_t{0}}, {"types", std::string("f32[2]; f32[2]")}});
  m.graph.set_outputs({results[0].ref(), results[1].ref()});
  const FallbackFn fallback = [](int64_t, std::span<const Tensor> operands) {
    const Tensor result = operands[0].copy();
    return std::vector<Tensor>{result, result};
  };
  const Tensor input = numbers({2});
  const std::vector<Tensor> outputs = compile_program(m.graph, {.fallback = fallback}).value().run({&input, 1});
  EXPECT_FALSE(outputs[0].shares_memory_with(outputs[1]));
  EXPECT_TRUE(close(outputs[1], input));
}

TEST(Program, TheFallbackAndWeTakeTurnsAsSeldomAsPossible) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  std::vector<ValueRef> outputs;
  for (int i = 0; i < 3; ++i)
    outputs.push_back(m.builder.sum(external(m, {m.builder.exp(x) * double(i + 2)}, "f32[2]")).ref());
  m.graph.set_outputs(outputs);
  const FallbackFn fallback = [](int64_t, std::span<const Tensor> operands) {
    return std::vector<Tensor>{operands[0].copy()};
  };
  const Program program = compile_program(m.graph, {.fallback = fallback}).value();
  EXPECT_EQ(segments_of(program).size(), 3u) << describe(program);
}

TEST(Program, AFallbackThatGivesSomethingElseIsAnError) {
  Model m;
  const Value x = m.input("x", {DType::kF32, {2}});
  m.graph.set_outputs({external(m, {x}, "f32[2]").ref()});
  const auto error_with = [&](std::vector<Tensor> results) {
    const FallbackFn fallback = [=](int64_t, std::span<const Tensor>) { return results; };
    return error_of(compile_program(m.graph, {.fallback = fallback}).value(), {numbers({2})});
  };
  EXPECT_THAT(error_with({}), HasSubstr("gave 0 results"));
  EXPECT_THAT(error_with({numbers({2}), numbers({2})}), HasSubstr("gave 2 results, where 1 were promised"));
  EXPECT_THAT(error_with({numbers({3})}), HasSubstr("dimension 0 of a result must be 2"));
  EXPECT_THAT(error_with({Tensor::zeros(DType::kF64, {2})}), HasSubstr("must be f32[2], got f64[2]"));
}

}  // namespace
}  // namespace tenon
