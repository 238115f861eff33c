#include "driver/budget.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/pipeline.h"
#include "program/run.h"
#include "runtime/thread_pool.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using testing::HasSubstr;

int64_t number_after(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + words.size()));
}

// Products by groups run in a function of the runtime, whose scratch no loop tells.
Graph experts() {
  return parse_graph(R"(graph experts(%x: f32[50, 40], %w: f32[3, 40, 24], %ends: i64[3]) {
    %a = exp(%x)
    %y = grouped_matmul(%a, %w, %ends)
    %d = grouped_outer(%a, %y, %ends)
    %e = tanh(%d)
    return %e
  })")
      .value();
}

TEST(Budget, TheLeastIsEnoughForScratchOfTheRuntime) {
  for (const int64_t threads : {1, 2}) {
    SCOPED_TRACE(threads);
    const ThreadCount count(threads);
    const Graph graph = experts();
    const auto refused = compile_program(graph, {.budget = 1000});
    ASSERT_FALSE(refused.ok());
    const int64_t least = number_after(refused.diagnostic().message, "the least is ");
    ASSERT_GT(least, 0) << refused.diagnostic().message;
    const Program program = compile_program(graph, {.budget = least}).value();
    test::Random random(1);
    std::vector<Tensor> inputs;
    for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
    for (const int64_t ends : {50, 0, 17}) {
      inputs[2].set_integer(0, ends / 3);
      inputs[2].set_integer(1, ends / 2);
      inputs[2].set_integer(2, ends);
      const auto context = program.runner->make_context({.budget = least});
      const std::vector<Tensor> results = ProgramRunner::run_in(*context, program, inputs);
      EXPECT_TRUE(test::close(results[0], program.run(inputs)[0]));
      EXPECT_LE(context->allocator().peak(), least);
    }
  }
}

TEST(Budget, ScratchOfTheRuntimeThatDoesNotFitIsAnErrorOfTheBudget) {
  const Graph graph = experts();
  const Program program = compile_program(graph).value();
  test::Random random(1);
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
  for (int64_t i = 0; i < 3; ++i) inputs[2].set_integer(i, 20 * i);
  const auto context = program.runner->make_context({.budget = 30'000});
  const auto failed = attempt([&] { return ProgramRunner::run_in(*context, program, inputs); });
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().message,
              HasSubstr("bytes with the scratch of grouped_matmul, and its budget is 30000"));
  EXPECT_THAT(failed.diagnostic().message, HasSubstr("Its largest tensors are:\n"));
}

// ---- functions of the runtime ---------------------------------------------------------------------------------------

// Most of what they take is scratch.
const char* const kScratchGraphs[] = {
    "graph g(%x: f32[300, 200]) {\n %v, %i = sort(%x)\n return %v, %i\n}",
    "graph g(%x: i64[70000]) {\n %i = argsort(%x)\n return %i\n}",
    "graph g(%x: f32[100000]) {\n %v, %i = topk(%x) {k=1000}\n return %v, %i\n}",
    "graph g(%x: f64[50, 700]) {\n %v, %i = kthvalue(%x) {k=300}\n return %v, %i\n}",
    "graph g(%x: f32[4, 40, 40]) {\n %l, %p, %e = lu(%x)\n return %l\n}",
    "graph g(%x: f32[4, 40, 40]) {\n %v, %w = eigh(%x)\n return %v, %w\n}",
    "graph g(%x: f32[4, 50, 40]) {\n %u, %s, %v = svd(%x)\n return %s\n}",
    "graph g(%x: f32[4, 40, 40]) {\n %e = matrix_exp(%x)\n return %e\n}",
    "graph g(%x: f64[4, 40, 30]) {\n %a, %t = geqrf(%x)\n %q = householder_product(%a, %t)\n return %q\n}",
    "graph g(%a: f32[4, 40, 40], %b: f32[4, 40, 30]) {\n %x = triangular_solve(%a, %b) {upper=false}\n return %x\n}",
};

TEST(Budget, TheLeastIsEnoughForEachFunctionOfTheRuntime) {
  for (const char* text : kScratchGraphs) {
    for (const int64_t threads : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} on {}", text, threads));
      const ThreadCount count(threads);
      const Graph graph = parse_graph(text).value();
      const auto refused = compile_program(graph, {.budget = 1000});
      ASSERT_FALSE(refused.ok());
      const int64_t least = number_after(refused.diagnostic().message, "the least is ");
      ASSERT_GT(least, 1000) << refused.diagnostic().message;
      const Program program = compile_program(graph, {.budget = least}).value();
      test::Random random(1);
      std::vector<Tensor> inputs;
      for (ValueRef input : graph.inputs())
        inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
      const std::vector<Tensor> expected = compile_program(graph).value().run(inputs);
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<Tensor> results = program.run(inputs);  // within the budget, or an error
        for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(test::close(results[i], expected[i]));
      }
    }
  }
}

// Each thread of an attention packs keys and values of its own.
TEST(Budget, CountsTheScratchOfEachThread) {
  const auto least_of = [](int64_t threads) {
    const ThreadCount count(threads);
    const Graph graph = parse_graph(
                            "graph g(%q: f32[8, 400, 64], %k: f32[8, 400, 64]) {\n"
                            " %y = scaled_dot_product_attention(%q, %k, %k, none)\n return %y\n}")
                            .value();
    const auto refused = compile_program(graph, {.budget = 1000});
    EXPECT_FALSE(refused.ok());
    return number_after(refused.diagnostic().message, "the least is ");
  };
  EXPECT_GT(least_of(4), least_of(1));
}

TEST(Budget, TensorsOfComputedSizesAreFreedAfterTheirLastReader) {
  const auto peak_of = [](int sorts) {
    std::string text = "graph g(%x: f32[1000]) {\n %i = nonzero(%x) {count=K}\n %s0 = reshape(%i) {shape=[K]}\n";
    for (int i = 0; i < sorts; ++i) text += fmt::format(" %s{} = argsort(%s{})\n", i + 1, i);
    const Program program = compile_program(parse_graph(text + fmt::format(" return %s{}\n}}", sorts)).value()).value();
    const auto context = program.runner->make_context({});
    Tensor x = Tensor::zeros(DType::kF32, {1000});
    for (int64_t i = 0; i < 1000; ++i) x.set_real(i, 1);
    ProgramRunner::run_in(*context, program, std::vector{x});
    return context->allocator().peak();
  };
  EXPECT_EQ(peak_of(6), peak_of(2));
}

// Sizes that depend on data: the run finds out.
TEST(Budget, ARunKeepsTheBudgetForSizesThatItComputes) {
  const Graph graph = parse_graph("graph g(%x: f32[10000]) {\n %i = nonzero(%x) {count=K}\n return %i\n}").value();
  const Program program = compile_program(graph, {.budget = 40'000}).value();
  const auto with_ones = [](int64_t count) {
    Tensor x = Tensor::zeros(DType::kF32, {10000});
    for (int64_t i = 0; i < count; ++i) x.set_real(i, 1);
    return std::vector{x};
  };
  EXPECT_EQ(program.run(with_ones(5000))[0].shape(), (std::vector<int64_t>{5000, 1}));
  const auto failed = attempt([&] { return program.run(with_ones(5001)); });
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().message, HasSubstr("its budget is 40000"));
  EXPECT_EQ(program.run(with_ones(4000))[0].shape(), (std::vector<int64_t>{4000, 1}));
}

}  // namespace
}  // namespace tenon
