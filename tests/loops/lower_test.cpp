// Every op of the table, lowered to loops and interpreted, against the reference.
#include "loops/lower.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/differentiate.h"
#include "backends/backend.h"
#include "graph/builder.h"
#include "graph/evaluate.h"
#include "loops/loop_tree.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_lowered.h"
#include "tests/support_cpu_time.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using testing::HasSubstr;

bool is_library_task(const OpDef& op) { return std::holds_alternative<LibraryTask>(op.loops); }

Result<std::vector<Tensor>> run_as_loops(const Graph& graph, const std::vector<Tensor>& inputs) {
  return attempt([&] {
    const IR ir = lower(graph).value();
    const std::unique_ptr<Compiled> kernel = find_backend("interpreter").value()->compile(LoopTree(ir)).value();
    return run(*kernel, ir, test::kernel_arguments(graph, inputs)).value();
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
      if (!test::needs_library(sample.graph)) body(sample);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(LoweredOps, HasExactlyOneWay) {
  const OpDef& op = *GetParam();
  const bool elementwise = std::holds_alternative<Elementwise>(op.semantics.get());
  const bool has_loops = std::holds_alternative<LoopsFn>(op.loops);
  EXPECT_TRUE(op.is_composite() || elementwise || has_loops || is_library_task(op)) << "the record has no loops";
  EXPECT_FALSE(op.is_composite() && is_library_task(op))
      << "a composite is loops, its own or those of what it expands to";
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

TEST(LoweredGraphs, RandomOnesAgreeWithTheReference) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const std::optional<test::LoweredGraph> lowered = test::random_lowered(seed);
    if (!lowered) continue;
    const auto kernel = find_backend("interpreter").value()->compile(LoopTree(lowered->ir)).value();
    const auto actual = run(*kernel, lowered->ir, lowered->arguments, lowered->sizes);
    ASSERT_TRUE(actual.ok()) << actual.diagnostic().text() << "\n" << to_string(lowered->graph);
    for (size_t i = 0; i < actual->size(); ++i) {
      EXPECT_TRUE(test::close((*actual)[i], lowered->expected[i])) << "result " << i << "\n"
                                                                   << to_string(lowered->graph);
    }
    ++compared;
  }
  EXPECT_GT(compared, 150);
}

// Gradients combine ops in ways that nobody wrote down.
TEST_P(LoweredOps, GradientsAgreeWithTheReference) {
  if (std::holds_alternative<NotDifferentiable>(GetParam()->gradient.get())) GTEST_SKIP() << "it has none";
  for_each_sample([](const Sample& sample) {
    std::vector<ValueRef> wrt;
    for (ValueRef input : sample.graph.inputs()) {
      if (sample.graph.type(input).dtype == DType::kF64) wrt.push_back(input);
    }
    if (wrt.empty()) return;
    const Graph gradients = differentiate(sample.graph, wrt).value();
    if (test::needs_library(gradients)) return;
    std::vector<Tensor> inputs = test::inputs_for(sample);
    test::Random random(5);
    for (size_t i = inputs.size(); i < gradients.inputs().size(); ++i) {
      inputs.push_back(test::random_tensor(gradients.type(gradients.inputs()[i]), {}, {-1, 1}, random));
    }
    const auto expected = evaluate(gradients, inputs);
    const auto actual = run_as_loops(gradients, inputs);
    ASSERT_TRUE(expected.ok() && actual.ok()) << (expected.ok() ? actual : expected).diagnostic().text();
    for (size_t i = 0; i < expected->size(); ++i)
      EXPECT_TRUE(test::close((*actual)[i], (*expected)[i])) << "input " << i;
  });
}

// ---- what kernels look like -----------------------------------------------------------------------------------------

IR lowered(std::string_view text) { return lower(parse_graph(text).value()).value(); }

template <class Action>
int64_t count_of(const IR& ir) {
  return std::ranges::count_if(ir.nodes(), [](const loops::Node& node) { return node.as<Action>() != nullptr; });
}

TEST(Lowered, SoftmaxIsThreeLoopsInOne) {
  const IR ir = lowered(R"(graph softmax(%x: f32[4, N]) {
    %y: f32[4, N] = softmax(%x) {dim=-1}
    return %y
  })");
  EXPECT_EQ(LoopTree(ir).dump(), R"(for i in 4
  for j in N
    %1: f32[i] = reduce maximum(%x)
  for j in N
    %2: f32[i, j] = sub(%x, %1)
    %3: f32[i, j] = exp(%2)
    %4: f32[i] = reduce add(%3)
  for j in N
    %y: f32[i, j] = div(%3, %4)
    %6: f32[i, j] = write 0 (%y)
)");
}

TEST(Lowered, OperandsShareVariables) {
  const IR ir = lowered(R"(graph g(%x: f32[4, N], %y: f32[4, N], %b: f32[N]) {
    %s: f32[4, N] = add(%x, %y)
    %z: f32[4, N] = mul(%s, %b)
    return %z
  })");
  EXPECT_EQ(ir.vars().size(), 2u);
  EXPECT_EQ(count_of<loops::View>(ir), 0);
  EXPECT_EQ(LoopTree(ir).roots().size(), 1u);
}

