// Entries of lines that are longer than a narrow entry can count: they have no code of their own. A test cannot have
// 2^32 elements; here the first of them lies before the memory that is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/kernels/order.h"

namespace tenon {
namespace {

constexpr int64_t kFar = NarrowEntry::kLongestLine + 5;

// A line of which only [kFar, kFar + size) may be read.
LinePlace place_of(const void* memory, int64_t bytes, int64_t stride, bool downward, uint64_t limit) {
  const auto address = reinterpret_cast<uintptr_t>(memory) - static_cast<uintptr_t>(kFar * stride * bytes);
  return {reinterpret_cast<const void*>(address), stride, downward, limit};
}

// Sorts the elements by entries, and stores them.
template <class Element, class T>
void expect_sorted(const std::vector<T>& x, std::vector<int64_t> wanted, int64_t stride, bool downward,
                   uint64_t limit) {
  const LineFunctions<WideEntry>& functions = kLineFunctions<Element, WideEntry>;
  const auto size = static_cast<int64_t>(wanted.size());
  const LinePlace line = place_of(x.data(), sizeof(T), stride, downward, limit);
  std::vector<WideEntry> entries(wanted.size());
  functions.load(line, kFar, kFar + size, entries.data());
  sort_entries(entries.data(), entries.data() + entries.size());
  std::vector<T> values(wanted.size());
  std::vector<int64_t> indices(wanted.size());
  functions.store(line, {values.data(), indices.data(), 1}, entries.data(), 0, size);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(indices[i], kFar + wanted[i]);
    EXPECT_EQ(std::memcmp(&values[i], &x[static_cast<size_t>(wanted[i] * stride)], sizeof(T)), 0);
  }
}

TEST(LongLines, AreSortedAsOthers) {
  const std::vector<float> x = {3, 0, -1, 0, 2, 0, -0.0f, 0, 0, 0};
  expect_sorted<FloatElement<uint32_t>>(x, {1, 3, 4, 2, 0}, 2, false, 0x7F800000);
  expect_sorted<FloatElement<uint32_t>>(x, {0, 2, 3, 4, 1}, 2, true, 0x7F800000);
}

TEST(LongLines, HaveManyBlocks) {
  std::vector<uint8_t> x(200);
  std::vector<int64_t> wanted(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<uint8_t>(199 - i);
    wanted[i] = static_cast<int64_t>(199 - i);
  }
  expect_sorted<IntegerElement<uint8_t>>(x, wanted, 1, false, 0);
  std::ranges::rotate(wanted, wanted.begin() + 128);  // as int8, 128 is the smallest
  expect_sorted<IntegerElement<uint8_t>>(x, wanted, 1, false, 0x80);
}

}  // namespace
}  // namespace tenon
