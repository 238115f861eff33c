#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

const Symbol x("x"), y("y"), z("z");

int64_t value(std::string_view text, const Bindings& bindings) { return evaluate(parse(text).value(), bindings); }

std::string message(std::string_view text, const Bindings& bindings) {
  const auto result = attempt([&] { return value(text, bindings); });
  return result ? "no error" : result.diagnostic().message;
}

TEST(SymbolicEvaluate, ComputesEveryOperator) {
  const Bindings bindings = {{x, -7}, {y, 3}};
  EXPECT_EQ(value("2*x*y - x + 5", bindings), -30);
  EXPECT_EQ(value("x // 2", bindings), -4);
  EXPECT_EQ(value("x % 2", bindings), 1);
  EXPECT_EQ(value("x // y", bindings), -3);
  EXPECT_EQ(value("x % y", bindings), 2);
  EXPECT_EQ(value("y % x", bindings), -4);
  EXPECT_EQ(value("min(x, y, 0)", bindings), -7);
  EXPECT_EQ(value("max(x, y, 0)", bindings), 3);
  EXPECT_EQ(value("(x == y) + 10*(x != y) + 100*(x < y) + 1000*(x <= y)", bindings), 1110);
}
TEST(SymbolicEvaluate, DividesByMinusOne) {
  EXPECT_EQ(value("x // y", {{x, kInt64Max}, {y, -1}}), -kInt64Max);
  EXPECT_EQ(value("x % y", {{x, kInt64Min}, {y, -1}}), 0);
  EXPECT_THROW(value("x // y", {{x, kInt64Min}, {y, -1}}), Error);
}
TEST(SymbolicEvaluate, IntermediateResultsHave128Bits) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(value("x*(y - z)", {{x, large}, {y, large}, {z, large - 1}}), large);
  EXPECT_EQ(value("x*x*x*x*y", {{x, large}, {y, 0}}), 0);
}
TEST(SymbolicEvaluate, OverflowIsAnError) {
  EXPECT_EQ(message("x*x", {{x, int64_t{1} << 40}}), "integer overflow: the value of x*x does not fit");
  EXPECT_THROW(value("x*x*x*x", {{x, int64_t{1} << 40}}), Error);
}
TEST(SymbolicEvaluate, DivisionByZeroIsAnError) {
  EXPECT_EQ(message("x // (y + 1)", {{x, 1}, {y, -1}}), "division by zero: y + 1 is 0 in x // (y + 1)");
  EXPECT_THROW(value("x % y", {{x, 1}, {y, 0}}), Error);
}
TEST(SymbolicEvaluate, UnboundSymbolIsAnError) { EXPECT_EQ(message("x + y", {{x, 1}}), "symbol y has no value"); }

TEST(SymbolicEstimate, IsTheValueWhereThereIsOne) {
  EXPECT_EQ(estimate(parse("16 // (16 // x)").value(), {{x, 4}}), 4);
  EXPECT_EQ(estimate(parse("(x - 9) // y").value(), {{x, 2}, {y, -1}}), 7);
}
TEST(SymbolicEstimate, IsANumberWhereSizesAreImpossible) {
  EXPECT_EQ(estimate(parse("16 // (16 // x)").value(), {{x, 17}}), 0);
  EXPECT_EQ(estimate(parse("3 + x % (16 // x)").value(), {{x, 17}}), 3);
  EXPECT_EQ(estimate(parse("x*x*x*x").value(), {{x, int64_t{1} << 40}}), kInt64Max);
  EXPECT_EQ(estimate(parse("-x*x").value(), {{x, int64_t{1} << 40}}), kInt64Min);
  EXPECT_THROW(estimate(x, {}), Error);
}

TEST(SymbolicSubstitute, IsSimultaneous) { EXPECT_EQ(substitute(x - 2 * Expr(y), {{x, y}, {y, x}}), y - 2 * Expr(x)); }
TEST(SymbolicSubstitute, SimplifiesWhatItMakes) {
  EXPECT_EQ(to_string(substitute(parse("(x + y) // 4").value(), {{x, 4 * Expr(z)}})), "z + y // 4");
  EXPECT_EQ(substitute(parse("min(x, y) + (x < y)").value(), {{x, y}}), y);
}
TEST(SymbolicSubstitute, KeepsWhatItDoesNotTouch) {
  const Expr expr = floordiv(x, 4);
  EXPECT_EQ(substitute(expr, {{y, 3}}), expr);
}
TEST(SymbolicSubstitute, OverflowAndDivisionByZeroAreErrors) {
  EXPECT_THROW(substitute(floordiv(x, y), {{y, 0}}), Error);
  EXPECT_THROW(substitute(kInt64Max * Expr(x), {{x, 2}}), Error);
}

TEST(SymbolicSymbols, AreSortedAndUnique) {
  EXPECT_EQ(symbols_of(parse("z*x + min(y // x, 3)").value()), (std::vector{x, y, z}));
  EXPECT_TRUE(symbols_of(3).empty());
}
TEST(SymbolicSymbols, DependsOnThoseItHas) {
  const Expr expr = mod(x, 4) + 1;
  EXPECT_TRUE(depends_on(expr, x));
  EXPECT_FALSE(depends_on(expr, y));
}

}  // namespace
}  // namespace tenon::symbolic
