#include "loops/box.h"

#include <gtest/gtest.h>

namespace tenon::loops {
namespace {

Expr e(std::string_view text) { return symbolic::parse(text).value(); }

TEST(Box, ProvesWhatLiesBetweenNumbers) {
  Box box;
  box.add(Symbol("i"), 0, 9);
  EXPECT_TRUE(box.contains({e("i"), 10}));
  EXPECT_FALSE(box.contains({e("i"), 9}));
  EXPECT_TRUE(box.contains({e("9 - i"), 10}));
  EXPECT_FALSE(box.contains({e("i - 1"), 10}));
  EXPECT_TRUE(box.contains({e("(3*i) // 4"), 7}));
}

TEST(Box, ProvesWhatLiesBetweenExpressions) {
  Box box({{Symbol("N"), symbolic::Interval::at_least(0)}});
  box.add(Symbol("i"), 0, e("N - 1"));
  EXPECT_TRUE(box.contains({e("i"), e("N")}));
  EXPECT_TRUE(box.contains({e("N - 1 - i"), e("N")}));
  EXPECT_FALSE(box.contains({e("i + 1"), e("N")}));
  EXPECT_TRUE(box.contains({e("i // 4"), e("N")}));
}

TEST(Box, OfAFlattenedIndex) {
  Box box({{Symbol("N"), symbolic::Interval::at_least(0)}});
  box.add(Symbol("f"), 0, e("4*N - 1"));
  EXPECT_TRUE(box.contains({e("f // 4"), e("N")}));
  EXPECT_TRUE(box.contains({e("f % 4"), 4}));
}

TEST(Box, InnerSidesMayDependOnOuterOnes) {
  Box box;
  box.add(Symbol("i"), 0, 7);
  box.add(Symbol("j"), 0, e("i"));
  EXPECT_TRUE(box.contains({e("i - j"), 8}));
  EXPECT_FALSE(box.contains({e("j - i"), 8}));
}

TEST(Box, SaysNothingOfWhatIsNotMonotone) {
  Box box;
  box.add(Symbol("i"), 0, 9);
  EXPECT_FALSE(box.highest(e("(i % 3) * (i % 2)")).has_value());
  EXPECT_EQ(box.highest(e("2*i + 1")), Expr(19));
  EXPECT_EQ(box.lowest(e("5 - i")), Expr(-4));
}

}  // namespace
}  // namespace tenon::loops