TEST(Lowered, ATransposedOperandIsAView) {
  const IR ir = lowered(R"(graph g(%x: f32[N, N]) {
    %t: f32[N, N] = permute(%x) {dims=[1, 0]}
    %z: f32[N, N] = add(%x, %t)
    return %z
  })");
  EXPECT_EQ(count_of<loops::View>(ir), 1);
  EXPECT_THAT(to_string(ir), HasSubstr("view %x[j, i]"));
}

TEST(Lowered, ATransposedResultIsNone) {
  const IR ir = lowered(R"(graph g(%x: f32[3, N]) {
    %e: f32[3, N] = exp(%x)
    %t: f32[N, 3] = permute(%e) {dims=[1, 0]}
    return %t
  })");
  EXPECT_EQ(count_of<loops::View>(ir), 0);
  EXPECT_EQ(ir.type(ir.writes()[0]), (TensorType{DType::kF32, {Symbol("N"), 3}}));
}

TEST(Lowered, LinearIsOneProductAndOneSum) {
  const IR ir = lowered(R"(graph g(%x: f32[N, 8], %w: f32[5, 8], %b: f32[5]) {
    %y: f32[N, 5] = linear(%x, %w, %b)
    return %y
  })");
  EXPECT_EQ(LoopTree(ir).dump(), R"(for i in N
  for k in 5
    for j in 8
      %3: f32[i, k, j] = mul(%x, %w)
      %4: f32[i, k] = reduce add(%3)
    %y: f32[i, k] = add(%4, %b)
    %6: f32[i, k] = write 0 (%y)
)");
}

// Padding, windows and the batch of one are one view of the input, in the loops of the maximum.
TEST(Lowered, ViewsOfViewsAreOne) {
  const IR ir = lowered(R"(graph g(%x: f32[1, 4, 8]) {
    %y: f32[1, 4, 4], %at: i64[1, 4, 4] = max_pool(%x) {kernel=[3], stride=[2], padding=[1]}
    return %y
  })");
  EXPECT_EQ(count_of<loops::View>(ir), 1);
  EXPECT_THAT(to_string(ir), HasSubstr("view %x[0, "));
  EXPECT_EQ(LoopTree(ir).roots().size(), 1u);
}

TEST(Lowered, ConvolutionKeepsNoWindows) {
  const IR ir = lowered(R"(graph g(%x: f32[N, 2, 8, 8], %w: f32[4, 2, 3, 3]) {
    %c: f32[N, 4, 8, 8] = conv(%x, %w, none) {padding=[1]}
    %y: f32[N, 4, 8, 8] = relu(%c)
    return %y
  })");
  const LoopTree tree(ir);
  EXPECT_EQ(tree.roots().size(), 1u);
  ASSERT_EQ(count_of<loops::View>(ir), 1);
  for (loops::NodeRef ref : ir.node_refs()) {
    if (ir.node(ref).as<loops::View>()) {
      EXPECT_EQ(tree.parent(tree.find(ref)), tree.parent(tree.find(ir.consumers(ref)[0])));
    }
  }
}

TEST(Lowered, FlatteningNeedsNoGuard) {
  const IR ir = lowered(R"(graph g(%x: f32[A, B]) {
    symbol A in [1, 64]
    symbol B in [1, 64]
    %y: f32[A*B] = reshape(%x) {shape=[A*B]}
    return %y
  })");
  EXPECT_THAT(to_string(ir), HasSubstr("view %x[k // B, k % B] for k"));
}

