#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

const Symbol i("i"), j("j"), n("n"), x("x");

// 0 <= i < 8, -3 <= j <= 5, n >= 1, and x is anything.
std::string range(std::string_view text) {
  const Ranges ranges = {{i, {0, 7}}, {j, {-3, 5}}, {n, Interval::at_least(1)}};
  return to_string(bounds(parse(text).value(), ranges));
}

TEST(SymbolicInterval, PrintsItsEnds) {
  EXPECT_EQ(to_string(Interval{2, 64}), "[2, 64]");
  EXPECT_EQ(to_string(Interval::all()), "[-inf, inf]");
}
TEST(SymbolicInterval, OfOneValueIsSingle) {
  EXPECT_TRUE(Interval::exactly(3).is_single());
  EXPECT_FALSE(Interval::exactly(kInt64Max).is_single());
}

TEST(SymbolicBounds, Symbols) {
  EXPECT_EQ(range("i"), "[0, 7]");
  EXPECT_EQ(range("n"), "[1, inf]");
  EXPECT_EQ(range("x"), "[-inf, inf]");
}
TEST(SymbolicBounds, Sums) {
  EXPECT_EQ(range("i + 2*j - 1"), "[-7, 16]");
  EXPECT_EQ(range("i - n"), "[-inf, 6]");
}
TEST(SymbolicBounds, Products) {
  EXPECT_EQ(range("i*j"), "[-21, 35]");
  EXPECT_EQ(range("-3*n"), "[-inf, -3]");
  EXPECT_EQ(range("0*x"), "[0, 0]");
  EXPECT_EQ(range("n*j"), "[-inf, inf]");
}
TEST(SymbolicBounds, PowersAreNotNegative) {
  EXPECT_EQ(range("j*j"), "[0, 25]");
  EXPECT_EQ(range("x*x"), "[0, inf]");
  EXPECT_EQ(range("j*j*j"), "[-75, 125]");
}
TEST(SymbolicBounds, Quotients) {
  EXPECT_EQ(range("j // 2"), "[-2, 2]");
  EXPECT_EQ(range("i // (n + 1)"), "[0, 3]");
  EXPECT_EQ(range("j // (n + 1)"), "[-2, 2]");
  EXPECT_EQ(range("n // 3"), "[0, inf]");
  EXPECT_EQ(range("(i + 5) // n"), "[0, 12]");
  EXPECT_EQ(range("(i - 9) // n"), "[-9, -1]");
  EXPECT_EQ(range("i // x"), "[-7, 7]");
}
TEST(SymbolicBounds, Modulo) {
  EXPECT_EQ(range("x % 4"), "[0, 3]");
  EXPECT_EQ(range("i % 16"), "[0, 7]");
  EXPECT_EQ(range("(i + 17) % 32"), "[17, 24]");
  EXPECT_EQ(range("j % (i + 1)"), "[0, 7]");
  EXPECT_EQ(range("x % -4"), "[-3, 0]");
  EXPECT_EQ(range("i % x"), "[-inf, 7]");
}
TEST(SymbolicBounds, MinimumAndMaximum) {
  EXPECT_EQ(range("min(i, j)"), "[-3, 5]");
  EXPECT_EQ(range("max(i, j)"), "[0, 7]");
  EXPECT_EQ(range("min(x, 3)"), "[-inf, 3]");
}
TEST(SymbolicBounds, Comparisons) {
  EXPECT_EQ(range("i < 8"), "[1, 1]");
  EXPECT_EQ(range("i < 7"), "[0, 1]");
  EXPECT_EQ(range("i == j - 9"), "[0, 0]");
  EXPECT_EQ(range("i != j - 9"), "[1, 1]");
  EXPECT_EQ(range("n <= 0"), "[0, 0]");
  EXPECT_EQ(range("n < x"), "[0, 1]");
}
TEST(SymbolicBounds, QuotientsCancelAgainstTheirDividend) {
  EXPECT_EQ(range("n - n // 2"), "[1, inf]");
  EXPECT_EQ(range("4*((n + 3) // 4) - n"), "[0, 3]");
  EXPECT_EQ(range("x // 2 - x // 3 - x // 6"), "[0, 1]");
}
TEST(SymbolicBounds, MinimaCancelAgainstTheirOperands) {
  EXPECT_EQ(range("n - min(n, 3)"), "[0, inf]");
  EXPECT_EQ(range("max(x, n) - x"), "[0, inf]");
  EXPECT_EQ(range("min(16*i + 16, n) - 16*i"), "[-111, 16]");
}
TEST(SymbolicBounds, Saturate) {
  const Ranges ranges = {{i, {1, int64_t{1} << 40}}};
  EXPECT_EQ(to_string(bounds(parse("i*i").value(), ranges)), "[1, inf]");
  EXPECT_EQ(to_string(bounds(parse("-i*i*i").value(), ranges)), "[-inf, -1]");
  EXPECT_EQ(to_string(bounds(parse("i*i < i*i*i").value(), ranges)), "[0, 1]");
  EXPECT_EQ(to_string(bounds(-Expr(kInt64Max) * x, {{x, Interval::exactly(-1)}})), "[9223372036854775807, inf]");
}

TEST(SymbolicProof, OfEquality) {
  EXPECT_TRUE(provably_equal(floordiv(16 * Expr(i) + j, 16), i, {{j, {0, 15}}}));
  EXPECT_FALSE(provably_equal(floordiv(16 * Expr(i) + j, 16), i, {{j, {0, 16}}}));
  EXPECT_FALSE(provably_equal(i, j));
}
TEST(SymbolicProof, OfOrder) {
  EXPECT_TRUE(provably_less_equal(i, i + Expr(1)));
  EXPECT_TRUE(provably_less_equal(i, 7, {{i, {0, 7}}}));
  EXPECT_FALSE(provably_less_equal(i, 6, {{i, {0, 7}}}));
  EXPECT_TRUE(provably_less_equal(4 * floordiv(x, 4), x));
}
TEST(SymbolicProof, IsMissingWhereTheDifferenceOverflows) {
  EXPECT_FALSE(provably_less_equal(kInt64Min, i + Expr(1)));
  EXPECT_FALSE(provably_equal(kInt64Min, i + Expr(1)));
}

}  // namespace
}  // namespace tenon::symbolic
