#include "graph/evaluate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "graph/graph.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

Tensor vector_of(std::vector<double> values, DType dtype = DType::kF32) {
  Tensor tensor = Tensor::zeros(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::string error_of(const Graph& graph, std::vector<Tensor> inputs) {
  const auto result = evaluate(graph, inputs);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.diagnostic().text();
}

using Values = std::vector<double>;

TEST(Reference, SizesBindSymbols) {
  const Graph graph = parse_graph("graph g(%x: f32[N], %y: f32[N]) { %z = add(%x, %y) return %z }").value();
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({1, 2}), vector_of({3, 4})}).value()[0]),
            (Values{4, 6}));
  const std::string conflict = error_of(graph, {vector_of({1, 2, 3}), vector_of({1, 2, 3, 4})});
  EXPECT_NE(conflict.find("dimension 0 of input 'y'"), std::string::npos) << conflict;
  EXPECT_NE(conflict.find("3"), std::string::npos) << conflict;
  EXPECT_NE(conflict.find("4"), std::string::npos) << conflict;
}

TEST(Reference, SizesMustLieInTheDeclaredRange) {
  const Graph graph = parse_graph("graph g(%x: f32[N]) { symbol N in [2, 4] return %x }").value();
  EXPECT_TRUE(evaluate(graph, std::vector{vector_of({1, 2})}).ok());
  const std::string message = error_of(graph, {vector_of({1})});
  EXPECT_NE(message.find("N"), std::string::npos) << message;
}

TEST(Reference, InputsAreChecked) {
  const Graph graph = parse_graph("graph g(%x: f32[3]) { return %x }").value();
  EXPECT_EQ(error_of(graph, {}), "error: graph g takes 1 inputs, got 0");
  EXPECT_EQ(error_of(graph, {vector_of({1, 2, 3}, DType::kF64)}), "error: input 'x' must be f32[3], got f64[3]");
  EXPECT_EQ(error_of(graph, {Tensor::zeros(DType::kF32, {3, 1})}), "error: input 'x' must be f32[3], got f32[3, 1]");
  EXPECT_FALSE(evaluate(graph, std::vector{vector_of({1, 2})}).ok());
}

TEST(Reference, UnboundParametersAreErrors) {
  Graph graph = parse_graph("graph g(%x: f32[2]) { %w: f32[2] = parameter \"w\" %y = mul(%x, %w) return %y }").value();
  EXPECT_EQ(error_of(graph, {vector_of({1, 2})}), "error: parameter 'w' has no data: bind it first");
  graph.bind("w", vector_of({10, 20}));
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{vector_of({1, 2})}).value()[0]), (Values{10, 40}));
}

TEST(Reference, ASymbolThatNothingBindsIsAnError) {
  const Graph graph = parse_graph("graph g() { %x = iota() {size=N} return %x }").value();
  EXPECT_EQ(error_of(graph, {}), "error: iota: no input binds the symbol N");
}

TEST(Reference, ErrorsPointIntoTheModel) {
  const Graph graph =
      parse_graph("graph g(%x: i64[1], %y: i64[1]) { %z = floor_div(%x, %y) @ \"model.py\":7 return %z }").value();
  const std::string message = error_of(graph, {Tensor::zeros(DType::kI64, {1}), Tensor::zeros(DType::kI64, {1})});
  EXPECT_EQ(message.rfind("model.py:7: error: ", 0), 0u) << message;
}

TEST(Reference, UpdatesHappenAfterEveryRead) {
  Graph graph = parse_graph(
                    "graph g(%x: f32[2]) {\n"
                    "  %a: f32[2] = buffer \"a\"\n"
                    "  %b: f32[2] = buffer \"b\"\n"
                    "  update %a = %b\n"
                    "  update %b = %a\n"
                    "  return %a\n"
                    "}")
                    .value();
  Tensor a = vector_of({1, 2});
  Tensor b = vector_of({3, 4});
  graph.bind("a", a);
  graph.bind("b", b);
  const std::vector<Tensor> outputs = evaluate(graph, std::vector{vector_of({0, 0})}).value();
  EXPECT_EQ(test::values_of(outputs[0]), (Values{1, 2})) << "the output is the value before the update";
  EXPECT_EQ(test::values_of(a), (Values{3, 4}));
  EXPECT_EQ(test::values_of(b), (Values{1, 2}));
}

TEST(Reference, AFailedRunUpdatesNothing) {
  Graph graph = parse_graph(
                    "graph g(%x: i64[1]) {\n"
                    "  %n: i64[1] = buffer \"n\"\n"
                    "  update %n = %x\n"
                    "  %y = floor_div(%n, %x)\n"
                    "  return %y\n"
                    "}")
                    .value();
  Tensor n = Tensor::zeros(DType::kI64, {1});
  n.set_integer(0, 5);
  graph.bind("n", n);
  EXPECT_FALSE(evaluate(graph, std::vector{Tensor::zeros(DType::kI64, {1})}).ok());
  EXPECT_EQ(n.integer(0), 5);
}

TEST(Reference, ReadsNonContiguousInputs) {
  const Graph graph = parse_graph("graph g(%x: f32[2, 3]) { %y = neg(%x) return %y }").value();
  const Tensor base = vector_of({0, 1, 2, 3, 4, 5});
  const Tensor transposed = Tensor::borrow(DType::kF32, {2, 3}, {1, 2}, base.data(), base.owner());
  EXPECT_EQ(test::values_of(evaluate(graph, std::vector{transposed}).value()[0]), (Values{-0.0, -2, -4, -1, -3, -5}));
}

TEST(Reference, ManyThreadsEvaluateOneGraph) {
  const Graph graph = parse_graph("graph g(%x: f32[N]) { %y = softmax(%x) {dim=0} return %y }").value();
  const std::vector<double> expected = test::values_of(evaluate(graph, std::vector{vector_of({1, 2, 3})}).value()[0]);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        right += test::values_of(evaluate(graph, std::vector{vector_of({1, 2, 3})}).value()[0]) == expected ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

}  // namespace
}  // namespace tenon
