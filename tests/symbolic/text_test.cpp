#include <gtest/gtest.h>

#include <random>

#include "tests/symbolic/support_random_expr.h"

namespace tenon::symbolic {
namespace {

std::string canonical(std::string_view text) { return to_string(parse(text).value()); }

std::string error_of(std::string_view text) {
  const Result<Expr> result = parse(text, {"shapes.txt", 1, 1});
  return result ? "no error" : result.diagnostic().text();
}

TEST(SymbolicText, PrintsSums) {
  EXPECT_EQ(canonical("x - y"), "x - y");
  EXPECT_EQ(canonical("-x + y - 1"), "-x + y - 1");
  EXPECT_EQ(canonical("2*s0 + 1"), "2*s0 + 1");
  EXPECT_EQ(canonical("-2*x*y - 3*x"), "-2*x*y - 3*x");
}
TEST(SymbolicText, EnclosesWhereItHasTo) {
  EXPECT_EQ(canonical("2*(x // 3)"), "2*(x // 3)");
  EXPECT_EQ(canonical("2*x // 3"), "2*x // 3");
  EXPECT_EQ(canonical("(x + 1) // (2*y)"), "(x + 1) // (2*y)");
  EXPECT_EQ(canonical("(x // y) % z"), "(x // y) % z");
  EXPECT_EQ(canonical("x // (y % z)"), "x // (y % z)");
  EXPECT_EQ(canonical("(x < y) + 1"), "(x < y) + 1");
  EXPECT_EQ(canonical("(x < y)*(y < z)"), "(x < y)*(y < z)");
  EXPECT_EQ(canonical("(x < y) < z"), "(x < y) < z");
  EXPECT_EQ(canonical("max(x + 1, y // 2, a < b)"), "max(x + 1, y // 2, a < b)");
}
TEST(SymbolicText, FollowsPythonsPrecedence) {
  EXPECT_EQ(canonical("2 + 3*4 - 10 // 3 % 2"), "13");
  EXPECT_EQ(canonical("-7 // 2"), "-4");
  EXPECT_EQ(canonical("100 // 7 * 2"), "28");
  EXPECT_EQ(canonical("2 - 3 - 4"), "-5");
  EXPECT_EQ(canonical("--3 - -2"), "5");
  EXPECT_EQ(canonical("1 + 1 < 3"), "1");
}
TEST(SymbolicText, ReadsSymbolsNamedLikeFunctions) { EXPECT_EQ(canonical("min*max + 1"), "max*min + 1"); }
TEST(SymbolicText, SkipsBlanksAndComments) { EXPECT_EQ(canonical(" x\n  + # the batch\n\t1 "), "x + 1"); }
TEST(SymbolicText, HoldsEveryInteger) {
  EXPECT_EQ(parse(to_string(Expr(kInt64Min))).value(), kInt64Min);
  EXPECT_EQ(parse(to_string(Expr(kInt64Max))).value(), kInt64Max);
  const Expr expr = kInt64Min * Expr(Symbol("x")) + kInt64Min;
  EXPECT_EQ(parse(to_string(expr)).value(), expr);
}
TEST(SymbolicText, NestsAsDeepAsAnExpressionCan) {
  Expr expr = Symbol("x");
  while (const auto deeper = attempt([&] { return floordiv(Symbol("y"), expr + 1); })) expr = *deeper;
  EXPECT_EQ(parse(to_string(expr)).value(), expr);
}

TEST(SymbolicTextError, NamesThePlace) {
  EXPECT_EQ(error_of("x + "), "shapes.txt:1:4: error: expected an expression, got the end of the text");
  EXPECT_EQ(error_of("x +\n  (y * ]"), "shapes.txt:2:8: error: expected an expression, got ']'");
  EXPECT_EQ(error_of("(x + 1"), "shapes.txt:1:7: error: expected ')', got the end of the text");
  EXPECT_EQ(error_of(""), "shapes.txt:1:1: error: expected an expression, got the end of the text");
}
TEST(SymbolicTextError, TextAfterTheEnd) {
  EXPECT_EQ(error_of("x y"), "shapes.txt:1:3: error: expected the end of the expression, got 'y'");
  EXPECT_EQ(error_of("x / y"), "shapes.txt:1:3: error: expected the end of the expression, got '/'");
  EXPECT_EQ(error_of("x \xff"), "shapes.txt:1:3: error: expected the end of the expression, got '?'");
}
TEST(SymbolicTextError, ChainedComparisons) {
  EXPECT_EQ(error_of("a < b < c"), "shapes.txt:1:7: error: comparisons do not chain: write (a < b)*(b < c)");
}
TEST(SymbolicTextError, DivisionByZero) {
  EXPECT_EQ(error_of("y + x // (2 - 2)"), "shapes.txt:1:10: error: division by zero: x // 0");
}
TEST(SymbolicTextError, Overflow) {
  EXPECT_EQ(error_of("x + 9223372036854775808"), "shapes.txt:1:5: error: an integer does not fit 64 bits");
  EXPECT_EQ(error_of("4611686018427387904 * 2"),
            "shapes.txt:1:1: error: integer overflow: 4611686018427387904 * 2 does not fit 64 bits");
}
TEST(SymbolicTextError, MinimumOfNothing) {
  EXPECT_EQ(error_of("min()"), "shapes.txt:1:5: error: expected an expression, got ')'");
}
TEST(SymbolicTextError, DeepNestingIsNoStackOverflow) {
  EXPECT_EQ(error_of(std::string(100'000, '(')),
            "shapes.txt:1:202: error: the expression nests deeper than 200 levels");
  std::string quotients = "x";
  for (int i = 0; i < 100'000; ++i) quotients += " // y % z";
  EXPECT_NE(error_of(quotients).find("nests deeper than 200 levels"), std::string::npos);
  EXPECT_EQ(canonical(std::string(100'000, '-') + "x"), "x");
}

// Whatever bytes come in, the answer is an expression that prints and parses back, or a Diagnostic with a place.
TEST(SymbolicTextError, MutatedTextsParseOrSayWhere) {
  testing::RandomTrees trees(6);
  std::mt19937_64 random(7);
  const std::string_view bytes = "()+-*/%<>=!,0123456789 abmin max#.\n\x01\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = testing::to_string(trees.tree(3));
    for (int edits = 0; edits < 3; ++edits) text[random() % text.size()] = bytes[random() % bytes.size()];
    const Result<Expr> parsed = parse(text);
    if (parsed) {
      EXPECT_EQ(parse(to_string(*parsed)).value(), *parsed) << text;
    } else {
      EXPECT_GT(parsed.diagnostic().where.line, 0) << text << ": " << parsed.diagnostic().message;
    }
  }
}

}  // namespace
}  // namespace tenon::symbolic
