// Tests that the op table generates: every op, every sample, every dtype. tests/python/test_ops_torch.py compares the
// same samples with PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "autodiff/differentiate.h"
#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/sample.h"
#include "passes/passes.h"
#include "support/cursor.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using test::close;
using test::inputs_for;
using test::random_tensor;
using test::with_symbolic_sizes;

class OpTable : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
};
class CompositeOps : public OpTable {};
class DifferentiableOps : public OpTable {};

TEST_P(OpTable, RecordIsComplete) {
  EXPECT_TRUE(is_identifier(op().name.get()));
  EXPECT_FALSE(op().family.get().empty());
  EXPECT_FALSE(op().doc.get().empty());
  EXPECT_TRUE(op().doc.get().ends_with('.')) << "the doc is sentences";
  EXPECT_EQ(op().samples.get().empty(), op().family.get() == "external");  // these stand for anything
  EXPECT_NE(op().peer.get().torch.empty(), op().peer.get().why_none.empty());
  const bool by_expansion = std::holds_alternative<ByExpansion>(op().gradient.get());
  EXPECT_TRUE(op().is_composite() || !by_expansion) << "only a composite has a gradient by expansion";
  std::set<std::string_view> names;
  for (const OperandDef& operand : op().operands.get()) EXPECT_TRUE(names.insert(operand.name).second) << operand.name;
  for (const AttrDef& attr : op().attrs) EXPECT_TRUE(names.insert(attr.name).second) << attr.name;
}

TEST_P(OpTable, SamplesRoundTripAsText) {
  for (const Sample& sample : samples_of(op())) {
    const std::string text = to_string(sample.graph);
    const Result<Graph> parsed = parse_graph(text);
    ASSERT_TRUE(parsed.ok()) << parsed.diagnostic().text() << "\n" << text;
    EXPECT_EQ(*parsed, sample.graph) << text;
    EXPECT_EQ(to_string(*parsed), text);
  }
}

TEST_P(OpTable, SamplesEvaluateToTheInferredTypes) {
  for (const Sample& sample : samples_of(op())) {
    SCOPED_TRACE(sample.name());
    ASSERT_TRUE(verify(sample.graph).ok()) << verify(sample.graph).diagnostic().text();
    const auto outputs = evaluate(sample.graph, inputs_for(sample));
    ASSERT_TRUE(outputs.ok()) << outputs.diagnostic().text();
    for (size_t i = 0; i < outputs->size(); ++i) {
      const TensorType& inferred = sample.graph.type(sample.graph.outputs()[i]);
      EXPECT_EQ((*outputs)[i].dtype(), inferred.dtype);
      if (is_static(inferred.shape)) EXPECT_EQ(type_of((*outputs)[i]), inferred);
    }
  }
}

// A composite must mean the same whether it is evaluated as one node or expanded first.
TEST_P(CompositeOps, ExpansionAgreesWithTheOp) {
  for (const Sample& sample : samples_of(op())) {
    SCOPED_TRACE(sample.name());
    const Graph expanded = decompose(sample.graph);
    ASSERT_TRUE(verify(expanded).ok()) << verify(expanded).diagnostic().text();
    for (const Node& node : expanded.nodes()) EXPECT_FALSE(node.op->is_composite()) << node.op->name.get();
    const std::vector<Tensor> inputs = inputs_for(sample);
    const auto direct = evaluate(sample.graph, inputs);
    const auto through = evaluate(expanded, inputs);
    ASSERT_TRUE(direct.ok()) << direct.diagnostic().text();
    ASSERT_TRUE(through.ok()) << through.diagnostic().text();
    for (size_t i = 0; i < direct->size(); ++i) EXPECT_TRUE(identical((*direct)[i], (*through)[i])) << "result " << i;
  }
}

