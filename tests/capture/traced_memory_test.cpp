#include "capture/traced_memory.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

const Expr n = Symbol("n"), m = Symbol("m");

bool chain_lies_in_order(const std::vector<TracedTensor>& tensors) {
  size_t next = 0;
  return lies_in_order([&] { return next < tensors.size() ? std::optional(tensors[next++]) : std::nullopt; });
}

TEST(TracedMemory, CountsPlaces) {
  EXPECT_TRUE(counts_places("aten.as_strided.default"));
  EXPECT_TRUE(counts_places("aten.as_strided_scatter.default"));
  EXPECT_FALSE(counts_places("aten.view.default"));
}

TEST(TracedMemory, LiesInOrder) {
  EXPECT_TRUE(lies_in_order({"", {4, 6}, {6, 1}, 0}));
  EXPECT_TRUE(lies_in_order({"", {4, 1, 6}, {6, 99, 1}, 0}));
  EXPECT_TRUE(lies_in_order({"", {n, m, 2}, {2 * m, 2, 1}, 0}));
  EXPECT_TRUE(lies_in_order({"", {}, {}, 0}));
}

TEST(TracedMemory, LiesInAnotherOrder) {
  EXPECT_FALSE(lies_in_order({"", {6, 4}, {1, 6}, 0}));
  EXPECT_FALSE(lies_in_order({"", {4, 6}, {6, 1}, 2}));   // begins later
  EXPECT_FALSE(lies_in_order({"", {4, 6}, {12, 1}, 0}));  // has gaps
  EXPECT_FALSE(lies_in_order({"", {4, 6}, {0, 1}, 0}));   // overlaps
  EXPECT_FALSE(lies_in_order({"", {n, m}, {n, 1}, 0}));
  EXPECT_FALSE(lies_in_order({"", {n, m}, {}, 0}));  // not known
}

TEST(TracedMemory, AReshapeLiesAsItsOperandDoes) {
  const TracedTensor unknown{"aten.view.default", {n, m}, {}, 0}, in_order{"aten.add.Tensor", {n, m}, {m, 1}, 0},
      transposed{"aten.add.Tensor", {n, m}, {1, n}, 0}, moved{"aten.permute.default", {n, m}, {}, 0};
  EXPECT_TRUE(chain_lies_in_order({unknown, in_order}));
  EXPECT_TRUE(chain_lies_in_order({unknown, unknown, in_order}));
  EXPECT_FALSE(chain_lies_in_order({unknown, transposed}));
  EXPECT_FALSE(chain_lies_in_order({moved, in_order}));
  EXPECT_FALSE(chain_lies_in_order({unknown}));
  EXPECT_FALSE(chain_lies_in_order({}));
}

}  // namespace
}  // namespace tenon
