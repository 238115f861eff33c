#include "runtime/strided.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>

#include "tests/graph/support_values.h"

namespace tenon::runtime {
namespace {

using Sizes = std::vector<int64_t>;

// Calls `body` with the offsets of each element, in row-major order.
void for_each(const Sizes& shape, const Sizes& a, const Sizes& b, const std::function<void(int64_t, int64_t)>& body) {
  Sizes index(shape.size());
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    body(std::inner_product(index.begin(), index.end(), a.begin(), int64_t{0}),
         std::inner_product(index.begin(), index.end(), b.begin(), int64_t{0}));
  }
}

Sizes row_major(const Sizes& shape) {
  Sizes strides(shape.size());
  row_major_strides(shape, strides);
  return strides;
}

// Strides of memory with gaps, dimensions in any order, some backwards.
Sizes random_strides(const Sizes& shape, test::Random& random) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  Sizes strides(shape.size());
  int64_t stride = 1 + static_cast<int64_t>(random() % 2);
  for (size_t d : order) {
    strides[d] = random() % 3 == 0 ? -stride : stride;
    stride = stride * std::max<int64_t>(shape[d], 1) + static_cast<int64_t>(random() % 2);
  }
  return strides;
}

int64_t lowest(const Sizes& shape, const Sizes& strides) {
  int64_t low = 0;
  for (size_t d = 0; d < shape.size(); ++d) low += std::min<int64_t>(0, (shape[d] - 1) * strides[d]);
  return low;
}

template <class Element>
void expect_copied(const Sizes& shape, const Sizes& to_strides, const Sizes& from_strides) {
  std::vector<Element> from(4096), to(4096, Element{}), expected(4096, Element{});
  std::iota(from.begin(), from.end(), Element{1});
  const int64_t to_start = -lowest(shape, to_strides), from_start = -lowest(shape, from_strides);
  for_each(shape, to_strides, from_strides,
           [&](int64_t t, int64_t f) { expected[to_start + t] = from[from_start + f]; });
  copy_strided(shape, sizeof(Element), to.data() + to_start, to_strides, from.data() + from_start, from_strides);
  EXPECT_EQ(to, expected) << testing::PrintToString(shape) << testing::PrintToString(to_strides)
                          << testing::PrintToString(from_strides);
}

TEST(Strided, CopiesEachElementAndNothingBesides) {
  test::Random random(5);
  for (int i = 0; i < 300; ++i) {
    Sizes shape(random() % 5);
    for (int64_t& size : shape) size = 1 + static_cast<int64_t>(random() % 4);
    const Sizes to = random_strides(shape, random), from = random_strides(shape, random);
    switch (i % 4) {
      case 0:
        expect_copied<uint8_t>(shape, to, from);
        break;
      case 1:
        expect_copied<uint16_t>(shape, to, from);
        break;
      case 2:
        expect_copied<uint32_t>(shape, row_major(shape), from);
        break;
      default:
        expect_copied<uint64_t>(shape, to, row_major(shape));
    }
    if (HasFailure()) return;
  }
}

TEST(Strided, CopiesOneElementForMany) { expect_copied<uint32_t>({3, 4}, {4, 1}, {0, 0}); }

TEST(Strided, CopiesAScalarAndNothing) {
  expect_copied<uint32_t>({}, {}, {});
  expect_copied<uint32_t>({1, 1}, {7, 9}, {5, 3});
  copy_strided(Sizes{4, 0}, 4, nullptr, Sizes{0, 1}, nullptr, Sizes{0, 1});  // no memory is touched
}