TEST_P(OpTable, PassesKeepTheResult) {
  for (const Sample& sample : samples_of(op())) {
    SCOPED_TRACE(sample.name());
    const std::vector<std::string> passes = {"decompose", "canonicalize", "cse", "dce"};
    const Result<Graph> optimized = run_passes(sample.graph, passes);
    ASSERT_TRUE(optimized.ok()) << optimized.diagnostic().text();
    const std::vector<Tensor> inputs = inputs_for(sample);
    const auto expected = evaluate(sample.graph, inputs);
    const auto actual = evaluate(*optimized, inputs);
    ASSERT_TRUE(expected.ok() && actual.ok()) << (actual.ok() ? "" : actual.diagnostic().text());
    for (size_t i = 0; i < expected->size(); ++i)
      EXPECT_TRUE(identical((*actual)[i], (*expected)[i])) << "result " << i;
  }
}

// Compares a gradient with central differences of weighted_sum, one input element at a time.
void expect_finite_differences(const Sample& sample, std::vector<Tensor> inputs, size_t input, const Tensor& gradient,
                               const std::vector<Tensor>& cotangents) {
  Tensor& x = inputs[input];
  const auto value_at = [&](int64_t i, double value) {
    x.set_real(i, value);
    const auto outputs = evaluate(sample.graph, inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.diagnostic().text();
    return outputs.ok() ? test::weighted_sum(*outputs, cotangents) : 0;
  };
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double center = x.real(i);
    const double step = 1e-5 * std::max(1.0, std::abs(center));
    const double difference = (value_at(i, center + step) - value_at(i, center - step)) / (2 * step);
    x.set_real(i, center);
    const double actual = gradient.real(gradient.offset(i));
    const bool agrees = std::abs(actual - difference) <= 1e-5 + 1e-4 * std::abs(difference);
    EXPECT_TRUE(agrees || !std::isfinite(difference))  // where the op itself is not finite there is nothing to compare
        << "input " << input << ", element " << i << ": gradient " << actual << ", finite difference " << difference;
  }
}

void check_gradients(const Sample& sample) {
  const std::vector<ValueRef> formal = sample.graph.inputs();
  std::vector<ValueRef> wrt;
  std::vector<size_t> positions;
  for (size_t i = 0; i < formal.size(); ++i) {
    const DType dtype = sample.graph.type(formal[i]).dtype;
    if (is_float(dtype) && dtype != DType::kF64) return;  // too coarse for differences
    if (dtype == DType::kF64) wrt.push_back(formal[i]), positions.push_back(i);
  }
  for (ValueRef output : sample.graph.outputs()) {
    const DType dtype = sample.graph.type(output).dtype;
    if (is_float(dtype) && dtype != DType::kF64) return;
  }
  if (wrt.empty()) return;
  const Result<Graph> gradients = differentiate(sample.graph, wrt);
  ASSERT_TRUE(gradients.ok()) << gradients.diagnostic().text();
  ASSERT_TRUE(verify(*gradients).ok()) << verify(*gradients).diagnostic().text();
  std::vector<Tensor> inputs = inputs_for(sample);
  test::Random random(7);
  std::vector<Tensor> arguments = inputs;
  std::vector<Tensor> cotangents;
  for (ValueRef output : sample.graph.outputs()) {
    const TensorType& type = sample.graph.type(output);
    if (!is_float(type.dtype)) continue;
    cotangents.push_back(random_tensor(type, {}, {-1, 1}, random));
    arguments.push_back(cotangents.back());
  }
  const auto results = evaluate(*gradients, arguments);
  ASSERT_TRUE(results.ok()) << results.diagnostic().text();
  for (size_t i = 0; i < wrt.size(); ++i) {
    expect_finite_differences(sample, inputs, positions[i], (*results)[i], cotangents);
  }
}

TEST_P(DifferentiableOps, GradientAgreesWithFiniteDifferences) {
  for (const Sample& sample : samples_of(op())) {
    SCOPED_TRACE(sample.name());
    check_gradients(sample);
  }
}

