#include "support/digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace tenon {
namespace {

TEST(Digest, DiffersInEveryBit) {
  std::set<std::string> seen;
  std::string text(100, '\0');
  seen.insert(digest(text).hex());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(1 << bit % 8);
    seen.insert(digest(other).hex());
  }
  for (size_t size = 0; size < 100; ++size) seen.insert(digest(text.substr(0, size)).hex());
  EXPECT_EQ(seen.size(), 1 + 800 + 100);
}

// About half of the bits change with any bit of the text.
TEST(Digest, Spreads) {
  int changed = 0;
  for (int bit = 0; bit < 256; ++bit) {
    std::string text(32, 'x');
    const Digest before = digest(text);
    text[static_cast<size_t>(bit / 8)] = static_cast<char>(text[static_cast<size_t>(bit / 8)] ^ (1 << bit % 8));
    const Digest after = digest(text);
    const int count = std::popcount(before.high ^ after.high) + std::popcount(before.low ^ after.low);
    EXPECT_GT(count, 30);
    changed += count;
  }
  EXPECT_NEAR(changed / 256.0, 64, 2);
}

}  // namespace
}  // namespace tenon
