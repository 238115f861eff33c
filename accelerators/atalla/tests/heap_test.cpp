#include "plugin/heap.h"

#include <gtest/gtest.h>

namespace atalla {
namespace {

TEST(Heap, TakesTheFirstGapThatFits) {
  Heap heap(64, 1024);
  const uint64_t first = heap.allocate(100, 64), second = heap.allocate(64, 64), third = heap.allocate(64, 64);
  EXPECT_EQ(first, 64U);
  EXPECT_EQ(second, 192U);
  EXPECT_EQ(third, 256U);
  heap.free(second);
  EXPECT_EQ(heap.allocate(65, 64), 320U);
  EXPECT_EQ(heap.allocate(64, 64), 192U);
}

TEST(Heap, EmptyBlocksShareNoAddress) {
  Heap heap(64, 1024);
  const uint64_t first = heap.allocate(200, 64), empty = heap.allocate(0, 64), next = heap.allocate(0, 64);
  EXPECT_NE(empty, first);
  EXPECT_NE(empty, next);
  heap.free(empty);
  EXPECT_EQ(heap.allocate(64, 64), empty);  // `first` is still in use
}

TEST(Heap, RefusesWhatDoesNotFit) {
  Heap heap(64, 1024);
  heap.allocate(896, 64);
  EXPECT_THROW(heap.allocate(65, 64), std::runtime_error);
  EXPECT_THROW(heap.allocate(UINT64_MAX, 64), std::runtime_error);
  EXPECT_EQ(heap.allocate(64, 64), 960U);
}

}  // namespace
}  // namespace atalla