TEST(Strided, RowMajor) {
  EXPECT_EQ(row_major({2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(row_major({2, 0, 4}), (Sizes{4, 4, 1})) << "an empty dimension counts as one";
  EXPECT_TRUE(is_row_major(Sizes{2, 3}, Sizes{3, 1}));
  EXPECT_FALSE(is_row_major(Sizes{2, 3}, Sizes{1, 2}));
  EXPECT_FALSE(is_row_major(Sizes{2, 3}, Sizes{4, 1}));
  EXPECT_TRUE(is_row_major(Sizes{2, 1, 3}, Sizes{3, 99, 1})) << "the stride of one element is any";
  EXPECT_FALSE(is_row_major(Sizes{2}, Sizes{-1}));
  EXPECT_TRUE(is_row_major(Sizes{0, 3}, Sizes{7, 7})) << "of no elements";
  EXPECT_TRUE(is_row_major(Sizes{}, Sizes{}));
}

// Compared with a count of the places that elements have.
TEST(Strided, OverlapIsNeverMissed) {
  test::Random random(6);
  int overlapping = 0, apart = 0;
  for (int i = 0; i < 2000; ++i) {
    Sizes shape(1 + random() % 3), strides(shape.size());
    for (int64_t& size : shape) size = static_cast<int64_t>(random() % 4);
    for (int64_t& stride : strides) stride = static_cast<int64_t>(random() % 9) - 4;
    std::multiset<int64_t> places;
    for_each(shape, strides, strides, [&](int64_t place, int64_t) { places.insert(place); });
    const bool overlaps = std::set<int64_t>(places.begin(), places.end()).size() < places.size();
    if (overlaps) EXPECT_TRUE(may_overlap_itself(shape, strides)) << testing::PrintToString(strides);
    (overlaps ? overlapping : apart) += 1;
  }
  EXPECT_GT(overlapping, 200);
  EXPECT_GT(apart, 200);
}

TEST(Strided, WhatIsApartForSureIsSaidSo) {
  EXPECT_FALSE(may_overlap_itself(Sizes{2, 3, 4}, Sizes{12, 4, 1}));
  EXPECT_FALSE(may_overlap_itself(Sizes{2, 3, 4}, Sizes{1, 2, 6}));
  EXPECT_FALSE(may_overlap_itself(Sizes{3, 4}, Sizes{-4, -1}));
  EXPECT_FALSE(may_overlap_itself(Sizes{1, 4}, Sizes{0, 1})) << "one element has no stride";
  EXPECT_FALSE(may_overlap_itself(Sizes{4, 0}, Sizes{0, 0})) << "of no elements";
  EXPECT_TRUE(may_overlap_itself(Sizes{4}, Sizes{0}));
  EXPECT_TRUE(may_overlap_itself(Sizes{4, 4}, Sizes{3, 1}));
  EXPECT_TRUE(may_overlap_itself(Sizes{2, 2}, Sizes{1, 1}));
}

TEST(Strided, ExtentsReachFromTheFirstByteToTheLast) {
  alignas(4) char memory[64];
  const auto extent = [&](Sizes shape, Sizes strides) {
    const Extent e = extent_of(memory + 32, 4, shape, strides);
    return std::pair(e.begin - reinterpret_cast<std::byte*>(memory) - 32,
                     e.end - reinterpret_cast<std::byte*>(memory) - 32);
  };
  EXPECT_EQ(extent({2, 3}, {3, 1}), std::pair(0L, 24L));
  EXPECT_EQ(extent({3}, {-1}), std::pair(-8L, 4L));
  EXPECT_EQ(extent({2, 3}, {-4, 1}), std::pair(-16L, 12L));
  EXPECT_EQ(extent({}, {}), std::pair(0L, 4L));
  EXPECT_EQ(extent({2, 0}, {3, 1}), std::pair(0L, 0L));
  EXPECT_EQ(extent({5}, {0}), std::pair(0L, 4L));
}

TEST(Strided, ExtentsThatTouchDoNotMeet) {
  const std::byte memory[8] = {};
  EXPECT_TRUE(meet({memory, memory + 4}, {memory + 3, memory + 8}));
  EXPECT_TRUE(meet({memory + 3, memory + 8}, {memory, memory + 4}));
  EXPECT_TRUE(meet({memory, memory + 8}, {memory + 2, memory + 4}));
  EXPECT_FALSE(meet({memory, memory + 4}, {memory + 4, memory + 8}));
  EXPECT_FALSE(meet({memory, memory}, {memory, memory + 8})) << "nothing is in an empty one";
}

}  // namespace
}  // namespace tenon::runtime