void check_symbolic_sizes(const OpDef& op, int64_t least) {
  for (const Sample& sample : samples_of(op)) {
    SCOPED_TRACE(sample.name());
    const std::optional<Graph> symbolic = with_symbolic_sizes(sample, least);
    if (!symbolic) continue;
    const std::vector<Tensor> inputs = inputs_for(sample);
    const auto expected = evaluate(sample.graph, inputs);
    const auto direct = evaluate(*symbolic, inputs);
    const auto expanded = attempt([&] { return evaluate(decompose(*symbolic), inputs).value(); });
    ASSERT_TRUE(expected.ok() && direct.ok()) << (direct.ok() ? "" : direct.diagnostic().text());
    ASSERT_TRUE(expanded.ok()) << expanded.diagnostic().text();
    for (size_t i = 0; i < expected->size(); ++i) {
      EXPECT_TRUE(identical((*direct)[i], (*expected)[i])) << "result " << i;
      EXPECT_TRUE(identical((*expanded)[i], (*expected)[i])) << "result " << i;
    }
  }
}

TEST_P(OpTable, SymbolicSizesGiveTheSameResult) { check_symbolic_sizes(op(), 2); }

// What a size may be 0 for is expanded in another way, or refused.
TEST_P(OpTable, SymbolicSizesThatMayBeZeroGiveTheSameResult) { check_symbolic_sizes(op(), 0); }

// The gradient of the sum of all results with respect to each f64 input.
std::vector<Tensor> gradients_of(const Graph& graph, std::vector<Tensor> inputs) {
  std::vector<ValueRef> wrt;
  for (ValueRef input : graph.inputs()) {
    if (graph.type(input).dtype == DType::kF64) wrt.push_back(input);
  }
  const std::vector<Tensor> outputs = evaluate(graph, inputs).value();
  for (const Tensor& output : outputs) {
    if (!is_float(output.dtype())) continue;
    Tensor ones = Tensor::zeros(output.dtype(), output.shape());
    for (int64_t i = 0; i < ones.numel(); ++i) ones.set_real(i, 1);
    inputs.push_back(ones);
  }
  return evaluate(differentiate(graph, wrt).value(), inputs).value();
}

TEST_P(DifferentiableOps, SymbolicSizesGiveTheSameGradient) {
  for (const Sample& sample : samples_of(op())) {
    SCOPED_TRACE(sample.name());
    const std::optional<Graph> symbolic = with_symbolic_sizes(sample, 2);
    if (!symbolic || sample.dtype != DType::kF64) continue;
    const std::vector<Tensor> inputs = inputs_for(sample);
    const std::vector<Tensor> expected = gradients_of(sample.graph, inputs);
    const std::vector<Tensor> actual = gradients_of(*symbolic, inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i])) << "input " << i;
  }
}

// The exceptions take a dimension that must be a number: a key of 2, coordinates of 2, the parts of an unflattened
// size.
TEST(OpTableSymbols, AlmostEveryOpTakesSymbolicSizes) {
  const std::set<std::string_view> exceptions = {"grid_sample", "unflatten", "philox",  "uniform",
                                                 "normal",      "bernoulli", "dropout", "randint",
                                                 "randperm",    "external",  "segment", "tile_layer"};
  for (const OpDef* op : op_table()) {
    const std::vector<Sample> samples = samples_of(*op);
    const bool any =
        std::ranges::any_of(samples, [](const Sample& s) { return with_symbolic_sizes(s, 2).has_value(); });
    EXPECT_EQ(any, !exceptions.contains(op->name)) << op->name.get();
  }
}

template <class Predicate>
std::vector<const OpDef*> ops_where(Predicate predicate) {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : op_table()) {
    if (predicate(*op)) ops.push_back(op);
  }
  return ops;
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) { return std::string(info.param->name.get()); }
bool is_differentiable(const OpDef& op) { return !std::holds_alternative<NotDifferentiable>(op.gradient.get()); }

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, testing::ValuesIn(ops_where([](const OpDef&) { return true; })), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, CompositeOps, testing::ValuesIn(ops_where(std::mem_fn(&OpDef::is_composite))), test_name);
INSTANTIATE_TEST_SUITE_P(Ops, DifferentiableOps, testing::ValuesIn(ops_where(is_differentiable)), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CompositeOps);

TEST(OpTableLookup, UnknownOpSuggestsTheNearest) {
  const auto found = attempt([] { return op_named("summ").name.get(); });
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.diagnostic().message, "there is no op 'summ'; did you mean 'sum'?");
}

}  // namespace
}  // namespace tenon
