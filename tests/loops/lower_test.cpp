// Every op of the table, lowered to loops and interpreted, against the reference.
#include "loops/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "backends/backend.h"
#include "backends/reference/evaluate.h"
#include "graph/builder.h"
#include "loops/schedule.h"
#include "loops/unify.h"
#include "passes/passes.h"
#include "tests/graph/support_random_graph.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using testing::HasSubstr;

bool is_library_task(const OpDef& op) { return std::holds_alternative<LibraryTask>(op.loops); }

bool needs_library(const Graph& graph) {
  const Graph expanded = decompose(graph);
  return std::ranges::any_of(expanded.nodes(), [](const Node& node) { return is_library_task(*node.op); });
}

Result<std::vector<Tensor>> run_as_loops(const Graph& graph, const std::vector<Tensor>& inputs) {
  return capture([&] {
    const IR ir = lower(graph).value();
    const std::unique_ptr<Compiled> kernel = find_backend("interpreter").value()->compile(LoopTree(ir)).value();
    std::vector<Tensor> arguments = inputs;
    for (ValueRef value : kernel_inputs(graph)) {
      if (graph.leaf(value)->kind != LeafKind::kInput) arguments.push_back(graph.leaf(value)->data);
    }
    return run(*kernel, ir, arguments).value();
  });
}

// An op that computes each element by itself, in one step and in a dtype that arithmetic is done in, leaves no choice.
bool is_exact(const Sample& sample) {
  const bool one_step = std::holds_alternative<Elementwise>(sample.op->semantics.get());
  return one_step && std::ranges::all_of(sample.graph.leaves(), [&](const Leaf& leaf) {
           const DType dtype = sample.graph.type(leaf.value).dtype;
           return is_integral(dtype) || size_of(dtype) > 2;
         });
}

void expect_same(const Sample& sample, const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto expected = evaluate(graph, inputs);
  const auto actual = run_as_loops(graph, inputs);
  ASSERT_EQ(actual.ok(), expected.ok()) << (actual.ok() ? expected : actual).diagnostic().text();
  if (!expected.ok()) return;
  ASSERT_EQ(actual->size(), expected->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &a = (*actual)[i], &b = (*expected)[i];
    EXPECT_TRUE(is_exact(sample) ? test::same_bits_or_nan(a, b) : test::close(a, b)) << "result " << i;
  }
}

class LoweredOps : public testing::TestWithParam<const OpDef*> {
 protected:
  // Of the samples that can be a kernel.
  template <class Body>
  void for_each_sample(Body body) const {
    for (const Sample& sample : samples_of(*GetParam())) {
      SCOPED_TRACE(sample.name());
      if (!needs_library(sample.graph)) body(sample);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(LoweredOps, HasExactlyOneWay) {
  const OpDef& op = *GetParam();
  const bool elementwise = std::holds_alternative<Elementwise>(op.semantics.get());
  const bool has_loops = std::holds_alternative<LoopsFn>(op.loops);
  EXPECT_TRUE(op.is_composite() || elementwise || has_loops || is_library_task(op)) << "the record has no loops";
  EXPECT_FALSE(op.is_composite() && (has_loops || is_library_task(op))) << "a composite is expanded";
}

TEST_P(LoweredOps, SamplesAgreeWithTheReference) {
  for_each_sample([](const Sample& sample) { expect_same(sample, sample.graph, test::inputs_for(sample)); });
}

TEST_P(LoweredOps, SymbolicSizesAgree) {
  for (const int64_t least : {2, 0}) {
    for_each_sample([&](const Sample& sample) {
      const std::optional<Graph> symbolic = test::with_symbolic_sizes(sample, least);
      if (symbolic) expect_same(sample, *symbolic, test::inputs_for(sample));
    });
  }
}

std::vector<double> special_values(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  if (is_float(dtype)) return {0.0, -0.0, 1.0, -1.5, std::nan(""), HUGE_VAL, -HUGE_VAL};
  return {0, 1, static_cast<double>(wrap_to(dtype, -1)), dtype == DType::kU8 ? 255.0 : 127.0};
}

// Every third element is special.
Tensor with_special_values(Tensor tensor, test::Random& random) {
  const std::vector<double> values = special_values(tensor.dtype());
  for (int64_t i = 0; i < tensor.numel(); i += 3) {
    const double value = values[random() % values.size()];
    is_float(tensor.dtype()) ? tensor.set_real(i, value) : tensor.set_integer(i, static_cast<int64_t>(value));
  }
  return tensor;
}

TEST_P(LoweredOps, SpecialValuesAgree) {
  if (!GetParam()->special_values) GTEST_SKIP() << "the record leaves them open";
  for_each_sample([](const Sample& sample) {
    test::Random random(11);
    std::vector<Tensor> inputs = test::inputs_for(sample);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!sample.ranges[i]) inputs[i] = with_special_values(inputs[i], random);
    }
    expect_same(sample, sample.graph, inputs);
  });
}

// The same elements in the opposite order of dimensions in memory.
Tensor transposed_in_memory(const Tensor& tensor) {
  Sizes reversed(tensor.shape().rbegin(), tensor.shape().rend());
  const Tensor owner = Tensor::zeros(tensor.dtype(), reversed);
  const Sizes strides(owner.strides().rbegin(), owner.strides().rend());
  Tensor view = Tensor::borrow(tensor.dtype(), tensor.shape(), strides, owner.data(), owner.owner());
  view.copy_from(tensor);
  return view;
}

TEST_P(LoweredOps, InputsMayBeStrided) {
  for_each_sample([](const Sample& sample) {
    std::vector<Tensor> inputs = test::inputs_for(sample);
    for (Tensor& input : inputs) input = transposed_in_memory(input);
    expect_same(sample, sample.graph, inputs);
  });
}

std::string test_name(const testing::TestParamInfo<const OpDef*>& info) { return std::string(info.param->name.get()); }
INSTANTIATE_TEST_SUITE_P(Ops, LoweredOps, testing::ValuesIn(op_table().begin(), op_table().end()), test_name);

// ---- whole graphs ---------------------------------------------------------------------------------------------------

// Leaves that have no data get some; a symbol stands for 3.
Graph with_data(Graph graph, test::Random& random, std::vector<Tensor>& inputs) {
  const auto tensor_of = [&](TensorType type) {
    for (Expr& size : type.shape) size = substitute(size, {{Symbol("N"), 3}});
    return test::random_tensor(type, {}, {-3, 3}, random);
  };
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kInput) inputs.push_back(tensor_of(graph.type(leaf.value)));
    if (leaf.kind == LeafKind::kParameter || leaf.kind == LeafKind::kBuffer) {
      graph.bind(leaf.name, tensor_of(graph.type(leaf.value)));
    }
  }
  return graph;
}

TEST(LoweredGraphs, RandomOnesAgreeWithTheReference) {
  int compared = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    test::Random random(static_cast<uint64_t>(seed));
    std::vector<Tensor> inputs;
    Graph graph = with_data(test::random_graph(random, 1 + seed % 12), random, inputs);
    graph.clear_updates();
    const auto expected = evaluate(graph, inputs);
    if (needs_library(graph) || !expected.ok()) continue;
    const auto actual = run_as_loops(graph, inputs);
    ASSERT_TRUE(actual.ok()) << actual.diagnostic().text() << "\n" << to_string(graph);
    for (size_t i = 0; i < expected->size(); ++i) {
      EXPECT_TRUE(test::close((*actual)[i], (*expected)[i])) << "result " << i << "\n" << to_string(graph);
    }
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

}  // namespace
}  // namespace tenon
