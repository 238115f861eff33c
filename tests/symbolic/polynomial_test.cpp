#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

std::string canonical(std::string_view text) { return to_string(parse(text).value()); }

const Symbol x("x"), y("y"), z("z");

TEST(SymbolicSum, FoldsConstants) { EXPECT_EQ(canonical("2 + 3 - 1"), "4"); }
TEST(SymbolicSum, DropsZero) { EXPECT_EQ(canonical("x + 0"), "x"); }
TEST(SymbolicSum, CollectsLikeTerms) { EXPECT_EQ(canonical("x + 2*y + 3*x - y"), "4*x + y"); }
TEST(SymbolicSum, CancelsToZero) { EXPECT_EQ(canonical("x*y - y*x"), "0"); }
TEST(SymbolicSum, IsFlat) { EXPECT_EQ(canonical("(z + (y + x)) + 1"), "x + y + z + 1"); }
TEST(SymbolicSum, PutsHigherDegreesFirstAndTheConstantLast) {
  EXPECT_EQ(canonical("1 + y + x + y*x + x*x"), "x*x + x*y + x + y + 1");
}
TEST(SymbolicSum, DoesNotDependOnTheOrder) {
  EXPECT_EQ(Expr(x) + y + z, Expr(z) + y + x);
  EXPECT_EQ((Expr(x) + y + z).hash(), (Expr(z) + y + x).hash());
}
TEST(SymbolicSum, OfManyIsTheSumOneByOne) {
  const std::vector<Expr> terms = {Expr(x) * y, 3, Expr(x) - 1, -Expr(x) * y, y};
  EXPECT_EQ(to_string(sum(terms)), "x + y + 2");
  EXPECT_EQ(to_string(sum({})), "0");
}
TEST(SymbolicSum, OverflowIsAnError) {
  EXPECT_THROW(Expr(kInt64Max) + 1, Error);
  EXPECT_THROW(kInt64Max * Expr(x) + x, Error);
  EXPECT_THROW(-Expr(kInt64Min), Error);
}

TEST(SymbolicSum, QuotientAndModuloBecomeTheirDividend) {
  EXPECT_EQ(canonical("4*(x // 4) + x % 4"), "x");
  EXPECT_EQ(canonical("12*((x + 5) // 4) + y + 3*((x + 5) % 4)"), "3*x + y + 15");
  EXPECT_EQ(canonical("y*(x // y) + x % y"), "x");
}
TEST(SymbolicSum, DividendWithoutModuloBecomesTheQuotient) {
  EXPECT_EQ(canonical("x - x % 4"), "4*(x // 4)");
  EXPECT_EQ(canonical("(x - x % 4) // 4"), "x // 4");
}
TEST(SymbolicSum, DividendWithoutQuotientBecomesTheModulo) {
  EXPECT_EQ(canonical("x - 16*(x // 16)"), "x % 16");
  EXPECT_EQ(canonical("x - 4*((x + 1) // 4)"), "(x + 1) % 4 - 1");
}
TEST(SymbolicSum, KeepsQuotientsOfOtherDividends) {
  EXPECT_EQ(canonical("4*(x // 4) + y % 4"), "4*(x // 4) + y % 4");
  EXPECT_EQ(canonical("5*(x // 4) + x % 4"), "5*(x // 4) + x % 4");
}

TEST(SymbolicProduct, FoldsConstants) { EXPECT_EQ(canonical("2*x*3*y"), "6*x*y"); }
TEST(SymbolicProduct, WithZeroIsZero) { EXPECT_EQ(canonical("0*(x // y)"), "0"); }
TEST(SymbolicProduct, SortsFactors) { EXPECT_EQ(Expr(z) * x * y * x, Expr(x) * x * y * z); }
TEST(SymbolicProduct, DistributesOverSums) { EXPECT_EQ(canonical("(x + 1)*(x - 1)"), "x*x - 1"); }
TEST(SymbolicProduct, DistributesAConstantOverAnyNumberOfTerms) {
  Expr wide = 0;
  for (int i = 0; i < 200; ++i) wide += Symbol("wide" + std::to_string(i));
  EXPECT_EQ((3 * wide).operands().size(), 200u);
  EXPECT_EQ((Expr(x) * wide).operands().size(), 200u);
}
TEST(SymbolicProduct, OfAComparisonWithItselfIsTheComparison) {
  EXPECT_EQ(canonical("(x < y)*(x < y)"), "x < y");
  EXPECT_EQ(canonical("max(x < y, y == z)*max(y == z, x < y)"), "max(y == z, x < y)");
}
TEST(SymbolicProduct, OfNothingIsOne) { EXPECT_EQ(to_string(product({})), "1"); }
TEST(SymbolicProduct, OverflowIsAnError) {
  EXPECT_THROW(Expr(int64_t{1} << 40) * (int64_t{1} << 40), Error);
  EXPECT_THROW((int64_t{1} << 40) * Expr(x) * (int64_t{1} << 40), Error);
}

Expr sum_of_symbols(const std::string& prefix, int count) {
  Expr total = 0;
  for (int i = 0; i < count; ++i) total += Symbol(prefix + std::to_string(i));
  return total;
}

TEST(SymbolicProduct, StaysAProductWhereItWouldHaveTooManyTerms) {
  const Expr a = sum_of_symbols("a", 9), b = sum_of_symbols("b", 8);
  EXPECT_EQ((a * b).kind(), Kind::kMul);
  EXPECT_EQ((sum_of_symbols("a", 8) * b).operands().size(), 64u);
}
TEST(SymbolicProduct, UndistributedDoesNotDependOnTheOrder) {
  const Expr a = sum_of_symbols("a", 9), b = sum_of_symbols("b", 9);
  EXPECT_EQ(a * b, b * a);
  EXPECT_EQ((2 * a) * (x * b), (b * -x) * (-2 * a));
  EXPECT_EQ(a * b - b * a, 0);
}
TEST(SymbolicProduct, OfManySumsStaysSmall) {
  Expr product = 1;
  for (int i = 0; i < 20; ++i) product *= sum_of_symbols("s" + std::to_string(i) + "_", 4);
  EXPECT_LT(to_string(product).size(), 10'000u);
}

}  // namespace
}  // namespace tenon::symbolic
