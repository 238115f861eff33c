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

}  // namespace
}  // namespace tenon
