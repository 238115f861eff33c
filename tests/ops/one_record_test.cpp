// An op is one record: these are known to no other file, and yet they evaluate, fuse, become loops and run on every
// backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "driver/pipeline.h"
#include "fusion/fuse.h"
#include "fusion/work.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "runtime/scalar_ops.h"
#include "tests/backends/support_cpp.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using namespace ops;

// ---- the records ----------------------------------------------------------------------------------------------------

const OpDef kEverySecond{
    .name = "every_second",
    .family = "view",
    .doc = "The elements 0, 2, 4, ... of the last dimension.",
    .operands = std::vector<OperandDef>{{"x"}},
    .infer = [](InferContext& c) -> Types {
      TensorType type = c.type(0);
      type.shape.back() = ceildiv(type.shape.back(), 2);
      return {type};
    },
    .semantics = reference([](ReferenceContext& c) {
      for_each_index(c.out().shape(), [&](const Sizes& index) {
        Sizes from = index;
        from.back() *= 2;
        copy_element(c.out(), c.out().offset(index), c.in(), c.in().offset(from));
      });
    }),
    .gradient = NotDifferentiable{},
    .loops =
        [](LoopContext& l) {
          LoopPiece piece = l.whole(l.in(), l.type(0).shape);
          LoopDims dims = l.in().dims;
          dims.back() = l.var(l.result().shape.back());
          piece.index.back() = 2 * l.at(dims.back());
          l.out(l.view(dims, piece));
        },
    .role = Role::kView,
    .peer = torch_is("x[..., ::2]"),
    .samples = Samples{"T[5]"},
};

const OpDef kSumOfSquares{
    .name = "sum_of_squares",
    .family = "reduction",
    .doc = "The sum of x * x over dimensions, in f32 or wider.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = reduction_attrs(),
    .infer = [](InferContext& c) -> Types { return reduced_to(c, wide(c.type(0).dtype)); },
    .semantics = reference([](ReferenceContext& c) {
      for_each_result(c.in(), c.dims("dims"), [&](int64_t result, const Offsets& offsets) {
        double sum = 0;
        for (int64_t offset : offsets) sum += c.in().real(offset) * c.in().real(offset);
        c.out().set_real(result, sum);
      });
    }),
    .gradient = NotDifferentiable{},
    .loops =
        [](LoopContext& l) {
          const LoopValue x = l.wide(l.in());
          l.out(l.fold("add", l.compute("mul", {x, x}), l.type(0).shape, l.dims("dims"), l.flag("keepdim")));
        },
    .role = Role::kFold,
    .peer = torch_is("(x * x).sum(dims)"),
    .samples = Samples{"T[5]"},
};

// The same expression for floats and integers, which wrap.
const OpDef kGap{
    .name = "gap",
    .family = "binary",
    .doc = "How far x and y are apart.",
    .operands = two_operands(kNumbers),
    .infer = elementwise_type,
    .semantics = promoting_elementwise([](ScalarTerm x, ScalarTerm y) { return where(x > y, x - y, y - x); }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("(x - y).abs()"),
    .samples = Samples{"T[5], T[5]"},
};

const OpDef kBend{
    .name = "bend",
    .family = "unary",
    .doc = "x / sqrt(1 + x * x), and 0 for what is no number.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise([](ScalarTerm narrow) {
      const ScalarTerm x = widen(narrow);
      return where((x > 0) ^ (x < 0), x / sqrt(x * x + 1), 0);
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("x * torch.rsqrt(1 + x * x)"),
    .samples = Samples{"T[5]"},
};

const OpDef kSteps{
    .name = "steps",
    .family = "binary",
    .doc = "How often y fits into x, and 1 for the rest.",
    .operands = two_operands(kIntegers),
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, nullptr,
                             [](ScalarTerm x, ScalarTerm y) { return trunc_div(x, y) + where(fmod(x, y) != 0, 1, 0); }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("x // y + (x % y != 0)"),
    .samples = Samples{"T[5], T[5]"},
};

// ---- graphs of them -------------------------------------------------------------------------------------------------

struct Model {
  Graph graph{"g"};

  ValueRef input(std::string_view name, TensorType type) { return graph.add_input(std::string(name), std::move(type)); }
  ValueRef add(const OpDef& op, std::vector<ValueRef> operands, NamedAttrs attrs = {}) {
    return graph.node(graph.add_node(op, std::move(operands), complete_attrs(op, std::move(attrs)))).results[0];
  }
  Graph finished(std::vector<ValueRef> outputs) {
    graph.set_outputs(std::move(outputs));
    return graph;
  }
};

// A view, elementwise ops and a fold of the last dimension: all in one pass.
Graph chain(DType dtype) {
  Model m;
  const ValueRef x = m.input("x", {dtype, {6, 37}}), y = m.input("y", {dtype, {6, 19}});
  const ValueRef gap = m.add(kGap, {m.add(kEverySecond, {x}), y});
  return m.finished({m.add(kSumOfSquares, {m.add(kBend, {gap})}, {{"dims", std::vector<int64_t>{1}}})});
}

Graph both(const OpDef& op, DType dtype) {
  Model m;
  const ValueRef x = m.input("x", {dtype, {41}}), y = m.input("y", {dtype, {41}});
  return m.finished({m.add(op, {x, y})});
}

class OneRecord : public testing::TestWithParam<const char*> {
 protected:
  const test::Environment no_cache_{"TENON_CACHE", "off"};  // A plan on disk names its ops, and these have no name.

  static void expect_agrees(const Graph& graph, Domain values) {
    test::Random random(7);
    std::vector<Tensor> inputs;
    for (ValueRef input : graph.inputs()) {
      inputs.push_back(test::random_tensor(graph.type(input), values, {}, random));
    }
    const Program program = compile_program(graph, {.backend = GetParam()}).value();
    ASSERT_EQ(program.tasks.size(), 1u);
    EXPECT_EQ(program.tasks[0].kind, TaskKind::kKernel);
    EXPECT_TRUE(test::close(program.run(inputs)[0], evaluate(graph, inputs).value()[0])) << to_string(graph);
  }
};

TEST_P(OneRecord, AViewAFoldAndElementwiseOpsAreOneKernel) {
  for (DType dtype : {DType::kF32, DType::kF16}) expect_agrees(chain(dtype), {-3, 3});
}

TEST_P(OneRecord, AnExpressionComputesInEveryDtype) {
  for (DType dtype : {DType::kF32, DType::kI64, DType::kI8, DType::kU8}) {
    expect_agrees(both(kGap, dtype), {dtype == DType::kU8 ? 0.0 : -100.0, 100});
  }
}

TEST_P(OneRecord, AnIntegerExpressionThatDividesRefusesZero) {
  const Graph graph = both(kSteps, DType::kI32);
  expect_agrees(graph, {1, 9});
  const Program program = compile_program(graph, {.backend = GetParam()}).value();
  const std::vector<Tensor> zeros(2, Tensor::zeros(DType::kI32, {41}));
  try {
    program.run(zeros);
    FAIL() << "it divided by zero";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("by zero"));
  }
  EXPECT_FALSE(evaluate(graph, zeros));
}

