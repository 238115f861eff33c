#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tenon {
namespace {

const Symbol kN("N");

// The message that `body` fails with; a test failure when it does not.
template <class Body>
std::string message_of(Body body) {
  const Status status = attempt([&] { body(); });
  EXPECT_FALSE(status.ok()) << "expected a diagnostic";
  return status.ok() ? "" : status.diagnostic().message;
}

TEST(Graph, BuilderInfersTypes) {
  Graph graph("mlp");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {kN, 4}}));
  const Value w = b.value(graph.add_parameter("w", {DType::kF32, {4}}));
  const Value y = b.exp(x * w + 1.0);
  EXPECT_EQ(to_string(y.type()), "f32[N, 4]");
  EXPECT_EQ(to_string(b.sum(y, {0}).type()), "f32[4]");
  graph.set_outputs({y.ref()});
  EXPECT_TRUE(verify(graph).ok());
}

TEST(Graph, NumbersBesideTensorsTakeTheirDtype) {
  Graph graph;
  Builder b(graph);
  const Value i = b.value(graph.add_input("i", {DType::kI32, {3}}));
  const Value h = b.value(graph.add_input("h", {DType::kBF16, {3}}));
  EXPECT_EQ((i + 2).dtype(), DType::kI32);
  EXPECT_EQ((i * 0.5).dtype(), DType::kF32);
  EXPECT_EQ((h * 0.5).dtype(), DType::kBF16);
}

TEST(Graph, AFailedNodeLeavesTheGraphAsItWas) {
  Graph graph;
  const ValueRef x = graph.add_input("x", {DType::kF32, {3}});
  const ValueRef y = graph.add_input("y", {DType::kF32, {4}});
  const std::string before = to_string(graph);
  EXPECT_EQ(message_of([&] { graph.add_node(op_named("add"), {x, y}, {}); }),
            "add: cannot broadcast [3] with [4]: sizes 3 and 4 differ and neither is 1");
  EXPECT_EQ(to_string(graph), before);
}

TEST(Graph, SymbolicSizesMustProvablyAgree) {
  Graph graph;
  const ValueRef x = graph.add_input("x", {DType::kF32, {kN}});
  const ValueRef y = graph.add_input("y", {DType::kF32, {5}});
  EXPECT_EQ(message_of([&] { graph.add_node(op_named("add"), {x, y}, {}); }),
            "add: cannot broadcast [N] with [5]: sizes N and 5 differ and neither is 1");
}

TEST(Graph, OperandsAreCheckedAgainstTheRecord) {
  Graph graph;
  const ValueRef x = graph.add_input("x", {DType::kBool, {3}});
  EXPECT_EQ(message_of([&] { graph.add_node(op_named("add"), {x}, {}); }), "add takes 2 operands, got 1");
  EXPECT_EQ(message_of([&] { graph.add_node(op_named("add"), {x, {}}, {}); }), "add: operand 'y' must be given");
  EXPECT_EQ(message_of([&] { graph.add_node(op_named("neg"), {x}, {}); }),
            "neg: operand 'x' has dtype bool, which is not one of f64, f32, f16, bf16, i64, i32, i16, i8, u8");
}

TEST(Graph, AttributesAreCheckedAgainstTheRecord) {
  const OpDef& sum = op_named("sum");
  EXPECT_EQ(message_of([&] { (void)complete_attrs(sum, {{"keepdims", true}}); }),
            "sum has no attribute 'keepdims'; did you mean 'keepdim'?");
  EXPECT_EQ(message_of([&] { (void)complete_attrs(sum, {{"keepdim", int64_t{1}}}); }),
            "sum: attribute 'keepdim' must be of kind bool, got 1");
  EXPECT_EQ(message_of([&] { (void)complete_attrs(op_named("full"), {}); }),
            "full: attribute 'value' must be given (scalar)");
  EXPECT_EQ(message_of([&] { (void)complete_attrs(sum, {{"keepdim", true}, {"keepdim", true}}); }),
            "sum: attribute 'keepdim' is given twice");
}

