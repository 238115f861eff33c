#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

const Symbol i("i"), j("j"), n("n"), one("one"), zero("zero");

// 0 <= i < 4, 0 <= j < 16, n >= 1, one == 1, zero == 0, and x is anything.
std::string simpler(std::string_view text) {
  const Ranges ranges = {
      {i, {0, 3}}, {j, {0, 15}}, {n, Interval::at_least(1)}, {one, Interval::exactly(1)}, {zero, Interval::exactly(0)}};
  const Expr simplified = simplify(parse(text).value(), ranges);
  EXPECT_EQ(simplify(simplified, ranges), simplified) << text;
  return to_string(simplified);
}

TEST(SymbolicSimplify, KnownSymbolsAreConstants) { EXPECT_EQ(simpler("x*one + 3*one"), "x + 3"); }
TEST(SymbolicSimplify, QuotientsOfLessAreZero) {
  EXPECT_EQ(simpler("j // 16"), "0");
  EXPECT_EQ(simpler("(16*x + j) // 16"), "x");
  EXPECT_EQ(simpler("(j - 16) // 16"), "-1");
}
TEST(SymbolicSimplify, QuotientsDropWhatIsLessThanTheirStep) {
  EXPECT_EQ(simpler("(16*x + j) // 64"), "x // 4");
  EXPECT_EQ(simpler("(16*x + 4*i + 3) // 32"), "x // 2");
  EXPECT_EQ(simpler("(16*x + j + 1) // 64"), "(j + 16*x + 1) // 64");
}
TEST(SymbolicSimplify, ModuloOfLessIsTheDividend) {
  EXPECT_EQ(simpler("j % 16"), "j");
  EXPECT_EQ(simpler("(j + 32) % 48"), "j + 32");
  EXPECT_EQ(simpler("(x + j) % 16"), "(j + x) % 16");
}
TEST(SymbolicSimplify, ModuloKeepsWhatIsLessThanItsStep) { EXPECT_EQ(simpler("(16*x + j) % 64"), "j + 16*(x % 4)"); }
TEST(SymbolicSimplify, SplitLoopsGiveTheirIndexBack) {
  EXPECT_EQ(simpler("16*((64*x + 16*i + j) // 16) + (64*x + 16*i + j) % 16"), "16*i + j + 64*x");
  EXPECT_EQ(simpler("(64*x + 16*i + j) // 16 % 4"), "i");
}
TEST(SymbolicSimplify, DivisorsThatAreLarger) {
  EXPECT_EQ(simpler("n // (n + 1)"), "0");
  EXPECT_EQ(simpler("(n*x + i) // (n + 3)"), "(n*x + i) // (n + 3)");
  EXPECT_EQ(simpler("i % (n + 3)"), "i");
}
TEST(SymbolicSimplify, NestedQuotientsByPositiveDivisors) {
  EXPECT_EQ(simpler("x // y // n"), "x // (n*y)");
  EXPECT_EQ(simpler("x // n // y"), "(x // n) // y");
}
TEST(SymbolicSimplify, MinimaDropWhatIsNeverSmallest) {
  EXPECT_EQ(simpler("min(i, 5)"), "i");
  EXPECT_EQ(simpler("max(n, 1)"), "n");
  EXPECT_EQ(simpler("max(n // 2 + 1, 1)"), "n // 2 + 1");
  EXPECT_EQ(simpler("min(x, x + i)"), "x");
  EXPECT_EQ(simpler("min(i, j)"), "min(i, j)");
}
TEST(SymbolicSimplify, ComparisonsThatAreDecided) {
  EXPECT_EQ(simpler("4*i < 13"), "1");
  EXPECT_EQ(simpler("16*i + j < 63"), "16*i + j < 63");
  EXPECT_EQ(simpler("n == 0"), "0");
}
TEST(SymbolicSimplify, WithoutRangesUsesWhatAlwaysHolds) {
  EXPECT_EQ(simplify(lt(mod(i, 4), 4), {}), 1);
  EXPECT_EQ(simplify(floordiv(mod(i, 4), 5), {}), 0);
}
TEST(SymbolicSimplify, DivisionByZeroStays) { EXPECT_EQ(simpler("x // zero"), "x // zero"); }

}  // namespace
}  // namespace tenon::symbolic