TEST(Lowered, WhatNobodyReadsIsGone) {
  const IR ir = lowered(R"(graph g(%x: f32[5], %unused: f32[2]) {
    %y: f32[5], %at: i64[5] = cummax(%x) {dim=0}
    return %y
  })");
  EXPECT_EQ(count_of<loops::Scan>(ir), 1);
  EXPECT_EQ(ir.reads().size(), 2u);
}

TEST(Lowered, NamesKeepClearOfSizes) {
  const IR ir = lowered(R"(graph g(%x: f32[i, j]) {
    %k: f32[i, j] = exp(%x)
    return %k
  })");
  EXPECT_EQ(ir.vars()[0].name, "k");
  EXPECT_EQ(ir.type(ir.writes()[0]), (TensorType{DType::kF32, {Symbol("i"), Symbol("j")}}));
}

TEST(Lowered, FortyNodesAreOneNestInTime) {
  Graph graph("chain");
  Builder b(graph);
  const TensorType type{DType::kF32, {Symbol("N"), 128}};
  Value x = b.value(graph.add_input("x", type));
  const Value y = b.value(graph.add_input("y", type));
  for (int i = 0; i < 8; ++i) {
    x = b.exp(x * y + 0.5);
    x = x - b.amax(x, {1}, true);
  }
  graph.set_outputs({x.ref()});
  ASSERT_EQ(graph.nodes().size(), 40u);
  double best = HUGE_VAL;
  for (int i = 0; i < 5; ++i) {
    const double before = test::cpu_seconds();
    const IR ir = lower(graph).value();
    best = std::min(best, 1e3 * (test::cpu_seconds() - before));
    const LoopTree tree(ir);
    EXPECT_EQ(tree.roots().size(), 1u);
    EXPECT_EQ(count_of<loops::View>(ir), 0);
  }
  RecordProperty("milliseconds", std::to_string(best));
#ifdef NDEBUG
  EXPECT_LT(best, 2);
#endif
}

// ---- what goes in and out -------------------------------------------------------------------------------------------

TEST(Lowered, InputsThenOtherLeaves) {
  Graph graph;
  Builder b(graph);
  const Tensor table = test::random_tensor({DType::kF32, {3}}, {}, {}, *std::make_unique<test::Random>(1));
  const Value weight = b.value(graph.add_parameter("w", {DType::kF32, {3}}, table));
  const Value x = b.value(graph.add_input("x", {DType::kF32, {3}}));
  Tensor ones = Tensor::zeros(DType::kF32, {3});
  for (int64_t i = 0; i < 3; ++i) ones.set_real(i, 1);
  const Value varied = b.constant(table.copy());
  graph.set_outputs({(x * weight + b.constant(ones) - varied).ref()});
  EXPECT_EQ(kernel_inputs(graph), (std::vector<ValueRef>{x.ref(), weight.ref(), varied.ref()}));
  const std::vector<Tensor> inputs = {table};
  EXPECT_TRUE(test::close(run_as_loops(graph, inputs).value()[0], evaluate(graph, inputs).value()[0]));
}

TEST(Lowered, UpdatesAreWrittenAfterTheOutputs) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {3}}));
  const Value state = b.value(graph.add_buffer("state", {DType::kF32, {3}}, Tensor::zeros(DType::kF32, {3})));
  graph.set_outputs({b.sum(x).ref()});
  graph.add_update(state.ref(), (state + x).ref());
  const IR ir = lower(graph).value();
  ASSERT_EQ(ir.writes().size(), 2u);
  EXPECT_EQ(ir.type(ir.writes()[0]), (TensorType{DType::kF32, {}}));
  EXPECT_EQ(ir.type(ir.writes()[1]), (TensorType{DType::kF32, {3}}));
}

// The only mention of N is a number in the kernel: its caller says what it is.
TEST(Lowered, ASizeThatIsOnlyANumber) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kI64, {2}}));
  graph.set_outputs({(x + b.full(2 * Expr(Symbol("N")), {}, DType::kI64)).ref()});
  const IR ir = lower(graph).value();
  const std::unique_ptr<Compiled> kernel = find_backend("interpreter").value()->compile(LoopTree(ir)).value();
  const std::vector<Tensor> outputs =
      run(*kernel, ir, std::vector{Tensor::zeros(DType::kI64, {2})}, {{Symbol("N"), 21}}).value();
  EXPECT_EQ(test::values_of(outputs[0]), (std::vector<double>{42, 42}));
}