TEST(Graph, LeafNamesAreUnique) {
  Graph graph;
  graph.add_input("x", {DType::kF32, {3}});
  EXPECT_EQ(message_of([&] { graph.add_parameter("x", {DType::kF32, {3}}); }), "the graph has two leaves named 'x'");
  EXPECT_EQ(message_of([&] { graph.add_input("a b", {DType::kF32, {3}}); }),
            "'a b' cannot name an input: use letters, digits, '_' and '.'");
  EXPECT_EQ(message_of([&] { graph.add_input("y", {DType::kF32, {-3}}); }), "input 'y' has a negative size: f32[-3]");
}

TEST(Graph, DataMustHaveTheDeclaredType) {
  Graph graph;
  graph.add_parameter("w", {DType::kF32, {3}});
  graph.add_input("x", {DType::kF32, {3}});
  EXPECT_EQ(message_of([&] { graph.bind("w", Tensor::zeros(DType::kF32, {4})); }),
            "parameter 'w' is f32[3], but its data is f32[4]");
  EXPECT_EQ(message_of([&] { graph.bind("v", Tensor::zeros(DType::kF32, {3})); }),
            "the graph has no parameter or buffer 'v'");
  EXPECT_EQ(message_of([&] { graph.bind("x", Tensor::zeros(DType::kF32, {3})); }),
            "'x' is an input; give it when you evaluate");
}

TEST(Graph, OnlyBuffersAndInputsAreUpdatedAndOnce) {
  Graph graph;
  const ValueRef x = graph.add_input("x", {DType::kF32, {3}});
  const ValueRef w = graph.add_parameter("w", {DType::kF32, {3}});
  const ValueRef m = graph.add_buffer("m", {DType::kF32, {3}});
  const ValueRef s = graph.add_buffer("s", {DType::kF32, {4}});
  EXPECT_EQ(message_of([&] { graph.add_update(w, x); }), "only a buffer or an input can be updated");
  EXPECT_EQ(message_of([&] { graph.add_update(s, x); }), "'s' is f32[4] and cannot be updated with f32[3]");
  graph.add_update(m, x);
  EXPECT_EQ(message_of([&] { graph.add_update(m, w); }), "'m' is updated twice");
}

TEST(Graph, CopiesShareWeights) {
  Graph graph;
  const Tensor weight = Tensor::zeros(DType::kF32, {1000});
  graph.add_parameter("w", type_of(weight), weight);
  const Graph copy = graph;
  EXPECT_EQ(copy.leaf_named("w")->data.data(), weight.data());
}

TEST(Types, ResultDtypeRanksDimensionsAboveScalars) {
  const auto result = [](std::vector<TensorType> types) { return result_dtype(types); };
  EXPECT_EQ(result({{DType::kF32, {3}}, {DType::kF64, {}}}), DType::kF32);
  EXPECT_EQ(result({{DType::kI64, {3}}, {DType::kF16, {}}}), DType::kF16);
  EXPECT_EQ(result({{DType::kI8, {3}}, {DType::kI64, {}}}), DType::kI8);
  EXPECT_EQ(result({{DType::kBool, {3}}, {DType::kI64, {}}}), DType::kI64);
  EXPECT_EQ(result({{DType::kF16, {}}, {DType::kBF16, {}}}), DType::kF32);
}

TEST(Types, DimensionsAreNormalized) {
  EXPECT_EQ(normalize_dim(-1, 3), 2);
  EXPECT_EQ(normalize_dim(-1, 0), 0);
  EXPECT_EQ(message_of([] { (void)normalize_dim(3, 3); }),
            "dimension 3 is out of range for rank 3: it must be in [-3, 2]");
  EXPECT_EQ(message_of([] { (void)normalize_dims(std::vector<int64_t>{0, -2}, 2); }), "dimension 0 appears twice");
}

TEST(Tensors, SizesAreChecked) {
  EXPECT_EQ(message_of([] { (void)element_count(Sizes{1ll << 40, 1ll << 40}); }),
            "integer overflow: 1099511627776 * 1099511627776 does not fit 64 bits");
  EXPECT_EQ(message_of([] { (void)element_count(Sizes{-1}); }), "a tensor cannot have the negative size -1");
  EXPECT_EQ(element_count(Sizes{1ll << 40, 0, 1ll << 20}), 0);
  const std::string too_large = message_of([] { (void)Tensor::zeros(DType::kF32, {1ll << 50}); });
  EXPECT_TRUE(too_large.starts_with("out of memory: a tensor needs 4503599627370496 bytes")) << too_large;
}

}  // namespace
}  // namespace tenon
