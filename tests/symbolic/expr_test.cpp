#include "symbolic/expr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <unordered_set>

#include "symbolic/format.h"

namespace tenon::symbolic {
namespace {

const Symbol x("x"), y("y");

std::string message(const auto& body) {
  const auto result = attempt(body);
  return result ? "no error" : result.diagnostic().message;
}

TEST(SymbolicSymbol, IsItsName) {
  EXPECT_EQ(Symbol("s0"), Symbol("s0"));
  EXPECT_NE(Symbol("s0"), Symbol("s1"));
  EXPECT_LT(Symbol("s0"), Symbol("s1"));
  EXPECT_EQ(Symbol("model.s0").name(), "model.s0");
}
TEST(SymbolicSymbol, RefusesMalformedNames) {
  EXPECT_EQ(message([] { return Symbol("0s"); }), "'0s' is not a symbol name: it has to match [A-Za-z_][A-Za-z0-9_.]*");
  EXPECT_THROW(Symbol(""), Error);
  EXPECT_THROW(Symbol("a b"), Error);
}
TEST(SymbolicSymbol, IsTheSameInEveryThread) {
  std::vector<std::thread> threads;
  std::vector<std::vector<Symbol>> seen(4);
  for (auto& symbols : seen) {
    threads.emplace_back([&symbols] {
      for (int i = 0; i < 1000; ++i) symbols.emplace_back("thread" + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::ranges::all_of(seen, [&](const auto& symbols) { return symbols == seen[0]; }));
}

TEST(SymbolicExpr, IsSmall) { EXPECT_LE(sizeof(Expr), 24u); }
TEST(SymbolicExpr, DefaultsToZero) { EXPECT_TRUE(Expr().is_constant(0)); }
TEST(SymbolicExpr, TakesAnyInteger) {
  EXPECT_TRUE(Expr(size_t{7}).is_constant(7));
  EXPECT_TRUE(Expr(static_cast<unsigned char>(7)).is_constant(7));
  EXPECT_THROW(Expr(~uint64_t{0}), Error);
}
TEST(SymbolicExpr, HasOperandsInOrderWithTheConstantLast) {
  const Expr expr = 2 * Expr(y) * x + 1;
  ASSERT_EQ(expr.kind(), Kind::kAdd);
  EXPECT_TRUE(expr.operands()[1].is_constant(1));
  const Expr term = expr.operands()[0];
  ASSERT_EQ(term.operands().size(), 3u);
  EXPECT_EQ(term.operands()[0].symbol(), x);
  EXPECT_EQ(term.operands()[1].symbol(), y);
  EXPECT_EQ(term.operands()[2].constant(), 2);
  EXPECT_TRUE(std::ranges::is_sorted(expr.operands()));
  EXPECT_TRUE(std::ranges::is_sorted(term.operands()));
}
TEST(SymbolicExpr, ChecksItsAccessors) {
  EXPECT_THROW(Expr(x).constant(), InternalError);
  EXPECT_THROW(Expr(3).symbol(), InternalError);
}
TEST(SymbolicExpr, EqualityIsStructuralAndHashesAgree) {
  const Expr a = floordiv(x + Expr(3), 4) * y, b = y * floordiv(3 + Expr(x), 4);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a, b + 1);
  EXPECT_EQ((std::unordered_set<Expr>{a, b, Expr(3), Expr(3)}.size()), 2u);
}
TEST(SymbolicExpr, OrderIsTotal) {
  std::vector<Expr> all = {7, 3, x, y, Expr(x) * y, 2 * Expr(x), Expr(x) + y, floordiv(x, 2), min(x, y), lt(x, y)};
  std::ranges::sort(all);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) EXPECT_EQ(all[i] <=> all[j], i <=> j) << i << " and " << j;
  }
}
TEST(SymbolicExpr, PrintsInMessages) { EXPECT_EQ(fmt::format("{}", 2 * Expr(x) + 1), "2*x + 1"); }

TEST(SymbolicExpr, RefusesToNestTooDeep) {
  const auto nest = [] {
    Expr expr = x;
    for (int i = 0; i < 1000; ++i) expr = floordiv(y, expr + 1);
    return expr;
  };
  EXPECT_EQ(message(nest), "the expression nests deeper than 200 levels");
}
TEST(SymbolicExpr, RefusesToGrowTooLarge) {
  const auto grow = [] {
    Expr expr = x;
    for (int i = 0; i < 100; ++i) expr = floordiv(expr, y) * mod(expr, y);
    return expr;
  };
  EXPECT_EQ(message(grow), "the expression is too large: it has more than 65536 nodes");
}

}  // namespace
}  // namespace tenon::symbolic