// ---- exactness ------------------------------------------------------------------------------------------------------

TEST(Lowered, SumsOfHalvesAreWide) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF16, {4000}}));
  graph.set_outputs({b.sum(x).ref()});
  Tensor ones = Tensor::zeros(DType::kF16, {4000});
  for (int64_t i = 0; i < 4000; ++i) ones.set_real(i, 1);
  EXPECT_EQ(run_as_loops(graph, {ones}).value()[0].real(0), 4000);  // f16 itself stops counting at 2048
}

TEST(Lowered, OfRepeatedIndicesTheLastIsKept) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kI64, {4}}));
  const Value rows = b.value(graph.add_input("rows", {DType::kI64, {3, 1}}));
  const Value values = b.value(graph.add_input("values", {DType::kI64, {3, 2}}));
  const Value index = rows + b.iota(2) * 0;
  const Value columns = b.permute(values, {1, 0});
  graph.set_outputs({b.op("index_put", {x, values, index}).ref(),
                     b.op("index_put", {x, b.permute(columns, {1, 0}), index}).ref(),
                     b.op("index_put", {x, b.iota(2), index}).ref()});
  Tensor indices = Tensor::zeros(DType::kI64, {3, 1});
  indices.set_integer(2, 3);
  Tensor numbers = Tensor::zeros(DType::kI64, {3, 2});
  for (int64_t i = 0; i < 6; ++i) numbers.set_integer(i, i + 1);
  const std::vector<Tensor> inputs = {Tensor::zeros(DType::kI64, {4}), indices, numbers};
  const std::vector<Tensor> actual = run_as_loops(graph, inputs).value();
  EXPECT_EQ(test::values_of(actual[0]), (std::vector<double>{4, 0, 0, 6}));
  EXPECT_EQ(test::values_of(actual[1]), (std::vector<double>{4, 0, 0, 6}));
  EXPECT_EQ(test::values_of(actual[2]), (std::vector<double>{1, 0, 0, 1}));
}

TEST(Lowered, ASumOfOneElementStartsAtZero) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {1, 2}}));
  graph.set_outputs({b.sum(x, {0}).ref(), b.op("cumsum", {x}, {{"dim", int64_t{0}}}).ref()});
  Tensor zeros = Tensor::zeros(DType::kF32, {1, 2});
  zeros.set_real(0, -0.0);
  const std::vector<Tensor> sums = run_as_loops(graph, {zeros}).value();
  for (const Tensor& sum : sums) EXPECT_FALSE(std::signbit(sum.real(0)));
}

// What has no elements fails for none, also where it is the same number all along.
TEST(Lowered, NothingIsComputedForNoElements) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {3}}));
  const Value like = b.value(graph.add_input("like", {DType::kF32, {Symbol("N")}}));
  const Value none = b.expand(b.integer(0), {0});
  graph.set_outputs({b.op("index", {x, b.expand(b.integer(7), like.shape())}).ref(),
                     b.op("floor_div", {none, none}).ref(), b.op("index", {x, b.expand(b.integer(7), {0})}).ref()});
  const auto run_with = [&](int64_t size) {
    return run_as_loops(graph, {Tensor::zeros(DType::kF32, {3}), Tensor::zeros(DType::kF32, {size})});
  };
  EXPECT_TRUE(run_with(0).ok()) << run_with(0).diagnostic().text();
  EXPECT_FALSE(run_with(1).ok());
  const IR ir = lower(graph).value();
  for (const loops::Node& node : ir.nodes()) {  // whatever the schedule
    if (node.as<loops::View>()) EXPECT_EQ(node.vars.size(), 1u) << node.name;
  }
}

// What is written depends on the elements that are overwritten: their variables are apart.
TEST(Lowered, AScatterOfItself) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kI64, {4}}));
  const Value reversed = b.integer(3) - b.iota(4);
  graph.set_outputs({b.op("index_put", {x, x * 10, reversed}).ref(),
                     b.op("index_put", {x, x, x}, {{"reduce", std::string("add")}}).ref()});
  Tensor numbers = Tensor::zeros(DType::kI64, {4});
  for (int64_t i = 0; i < 4; ++i) numbers.set_integer(i, i);
  const std::vector<Tensor> actual = run_as_loops(graph, {numbers}).value();
  EXPECT_EQ(test::values_of(actual[0]), (std::vector<double>{30, 20, 10, 0}));
  EXPECT_EQ(test::values_of(actual[1]), (std::vector<double>{0, 2, 4, 6}));
}

