// What the samples of reads and writes at indices do not reach: errors at run time, repeated indices, bags.
#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/graph.h"
#include "passes/passes.h"

namespace tenon {
namespace {

using Values = std::vector<double>;

Tensor tensor_of(DType dtype, Sizes shape, const Values& values) {
  Tensor tensor = Tensor::zeros(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_real(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor indices_of(const Values& values) {
  return tensor_of(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}
Tensor reals_of(const Values& values) { return tensor_of(DType::kF32, {static_cast<int64_t>(values.size())}, values); }

Result<std::vector<Tensor>> run(const std::string& inputs, const std::string& node, const std::vector<Tensor>& values) {
  const Graph graph = parse_graph("graph g(" + inputs + ") { %z = " + node + " return %z }").value();
  return evaluate(graph, values);
}

Values result_of(const std::string& inputs, const std::string& node, const std::vector<Tensor>& values) {
  const auto outputs = run(inputs, node, values);
  if (!outputs.ok()) ADD_FAILURE() << outputs.diagnostic().text();
  Values result;
  for (int64_t i = 0; outputs.ok() && i < (*outputs)[0].numel(); ++i) result.push_back((*outputs)[0].real(i));
  return result;
}

std::string error_of(const std::string& inputs, const std::string& node, const std::vector<Tensor>& values) {
  const auto outputs = run(inputs, node, values);
  return outputs.ok() ? "no error" : outputs.diagnostic().message;
}

std::string error_of_graph(const std::string& inputs, const std::string& node) {
  const auto graph = parse_graph("graph g(" + inputs + ") { %z = " + node + " return %z }");
  return graph.ok() ? "no error" : graph.diagnostic().message;
}

TEST(Index, OutOfRangeNamesTheIndexTheSizeAndTheDimension) {
  const std::string inputs = "%x: f32[2, 3], %i: i64[1]";
  const Tensor x = Tensor::zeros(DType::kF32, {2, 3});
  EXPECT_EQ(error_of(inputs, "index(%x, none, %i)", {x, indices_of({3})}),
            "index 3 is out of range for dimension 1 of size 3");
  EXPECT_EQ(error_of(inputs, "index(%x, none, %i)", {x, indices_of({-4})}),
            "index -4 is out of range for dimension 1 of size 3");
  EXPECT_EQ(error_of(inputs, "index(%x, %i) {wrap=false}", {x, indices_of({-1})}),
            "index -1 is out of range for dimension 0 of size 2");
  for (const std::string node : {"gather(%x, %i)", "index_select(%x, %i)"}) {
    EXPECT_EQ(error_of("%x: f32[2], %i: i64[1]", node, {reals_of({1, 2}), indices_of({-1})}),
              "index -1 is out of range for dimension 0 of size 2")
        << node;
  }
  EXPECT_EQ(error_of("%i: i64[1]", "one_hot(%i) {num_classes=2}", {indices_of({2})}),
            "index 2 is out of range for dimension 1 of size 2");
}

TEST(Index, Diagnostics) {
  EXPECT_EQ(error_of_graph("%x: f32[2], %m: bool[2]", "index(%x, %m)"),
            "index: a bool mask cannot be an index: use its nonzero");
  EXPECT_EQ(error_of_graph("%x: f32[2], %i: i64[2]", "index(%x, none, %i)"), "index: 2 indices are given for f32[2]");
  EXPECT_EQ(error_of_graph("%x: f32[2]", "index(%x, none)"), "index: at least one index must be given");
  EXPECT_EQ(error_of_graph("%x: f32[2], %i: i64[2]", "index_put(%x, %x, %i) {reduce=\"max\"}"),
            "index_put: reduce \"max\" is not one of set, add, mul, amax, amin");
  EXPECT_EQ(error_of_graph("%x: f32[2], %v: i64[2], %i: i64[2]", "index_put(%x, %v, %i)"),
            "index_put: values of dtype i64 cannot be written into f32");
  EXPECT_EQ(error_of_graph("%x: f32[4], %v: f32[3], %i: i64[2]", "index_put(%x, %v, %i)"),
            "index_put: cannot broadcast [3] with [2]: sizes 3 and 2 differ and neither is 1");
  EXPECT_EQ(error_of_graph("%x: f32[2, 2], %i: i64[2]", "gather(%x, %i)"),
            "gather: the index is i64[2] for f32[2, 2]: it must have the same rank, and not be larger in a dimension "
            "other than 0");
  EXPECT_EQ(error_of_graph("%x: f32[N, 2], %i: i64[N, 3]", "gather(%x, %i)"),
            "gather: the index is i64[N, 3] for f32[N, 2]: it must have the same rank, and not be larger in a "
            "dimension other than 0");
  EXPECT_EQ(error_of_graph("%x: f32[2], %i: i64[3], %s: f32[2]", "scatter(%x, %i, %s)"),
            "scatter: the index i64[3] is not within the source f32[2]");
  EXPECT_EQ(error_of_graph("%x: f32[3, 2], %s: f32[2, 3]", "slice_scatter(%x, %s) {end=2}"),
            "slice_scatter: src is f32[2, 3], but the place for it is [2, 2]");
}

TEST(Gather, APlaceThatSymbolsLeaveOpenIsCheckedAtRunTime) {
  const std::vector<Tensor> values = {Tensor::zeros(DType::kF32, {1, 2}), Tensor::zeros(DType::kI64, {1, 3})};
  EXPECT_EQ(error_of("%x: f32[1, N], %i: i64[1, M]", "gather(%x, %i)", values),
            "index 2 is out of range for dimension 1 of size 2");
}

// Sizes that are equal without being the same expression.
TEST(SliceScatter, TakesASourceOfAProvablyEqualSize) {
  const Graph graph = parse_graph(
                          "graph g(%x: f32[N], %s: f32[2]) { symbol N in [3, 3] "
                          "%z = slice_scatter(%x, %s) {start=1, end=N} return %z }")
                          .value();
  const auto outputs = evaluate(graph, std::vector{reals_of({1, 2, 3}), reals_of({8, 9})});
  ASSERT_TRUE(outputs.ok()) << outputs.diagnostic().text();
  EXPECT_TRUE(identical((*outputs)[0], reals_of({1, 8, 9})));
  const auto expanded =
      attempt([&] { return evaluate(decompose(graph), std::vector{reals_of({1, 2, 3}), reals_of({8, 9})}).value(); });
  ASSERT_TRUE(expanded.ok()) << expanded.diagnostic().text();
  EXPECT_TRUE(identical((*expanded)[0], reals_of({1, 8, 9})));
}

TEST(IndexPut, TheLastOfRepeatedIndicesStays) {
  EXPECT_EQ(result_of("%x: f32[3], %v: f32[4], %i: i64[4]", "index_put(%x, %v, %i)",
                      {reals_of({0, 0, 0}), reals_of({1, 2, 3, 4}), indices_of({1, -1, 1, 2})}),
            (Values{0, 3, 4}));
  EXPECT_EQ(result_of("%x: f32[3], %v: f32[4], %i: i64[4]", "scatter(%x, %i, %v)",
                      {reals_of({0, 0, 0}), reals_of({1, 2, 3, 4}), indices_of({1, 2, 1, 2})}),
            (Values{0, 3, 4}));
}

// 2048 + 1 is 2048 in f16: added one by one, the ones would be lost.
TEST(IndexPut, RoundsOnce) {
  const std::vector<Tensor> values = {tensor_of(DType::kF16, {1}, {2048}), tensor_of(DType::kF16, {4}, {1, 1, 1, 1}),
                                      indices_of({0, 0, 0, 0})};
  EXPECT_EQ(result_of("%x: f16[1], %v: f16[4], %i: i64[4]", "index_put(%x, %v, %i) {reduce=\"add\"}", values),
            (Values{2052}));
}

TEST(MaskedScatter, NeedsEnoughElements) {
  const std::string inputs = "%x: f32[3], %m: bool[3], %s: f32[1]";
  const auto mask = [](const Values& values) { return tensor_of(DType::kBool, {3}, values); };
  EXPECT_EQ(result_of(inputs, "masked_scatter(%x, %m, %s)", {reals_of({1, 2, 3}), mask({0, 1, 0}), reals_of({9})}),
            (Values{1, 9, 3}));
  EXPECT_NE(error_of(inputs, "masked_scatter(%x, %m, %s)", {reals_of({1, 2, 3}), mask({1, 1, 0}), reals_of({9})}),
            "no error");
}

class EmbeddingBag : public testing::Test {
 protected:
  const std::string inputs = "%w: f32[4, 2], %i: i64[5], %o: i64[3]";
  const Tensor weight = tensor_of(DType::kF32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});

  Values bags(const Values& index, const Values& offsets, const std::string& attrs) {
    return result_of(inputs, "embedding_bag(%w, %i, %o, none) {" + attrs + "}",
                     {weight, indices_of(index), indices_of(offsets)});
  }
};

TEST_F(EmbeddingBag, Modes) {
  EXPECT_EQ(bags({0, 1, 3, 3, 2}, {0, 2, 2}, "mode=\"sum\""), (Values{4, 6, 0, 0, 19, 22}));
  EXPECT_EQ(bags({0, 1, 3, 3, 2}, {0, 1, 3}, "mode=\"mean\""), (Values{1, 2, 5, 6, 6, 7}));
  EXPECT_EQ(bags({0, 1, 3, 3, 2}, {0, 4, 5}, "mode=\"max\""), (Values{7, 8, 5, 6, 0, 0}));
}

TEST_F(EmbeddingBag, PaddingAndTheLastOffset) {
  EXPECT_EQ(bags({0, 1, 3, 3, 2}, {0, 2, 4}, "mode=\"mean\", padding_idx=3"), (Values{2, 3, 0, 0, 5, 6}));
  EXPECT_EQ(bags({0, 1, 3, 3, 2}, {0, 2, 5}, "mode=\"sum\", include_last_offset=true"), (Values{4, 6, 19, 22}));
}

TEST_F(EmbeddingBag, EntriesBeforeTheFirstOffsetAreAnError) {
  EXPECT_EQ(
      error_of(inputs, "embedding_bag(%w, %i, %o, none)", {weight, indices_of({0, 1, 2, 3, 0}), indices_of({1, 2, 3})}),
      "index -1 is out of range for dimension 0 of size 3");
}

}  // namespace
}  // namespace tenon