INSTANTIATE_TEST_SUITE_P(Backends, OneRecord, testing::Values("cpu", "cpp", "interpreter"),
                         [](const auto& info) { return std::string(info.param); });

// ---- what follows from the record -----------------------------------------------------------------------------------

TEST(OneRecord, NoOtherFileKnowsTheseOps) {
  for (const OpDef* op : {&kEverySecond, &kSumOfSquares, &kGap, &kBend, &kSteps}) {
    EXPECT_EQ(find_op(op->name), nullptr);
    EXPECT_EQ(runtime::find_scalar_op(op->name), nullptr);
  }
}

TEST(OneRecord, TheyFuse) {
  const Graph graph = chain(DType::kF32);
  const std::vector<FusedGroup> groups = fuse(graph);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].nodes.size(), 4u);
}

TEST(OneRecord, RoleAndCostFollow) {
  EXPECT_EQ(role_of(kGap), Role::kPointwise);
  EXPECT_EQ(cost_of(kGap), Cost::kOperation);
  EXPECT_EQ(cost_of(kBend), Cost::kFunction);
  EXPECT_EQ(cost_of(kSteps), Cost::kExpensive);
  EXPECT_EQ(cost_of(kEverySecond), Cost::kFree);
  const Graph graph = chain(DType::kF32);
  EXPECT_TRUE(only_moves(graph.nodes()[0]));
  EXPECT_TRUE(is_pointwise(graph.nodes()[1]));
}

TEST(OneRecord, AnExpressionHasOneType) {
  const auto mixed = [](ScalarTerm x, ScalarTerm y) { return widen(x) + y; };
  EXPECT_THROW(ScalarFn::make(mixed), InternalError);
  const auto divides_by_a_sum = [](ScalarTerm x, ScalarTerm y) { return trunc_div(x, y + 1); };
  EXPECT_THROW(ScalarFn::make(divides_by_a_sum).divides_by_operand(), InternalError);
}

// Exactly one table has these facts; a record that says nothing gets what follows from its semantics.
TEST(OneRecord, RolesOfTheTable) {
  EXPECT_EQ(role_of(op_named("add")), Role::kPointwise);
  EXPECT_EQ(role_of(op_named("sort")), Role::kLibrary);
  EXPECT_EQ(role_of(op_named("cumsum")), Role::kAlone);
  EXPECT_EQ(role_of(op_named("softmax")), Role::kRows);
  EXPECT_EQ(cost_of(op_named("lgamma")), Cost::kExpensive);
  EXPECT_EQ(cost_of(op_named("contract")), Cost::kProduct);
  EXPECT_EQ(cost_of(op_named("pad")), Cost::kFree);
}

TEST(OneRecord, FlopsOfProducts) {
  const Graph graph = parse_graph(R"(graph g(%a: f32[N, 3], %b: f32[3, 5], %x: f32[1, 4, 8, 8], %w: f32[6, 4, 3, 3]) {
  %p: f32[N, 5] = contract(%a, %b) {spec="ik,kj->ij"}
  %h: f32[1, 6, 6, 6] = conv(%x, %w, none)
  return %p, %h
}
)")
                          .value();
  const double product = work_of(graph, graph.nodes()[0], {{Symbol("N"), 7}});
  const double conv = work_of(graph, graph.nodes()[1], {});
  EXPECT_DOUBLE_EQ(conv / product, (2.0 * 6 * 6 * 6 * 4 * 3 * 3) / (2.0 * 7 * 3 * 5));
}

}  // namespace
}  // namespace tenon