TEST(Lowered, EveryRepetitionOfAStretchedValueCounts) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {1, 3}}));
  const Value stretched = b.expand(x, {5, 3});
  const Value zero = b.expand(b.integer(0), {7});
  graph.set_outputs({b.sum(stretched, {0}).ref(), b.op("prod", {stretched}, {{"dims", std::vector<int64_t>{0}}}).ref(),
                     b.op("cumsum", {stretched}, {{"dim", int64_t{0}}}).ref(),
                     b.contract(stretched, stretched, "ij,ij->j").ref(),
                     b.op("index_put", {b.full(0.0, {2}, DType::kF32), b.scalar(1, DType::kF32), zero},
                          {{"reduce", std::string("add")}})
                         .ref()});
  Tensor numbers = Tensor::zeros(DType::kF32, {1, 3});
  for (int64_t i = 0; i < 3; ++i) numbers.set_real(i, static_cast<double>(i + 1));
  const auto expected = evaluate(graph, std::vector{numbers}).value();
  const auto actual = run_as_loops(graph, {numbers}).value();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(test::same_bits_or_nan(actual[i], expected[i])) << i;
}

TEST(Lowered, TheSameVariableInTwoDimensions) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {4}}));
  const Value table = b.unsqueeze(x, 1) - x;  // x[i] - x[j]
  graph.set_outputs({table.ref(), (table + b.transpose(table, 0, 1)).ref(), b.sum(table * x, {1}).ref()});
  Tensor numbers = Tensor::zeros(DType::kF32, {4});
  for (int64_t i = 0; i < 4; ++i) numbers.set_real(i, static_cast<double>(i * i));
  const auto expected = evaluate(graph, std::vector{numbers}).value();
  const auto actual = run_as_loops(graph, {numbers}).value();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(test::same_bits_or_nan(actual[i], expected[i])) << i;
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(LoweredErrors, ALibraryTaskIsNoLoop) {
  for (const char* op : {"sort(%x)", "topk(%x) {k=2}"}) {
    const std::string text =
        fmt::format("graph g(%x: f32[5]) {{\n  %v: f32[{0}], %i: i64[{0}] = {1} @ \"model.py\":7\n  return %v\n}}",
                    std::string_view(op).starts_with("sort") ? 5 : 2, op);
    const Result<IR> ir = lower(parse_graph(text).value());
    ASSERT_FALSE(ir.ok());
    EXPECT_EQ(ir.diagnostic().text(), "model.py:7: error: sort is a library task: it cannot be part of a kernel");
  }
}

TEST(LoweredErrors, AnIndexOutOfRange) {
  Graph graph;
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {Symbol("N")}}));
  const Value at = b.value(graph.add_input("at", {DType::kI64, {2}}));
  graph.set_outputs({b.op("index", {x, at}).ref(), b.op("index_put", {x, b.scalar(1, DType::kF32), at}).ref()});
  Tensor indices = Tensor::zeros(DType::kI64, {2});
  for (const auto& [index, works] : {std::pair(2, true), {-3, true}, {3, false}, {-4, false}}) {
    indices.set_integer(1, index);
    EXPECT_EQ(run_as_loops(graph, {Tensor::zeros(DType::kF32, {3}), indices}).ok(), works) << index;
  }
}

TEST(LoweredErrors, AnExtremeOfNothing) {
  for (const char* op : {"amax", "amin", "argmax", "argmin"}) {
    Graph graph;
    Builder b(graph);
    const Value x = b.value(graph.add_input("x", {DType::kF32, {2, Symbol("N")}}));
    const bool search = std::string_view(op).starts_with("arg");
    const NamedAttrs attrs = search ? NamedAttrs{{"dim", int64_t{1}}} : NamedAttrs{{"dims", std::vector<int64_t>{1}}};
    graph.set_outputs({b.op(op, {x}, attrs).ref()});
    EXPECT_TRUE(run_as_loops(graph, {Tensor::zeros(DType::kF32, {2, 3})}).ok()) << op;
    EXPECT_FALSE(run_as_loops(graph, {Tensor::zeros(DType::kF32, {2, 0})}).ok()) << op;
  }
}

}  // namespace
}  // namespace tenon
