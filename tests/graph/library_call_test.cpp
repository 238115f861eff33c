// Each kernel of the runtime against the reference.
#include "graph/library_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/builder.h"
#include "graph/evaluate.h"
#include "runtime/thread_pool.h"
#include "tests/graph/support_values.h"

namespace tenon {
namespace {

using test::Random;
using ::testing::HasSubstr;

// A graph of one node, all of whose results are its outputs.
std::vector<Tensor> run_task(const Graph& graph, const std::vector<Tensor>& inputs) {
  const Node& node = graph.nodes()[0];
  std::vector<const TensorType*> types;
  for (ValueRef operand : node.operands) types.push_back(&graph.type(operand));
  std::vector<Tensor> outputs;
  for (ValueRef result : node.results) {
    const TensorType& type = graph.type(result);
    outputs.push_back(is_static(type.shape) ? Tensor::zeros(type.dtype, evaluate(type.shape, {})) : Tensor());
  }
  ReferenceContext context(*node.op, types, node.attrs, inputs, outputs);
  run_library_function(context);
  return std::move(context).take_outputs();
}

// Whose sums round in another order than the reference's.
bool is_product(const Graph& graph) { return graph.nodes()[0].op->family.get() == "matmul"; }

void expect_as_reference(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> expected = evaluate(graph, inputs).value();
  for (const int64_t threads : {1, 2, 3}) {
    const ThreadCount guard(threads);
    const std::vector<Tensor> actual = run_task(graph, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const bool may_round = is_product(graph) && threads == 1;
      EXPECT_TRUE(may_round ? test::close(actual[i], expected[i]) : test::same_bits_or_nan(actual[i], expected[i]))
          << "result " << i << " of " << to_string(graph);
    }
    expected = actual;  // several threads change nothing
  }
}

Graph graph_of(std::string_view op, const std::vector<TensorType>& operands, NamedAttrs attrs) {
  Graph graph("one");
  std::vector<Value> inputs;
  for (const TensorType& operand : operands) {
    inputs.emplace_back(graph, graph.add_input("x" + std::to_string(inputs.size()), operand));
  }
  Builder builder(graph);
  std::vector<ValueRef> outputs;
  for (const Value& result : builder.results(op, inputs, std::move(attrs))) outputs.push_back(result.ref());
  graph.set_outputs(std::move(outputs));
  return graph;
}

Graph graph_of(std::string_view op, const TensorType& operand, NamedAttrs attrs) {
  return graph_of(op, std::vector{operand}, std::move(attrs));
}

Shape shape_from(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

// Equal elements, both zeros, NaNs, infinities and extremes among others.
Tensor mixed(DType dtype, const Sizes& shape, Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0, -0.0, NAN, -NAN, kInf, -kInf, 1e-310, -1e-40, 1.0, 1.0};
  Tensor x = Tensor::zeros(dtype, shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const bool special = random() % 4 == 0;
    if (is_float(dtype) && special) {
      x.set_real(i, specials[random() % std::size(specials)]);
    } else if (is_float(dtype)) {
      x.set_real(i, std::normal_distribution<double>()(random));
    } else {
      x.set_integer(i, special ? static_cast<int64_t>(random() % 3) : static_cast<int64_t>(random()));
    }
  }
  return x;
}

TEST(LibraryTask, EveryOneIsLikeTheReference) {
  int64_t found = 0;
  for (const OpDef* op : op_table()) {
    // PyTorch and devices call no library function.
    const bool is_required = std::holds_alternative<LibraryTask>(op->loops) && op->family.get() != "external";
    EXPECT_TRUE(!is_required || has_library_function(*op)) << op->name.get() << " has no kernel";
    if (!has_library_function(*op)) continue;
    ++found;
    for (const Sample& sample : samples_of(*op)) expect_as_reference(sample.graph, test::inputs_for(sample));
  }
  EXPECT_EQ(found, 23);
}

// ---- order ----------------------------------------------------------------------------------------------------------

class LibraryOrder : public ::testing::TestWithParam<DType> {};

TEST_P(LibraryOrder, OfEveryShapeAndDimension) {
  Random random(1);
  for (const Sizes& shape :
       {Sizes{}, {1}, {0}, {7}, {3, 0, 2}, {1, 1, 5}, {2, 3, 4}, {300}, {3, 200}, {250, 2}, {2, 500, 3}, {1000, 1}}) {
    const TensorType type{GetParam(), shape_from(shape)};
    for (int64_t dim = 0; dim < std::max<int64_t>(1, std::ssize(shape)); ++dim) {
      const Tensor x = mixed(GetParam(), shape, random);
      const int64_t length = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
      for (const bool down : {false, true}) {
        expect_as_reference(graph_of("sort", type, {{"dim", dim}, {"descending", down}}), {x});
        expect_as_reference(graph_of("argsort", type, {{"dim", dim}, {"descending", down}}), {x});
        for (const int64_t k : {int64_t{1}, length / 3, length}) {
          if (k > length || (shape.empty() && k == 0)) continue;
          expect_as_reference(graph_of("topk", type, {{"k", Expr(k)}, {"dim", dim}, {"largest", down}}), {x});
          if (k == 0 || down) continue;
          expect_as_reference(graph_of("kthvalue", type, {{"k", Expr(k)}, {"dim", dim}}), {x});
        }
      }
    }
  }
}

// Several threads share a line.
TEST_P(LibraryOrder, OfLongLines) {
  Random random(2);
  const TensorType type{GetParam(), {70001}};
  const Tensor x = mixed(GetParam(), {70001}, random);
  for (const bool down : {false, true}) {
    expect_as_reference(graph_of("sort", type, {{"descending", down}}), {x});
    expect_as_reference(graph_of("topk", type, {{"k", Expr(40)}, {"largest", down}}), {x});
  }
  expect_as_reference(graph_of("kthvalue", type, {{"k", Expr(3000)}}), {x});
  expect_as_reference(graph_of("topk", type, {{"k", Expr(60000)}}), {x});
}

// Keys of 64 bits that differ after their first 32 differing ones alone: in few neighbours, then in many.
TEST(LibraryTask, OrdersKeysThatBeginAlike) {
  Random random(6);
  for (const uint64_t distinct : {20000u, 50u}) {
    Tensor x = Tensor::zeros(DType::kI64, {70001});
    for (int64_t i = 0; i < x.numel(); ++i) {
      const uint64_t high = random() % distinct, low = random() % 3;
      x.set_integer(i, static_cast<int64_t>(high << 48 | low));
    }
    for (const bool down : {false, true}) {
      expect_as_reference(graph_of("argsort", type_of(x), {{"descending", down}}), {x});
    }
  }
}

// What selection keeps changes with every block.
TEST_P(LibraryOrder, OfLinesInOrder) {
  Tensor x = Tensor::zeros(GetParam(), {2, 3000});
  for (int64_t i = 0; i < 3000; ++i) {
    x.set_integer(i, i / 24);
    x.set_integer(3000 + i, (2999 - i) / 24);
  }
  for (const bool largest : {false, true}) {
    expect_as_reference(graph_of("topk", type_of(x), {{"k", Expr(10)}, {"largest", largest}}), {x});
    expect_as_reference(graph_of("topk", type_of(x), {{"k", Expr(500)}, {"largest", largest}}), {x});
  }
}

TEST_P(LibraryOrder, OfNonzeros) {
  Random random(3);
  for (const Sizes& shape :
       {Sizes{}, {1}, {0}, {300}, {3, 0, 2}, {1, 1, 5}, {7, 3, 41}, {500, 2}, {2, 20000}, {70, 300, 1}}) {
    const Tensor x = mixed(GetParam(), shape, random);
    expect_as_reference(graph_of("nonzero", type_of(x), {{"count", Expr(Symbol("K"))}}), {x});
    const Tensor zeros = Tensor::zeros(GetParam(), shape);
    expect_as_reference(graph_of("nonzero", type_of(x), {{"count", Expr(Symbol("K"))}}), {zeros});
  }
}

TEST_P(LibraryOrder, OfSearches) {
  if (GetParam() == DType::kBool) return;  // no numbers
  Random random(7);
  for (const auto& [lines, length, values] : {std::tuple<int64_t, int64_t, int64_t>{1, 5000, 3000}, {7, 33, 9}}) {
    Tensor sequence = mixed(GetParam(), {lines, length}, random);
    const Tensor sought = mixed(GetParam(), {lines, values}, random);
    const std::vector types = {type_of(sequence), type_of(sought)};
    const Graph sort = graph_of("sort", types[0], {});
    for (const bool right : {false, true}) {
      expect_as_reference(graph_of("searchsorted", types, {{"right", right}}), {sequence, sought});  // not in order
      expect_as_reference(graph_of("searchsorted", types, {{"right", right}}),
                          {evaluate(sort, std::vector{sequence}).value()[0], sought});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LibraryOrder, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(LibraryTask, ReadsThroughStrides) {
  Random random(4);
  const Tensor x = mixed(DType::kF32, {20, 30}, random);
  const Tensor turned = Tensor::borrow(DType::kF32, {30, 20}, {1, 30}, x.data(), x.owner());
  expect_as_reference(graph_of("sort", type_of(turned), {{"dim", int64_t{0}}}), {turned});
  expect_as_reference(graph_of("nonzero", type_of(turned), {{"count", Expr(Symbol("K"))}}), {turned});
}

TEST(LibraryTask, AnotherCountOfNonzerosIsAnError) {
  Tensor x = Tensor::zeros(DType::kF32, {5});
  x.set_real(2, 1.5);
  const Graph graph = graph_of("nonzero", type_of(x), {{"count", Expr(2)}});
  const auto result = attempt([&] { return run_task(graph, {x}); });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.diagnostic().message, HasSubstr("1 elements are not zero, where 2 are expected"));
  EXPECT_EQ(result.diagnostic().message, evaluate(graph, std::vector{x}).diagnostic().message);
}

// ---- products by groups ---------------------------------------------------------------------------------------------

class LibraryGrouped : public ::testing::TestWithParam<DType> {};

// More than a tile, a panel and a block of the depth; groups without rows; rows without a group.
TEST_P(LibraryGrouped, ProductsOfManyShapes) {
  Random random(8);
  const auto random_of = [&](Shape shape) {
    return test::random_tensor({GetParam(), std::move(shape)}, {}, {-1, 1}, random);
  };
  for (const auto& [rows, left, right] :
       {std::tuple<int64_t, int64_t, int64_t>{800, 5, 3}, {50, 300, 70}, {1, 130, 33}, {13, 64, 32}}) {
    const Tensor x = random_of({rows, left}), y = random_of({rows, right});
    Tensor offsets = Tensor::zeros(DType::kI32, {4});
    for (const auto& [i, offset] : {std::pair<int64_t, int64_t>{1, rows / 9}, {2, rows / 9}, {3, rows - rows / 4}}) {
      offsets.set_integer(i, offset);
    }
    const auto types = [](const Tensor& a, const Tensor& b, const Tensor& c) {
      return std::vector{type_of(a), type_of(b), type_of(c)};
    };
    for (const bool transposed : {false, true}) {
      const Tensor w = random_of({4, transposed ? right : left, transposed ? left : right});
      expect_as_reference(graph_of("grouped_matmul", types(x, w, offsets), {{"transposed", transposed}}),
                          {x, w, offsets});
    }
    expect_as_reference(graph_of("grouped_outer", types(x, y, offsets), {}), {x, y, offsets});
  }
}

// Infinities, NaN and what is denormal in f16, from element to sum to element.
TEST_P(LibraryGrouped, SpecialElementsStay) {
  Random random(9);
  const Tensor x = mixed(GetParam(), {40, 1}, random);
  Tensor one = Tensor::zeros(GetParam(), {1, 1, 33}), offsets = Tensor::zeros(DType::kI64, {1});
  for (int64_t i = 0; i < one.numel(); ++i) one.set_real(i, 1);
  offsets.set_integer(0, 40);
  const std::vector types = {type_of(x), type_of(one), type_of(offsets)};
  const Tensor out = run_task(graph_of("grouped_matmul", types, {}), {x, one, offsets})[0];
  for (int64_t row = 0; row < 40; ++row) {
    for (const int64_t column : {0, 32}) {
      const double expected = x.real(row), actual = out.real(out.offset(Sizes{row, column}));
      EXPECT_TRUE(expected == actual || (std::isnan(expected) && std::isnan(actual))) << expected << " " << actual;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LibraryGrouped, ::testing::Values(DType::kF64, DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- random ---------------------------------------------------------------------------------------------------------

TEST(LibraryRandom, OfAnyKeyAndSize) {
  const TensorType key_type{DType::kI64, {2}};
  Random random(5);
  for (const int64_t size : {0, 1, 3, 4, 63, 64, 65, 1023, 1025, 20001}) {
    Tensor key = Tensor::zeros(DType::kI64, {2});
    key.set_integer(0, static_cast<int64_t>(random()));
    key.set_integer(1, size == 1025 ? -3 : static_cast<int64_t>(random()));  // the counter wraps
    const std::vector<Expr> shape = {size};
    expect_as_reference(graph_of("philox", key_type, {{"shape", shape}}), {key});
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      expect_as_reference(graph_of("uniform", key_type, {{"shape", shape}, {"dtype", dtype}}), {key});
    }
    for (const DType dtype : {DType::kI64, DType::kI16, DType::kBF16}) {
      const NamedAttrs attrs = {{"low", Expr(-70)}, {"high", Expr(1000)}, {"shape", shape}, {"dtype", dtype}};
      expect_as_reference(graph_of("randint", key_type, attrs), {key});
    }
    const NamedAttrs wide = {{"low", Expr(-(int64_t{1} << 61))}, {"high", Expr(int64_t{1} << 61)}, {"shape", shape}};
    expect_as_reference(graph_of("randint", key_type, wide), {key});
    expect_as_reference(graph_of("randint", key_type, {{"high", Expr(64)}, {"shape", shape}}), {key});
    expect_as_reference(graph_of("randperm", key_type, {{"n", Expr(size)}}), {key});
  }
}

}  // namespace
}  // namespace tenon
