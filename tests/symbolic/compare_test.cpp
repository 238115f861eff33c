#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

std::string canonical(std::string_view text) { return to_string(parse(text).value()); }

const Symbol x("x"), y("y");

TEST(SymbolicMinMax, FoldsConstants) { EXPECT_EQ(canonical("min(3, 5) + max(3, 5)"), "8"); }
TEST(SymbolicMinMax, OfOneIsItself) { EXPECT_EQ(canonical("min(x, x) + max(y)"), "x + y"); }
TEST(SymbolicMinMax, IsFlatAndSorted) {
  EXPECT_EQ(canonical("min(z, min(y, x), 3)"), "min(x, y, z, 3)");
  EXPECT_EQ(canonical("max(max(x + 1, y + 1), z)"), "max(z, x + 1, y + 1)");
}
TEST(SymbolicMinMax, KeepsOneOfThoseThatDifferByAConstant) {
  EXPECT_EQ(canonical("min(x, x + 1)"), "x");
  EXPECT_EQ(canonical("max(x, x + 1, x - 3)"), "x + 1");
  EXPECT_EQ(canonical("max(x, y, 3, 1)"), "max(x, y, 3)");
}
TEST(SymbolicMinMax, PullsOutWhatOperandsShare) {
  EXPECT_EQ(canonical("min(x + y, x + z)"), "x + min(y, z)");
  EXPECT_EQ(canonical("max(x - 3, 0)"), "max(x, 3) - 3");
  EXPECT_EQ(canonical("max(2*x + 5, y + 7)"), "max(2*x, y + 2) + 5");
}
TEST(SymbolicMinMax, AbsorbsTheOpposite) {
  EXPECT_EQ(canonical("min(x, max(x, y))"), "x");
  EXPECT_EQ(canonical("max(x, min(x, y), 3)"), "max(x, 3)");
}
TEST(SymbolicMinMax, TakesTheLargestConstants) {
  EXPECT_EQ(to_string(min(x, kInt64Max)), "min(x, 9223372036854775807)");
  EXPECT_EQ(to_string(max(x, kInt64Min)), "max(x, (-9223372036854775807 - 1))");
}

TEST(SymbolicComparison, FoldsConstants) {
  EXPECT_EQ(canonical("(2 < 3) + (3 <= 3) + (3 == 4) + (3 != 4) + (3 > 3) + (3 >= 3)"), "4");
  EXPECT_TRUE(lt(kInt64Min, kInt64Max).is_constant(1));
}
TEST(SymbolicComparison, DecidesWhatDiffersByAConstant) {
  EXPECT_EQ(canonical("x < x + 1"), "1");
  EXPECT_EQ(canonical("x == x + 1"), "0");
  EXPECT_EQ(canonical("x + y != y + x"), "0");
}
TEST(SymbolicComparison, HasPositiveTermsOnBothSides) {
  EXPECT_EQ(canonical("x - 3 < y - z"), "x + z < y + 3");
  EXPECT_EQ(canonical("y - x == 0"), "x == y");
}
TEST(SymbolicComparison, LessOrEqualIsLessThanOneMore) {
  EXPECT_EQ(canonical("x <= 15"), "x < 16");
  EXPECT_EQ(canonical("x < y + 1"), "x <= y");
  EXPECT_EQ(canonical("x >= 1"), "0 < x");
  EXPECT_EQ(canonical("x >= 0"), "0 <= x");
}
TEST(SymbolicComparison, CancelsCommonDivisors) {
  EXPECT_EQ(canonical("2*x < 5"), "x < 3");
  EXPECT_EQ(canonical("3*x == 6*y + 9"), "x == 2*y + 3");
}
TEST(SymbolicComparison, KnowsThatIntegersAreNotFractions) {
  EXPECT_EQ(canonical("2*x == 5"), "0");
  EXPECT_EQ(canonical("2*x != 2*y + 1"), "1");
}
TEST(SymbolicComparison, OfAComparisonIsThatOrItsNegation) {
  EXPECT_EQ(canonical("(x < y) == 1"), "x < y");
  EXPECT_EQ(canonical("(x < y) == 0"), "y <= x");
  EXPECT_EQ(canonical("(x == y) < 1"), "x != y");
  EXPECT_EQ(canonical("(x != y) == 0"), "x == y");
  EXPECT_EQ(canonical("(x <= y) < 2"), "1");
  EXPECT_EQ(canonical("(x < y)*(y < z) == 1"), "(x < y)*(y < z)");
}
TEST(SymbolicComparison, GreaterIsLessTheOtherWayRound) {
  EXPECT_EQ(gt(x, y), lt(y, x));
  EXPECT_EQ(ge(x, y), le(y, x));
}

}  // namespace
}  // namespace tenon::symbolic
