#include "capture/traced_memory.h"

#include <gtest/gtest.h>

#include "graph/text.h"

namespace tenon {
namespace {

const Expr n = Symbol("n"), m = Symbol("m");

TEST(TracedMemory, CountsPlaces) {
  EXPECT_TRUE(counts_places("aten.as_strided.default"));
  EXPECT_TRUE(counts_places("aten.as_strided_scatter.default"));
  EXPECT_FALSE(counts_places("aten.view.default"));
}

bool lies_in_order(Shape sizes, std::vector<Expr> strides, Expr offset) {
  return tenon::lies_in_order({.sizes = std::move(sizes), .strides = std::move(strides), .offset = std::move(offset)});
}

TEST(TracedMemory, LiesInOrder) {
  EXPECT_TRUE(lies_in_order({4, 6}, {6, 1}, 0));
  EXPECT_TRUE(lies_in_order({4, 1, 6}, {6, 99, 1}, 0));
  EXPECT_TRUE(lies_in_order({n, m, 2}, {2 * m, 2, 1}, 0));
  EXPECT_TRUE(lies_in_order({}, {}, 0));
  const Expr some = floordiv(n, 4);  // perhaps 0
  EXPECT_TRUE(lies_in_order({n, some, m}, {max(1, some) * m, m, 1}, 0));
  EXPECT_TRUE(lies_in_order({n, some, some}, {max(1, some) * max(1, some), max(1, some), 1}, 0));
}

TEST(TracedMemory, LiesInAnotherOrder) {
  EXPECT_FALSE(lies_in_order({6, 4}, {1, 6}, 0));
  EXPECT_FALSE(lies_in_order({4, 6}, {6, 1}, 2));   // begins later
  EXPECT_FALSE(lies_in_order({4, 6}, {12, 1}, 0));  // has gaps
  EXPECT_FALSE(lies_in_order({4, 6}, {0, 1}, 0));   // overlaps
  EXPECT_FALSE(lies_in_order({n, m}, {n, 1}, 0));
  EXPECT_FALSE(lies_in_order({n, m}, {}, 0));  // not known
}

// as_strided of a tensor that PyTorch has so in memory, in the graph's text. The operands of the calls that gave it
// follow; the last one is the input x.
std::string strided(std::vector<TracedTensor> operands, const Shape& size, const std::vector<Expr>& stride,
                    const AtenArg& offset = {}, const std::string& target = "aten.as_strided.default") {
  Importer importer;
  for (const Expr& symbol : {n, m}) importer.graph().declare_symbol(symbol.symbol(), {2, 1 << 20});
  operands.back().tensor = importer.input("x", {DType::kF32, operands.back().sizes});
  std::vector<AtenArg> arguments = {operands.back().tensor};
  if (target.find("scatter") != target.npos) arguments.push_back(importer.input("y", {DType::kF32, size}));
  arguments.insert(arguments.end(),
                   {AtenArg::List(size.begin(), size.end()), AtenArg::List(stride.begin(), stride.end()), offset});
  size_t next = 0;
  const AtenArg result = call_on_memory(importer, {.target = target, .positional = arguments}, [&] {
    return next < operands.size() ? std::optional(operands[next++]) : std::nullopt;
  });
  return to_string(importer.finish({result}));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(TracedMemory, ATensorInOrderIsReadAsItIs) {
  const std::string text = strided({{{}, "", {n, m}, {m, 1}, 0}}, {n, 2}, {m, 1});
  EXPECT_TRUE(has(text, "as_strided(%x)")) << text;
  EXPECT_FALSE(has(text, "permute")) << text;
}

TEST(TracedMemory, ATensorInAnotherOrderIsPermutedFirst) {
  const std::string text = strided({{{}, "", {n, 3, m}, {1, n, 3 * n}, 0}}, {n}, {1});
  EXPECT_TRUE(has(text, "dims=[2, 1, 0]")) << text;
}

TEST(TracedMemory, PlacesCountFromTheFirstElement) {
  EXPECT_TRUE(has(strided({{{}, "aten.slice.Tensor", {4, 6}, {6, 1}, 6}}, {2}, {1}, 8), "offset=2"));
  EXPECT_TRUE(has(strided({{{}, "aten.slice.Tensor", {n, m}, {m, 1}, m}}, {n}, {m}, m + 1), "offset=1"));
}

TEST(TracedMemory, AScatterGivesTheOrderOfItsOperand) {
  const std::string text =
      strided({{{}, "", {n, 3, m}, {3, 1, 3 * n}, 0}}, {n}, {1}, {}, "aten.as_strided_scatter.default");
  EXPECT_TRUE(has(text, "dims=[2, 0, 1]")) << text;
  EXPECT_TRUE(has(text, "dims=[1, 2, 0]")) << text;
}

TEST(TracedMemory, PlacesBesideAViewAreThoseOfItsOperand) {
  const TracedTensor part{{}, "aten.slice.Tensor", {2, 6}, {6, 1}, 6}, whole{{}, "aten.add.Tensor", {4, 6}, {6, 1}, 0};
  EXPECT_TRUE(has(strided({part, whole}, {6}, {1}, 0), "as_strided(%x)"));
  EXPECT_THROW(strided({part}, {6}, {1}, 0), Error);
}

TEST(TracedMemory, AReshapeThatStridesDoNotProveLiesAsItsOperandDoes) {
  const TracedTensor unknown{{}, "aten.reshape.default", {n, m}, {}, 0}, in_order{{}, "", {n, m}, {m, 1}, 0},
      transposed{{}, "", {n, m}, {1, n}, 0}, computed{{}, "aten.add.Tensor", {n, m}, {}, 0};
  EXPECT_TRUE(has(strided({unknown, unknown, in_order}, {n}, {1}), "as_strided(%x)"));
  EXPECT_THROW(strided({unknown, transposed}, {n}, {1}), Error);  // PyTorch may have copied it
  EXPECT_THROW(strided({computed, in_order}, {n}, {1}), Error);
  EXPECT_THROW(strided({unknown}, {n}, {1}), Error);
}

TEST(TracedMemory, NoPlaceNeedsNoMemory) {
  EXPECT_TRUE(has(strided({{{}, "", {n, m}, {}, 0}}, {0, 3}, {3, 1}, 7), "as_strided(%x)"));
}

TEST(TracedMemory, SizesAndStridesMustBeAsMany) {
  EXPECT_THROW(strided({{{}, "", {4}, {1}, 0}}, {2, 2}, {1}), Error);
  EXPECT_THROW(strided({{{}, "", {4}, {1}, 0}}, {2}, {1}, AtenArg(0.5)), Error);
}

}  // namespace
}  // namespace tenon
