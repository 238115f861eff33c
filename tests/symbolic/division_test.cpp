#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

std::string canonical(std::string_view text) { return to_string(parse(text).value()); }

const Symbol x("x"), y("y");

TEST(SymbolicFloorDiv, RoundsConstantsDown) {
  EXPECT_EQ(canonical("7 // 2"), "3");
  EXPECT_EQ(canonical("-7 // 2"), "-4");
  EXPECT_EQ(canonical("7 // -2"), "-4");
  EXPECT_EQ(canonical("-7 // -2"), "3");
}
TEST(SymbolicFloorDiv, ByOneIsTheDividend) { EXPECT_EQ(canonical("x // 1"), "x"); }
TEST(SymbolicFloorDiv, ByMinusOneNegates) { EXPECT_EQ(canonical("x // -1"), "-x"); }
TEST(SymbolicFloorDiv, OfZeroIsZero) { EXPECT_EQ(canonical("0 // x"), "0"); }
TEST(SymbolicFloorDiv, OfItselfIsOne) {
  EXPECT_EQ(canonical("x // x"), "1");
  EXPECT_EQ(canonical("(x + y) // (x + y)"), "1");
  EXPECT_EQ(canonical("(x - y) // (y - x)"), "-1");
}
TEST(SymbolicFloorDiv, PullsOutMultiples) { EXPECT_EQ(canonical("(4*x + y) // 4"), "x + y // 4"); }
TEST(SymbolicFloorDiv, PullsOutWhatExceedsTheDivisor) { EXPECT_EQ(canonical("9*x // 4"), "2*x + x // 4"); }
TEST(SymbolicFloorDiv, KeepsTheConstantBelowTheDivisor) {
  EXPECT_EQ(canonical("(x + 9) // 4"), "(x + 1) // 4 + 2");
  EXPECT_EQ(canonical("(x - 1) // 2 + 1"), "(x + 1) // 2");
}
TEST(SymbolicFloorDiv, CancelsCommonDivisors) {
  EXPECT_EQ(canonical("6*x // 4"), "x + x // 2");
  EXPECT_EQ(canonical("(2*x + 3) // 4"), "(x + 1) // 2");
}
TEST(SymbolicFloorDiv, HasAPositiveDivisor) { EXPECT_EQ(canonical("x // -4"), canonical("(-x) // 4")); }
TEST(SymbolicFloorDiv, HasAPositiveLeadingTerm) { EXPECT_EQ(canonical("-x // 4"), "-((x + 3) // 4)"); }
TEST(SymbolicFloorDiv, RoundedUpEitherWayIsTheSame) {
  EXPECT_EQ(ceildiv(x, 4), floordiv(x + Expr(3), 4));
  EXPECT_EQ(ceildiv(x, 4), -floordiv(-Expr(x), 4));
}
TEST(SymbolicFloorDiv, MergesNested) {
  EXPECT_EQ(canonical("x // 2 // 3"), "x // 6");
  EXPECT_EQ(canonical("((x - 1) // 2 - 1) // 2"), "(x + 1) // 4 - 1");
  EXPECT_EQ(canonical("(x // 2 + y) // 4"), "(x + 2*y) // 8");
  EXPECT_EQ(canonical("x // y // 3"), "x // (3*y)");
}
TEST(SymbolicFloorDiv, KeepsNestedWhereTheDivisorsOverflow) {
  EXPECT_EQ(canonical("x // 1099511627776 // 1099511627776"), "(x // 1099511627776) // 1099511627776");
}
TEST(SymbolicFloorDiv, OfModuloIsModuloOfTheQuotient) {
  EXPECT_EQ(canonical("x % 12 // 4"), "(x // 4) % 3");
  EXPECT_EQ(canonical("x % 4 // 4"), "0");
  EXPECT_EQ(canonical("x % y // y"), "0");
}
TEST(SymbolicFloorDiv, CancelsFactors) {
  EXPECT_EQ(canonical("x*y // y"), "x");
  EXPECT_EQ(canonical("6*x*y // (4*y)"), "x + x // 2");
  EXPECT_EQ(canonical("x*y // (x*z)"), "y // z");
}
TEST(SymbolicFloorDiv, PullsOutMultiplesOfAnExpression) {
  EXPECT_EQ(canonical("(x*y + z) // y"), "x + z // y");
  EXPECT_EQ(canonical("(x + 7)*(y + 3)*z // (z*(y + 3))"), "x + 7");
  EXPECT_EQ(canonical("(x*(y + z) + 1) // (y + z)"), "x + 1 // (y + z)");
}
TEST(SymbolicFloorDiv, CancelsFactorsThatAreNotDistributed) {
  Expr a = 0, b = 0;
  for (int i = 0; i < 9; ++i) {
    a += Symbol("a" + std::to_string(i));
    b += Symbol("b" + std::to_string(i));
  }
  EXPECT_EQ(floordiv(a * b, b), a);
  EXPECT_EQ(mod(a * b + x, b), mod(x, b));
}
TEST(SymbolicFloorDiv, KeepsWhatDivisionWouldNotSimplify) { EXPECT_EQ(canonical("x // (x + 1)"), "x // (x + 1)"); }
TEST(SymbolicFloorDiv, ByZeroIsAnError) {
  EXPECT_THROW(floordiv(x, 0), Error);
  EXPECT_THROW(ceildiv(x, 0), Error);
}

TEST(SymbolicMod, HasTheSignOfTheDivisor) {
  EXPECT_EQ(canonical("7 % 3"), "1");
  EXPECT_EQ(canonical("-7 % 3"), "2");
  EXPECT_EQ(canonical("7 % -3"), "-2");
  EXPECT_EQ(canonical("-7 % -3"), "-1");
}
TEST(SymbolicMod, ByOneIsZero) { EXPECT_EQ(canonical("x % 1 + x % -1"), "0"); }
TEST(SymbolicMod, OfItselfIsZero) { EXPECT_EQ(canonical("x % x"), "0"); }
TEST(SymbolicMod, DropsMultiples) { EXPECT_EQ(canonical("(8*x + 5*y + 6) % 4"), "(y + 2) % 4"); }
TEST(SymbolicMod, FactorsOutCommonDivisors) { EXPECT_EQ(canonical("(6*x + 3) % 4"), "2*((x + 1) % 2) + 1"); }
TEST(SymbolicMod, HasAPositiveDivisor) { EXPECT_EQ(canonical("x % -4"), canonical("-(-x % 4)")); }
TEST(SymbolicMod, HasAPositiveLeadingTerm) { EXPECT_EQ(canonical("-x % 4"), "-((x + 3) % 4) + 3"); }
TEST(SymbolicMod, DropsInnerModulo) {
  EXPECT_EQ(canonical("x % 8 % 4"), "x % 4");
  EXPECT_EQ(canonical("(2*(x % 6) + y) % 4"), "(2*x + y) % 4");
  EXPECT_EQ(canonical("(x % y + z) % y"), "(x + z) % y");
  EXPECT_EQ(canonical("x % 6 % 4"), "(x % 6) % 4");
}
TEST(SymbolicMod, DropsMultiplesOfAnExpression) {
  EXPECT_EQ(canonical("(x*y + z) % y"), "z % y");
  EXPECT_EQ(canonical("2*x*z % (2*y*z)"), "2*z*(x % y)");
}
TEST(SymbolicMod, ByZeroIsAnError) { EXPECT_THROW(mod(x, 0), Error); }

}  // namespace
}  // namespace tenon::symbolic
