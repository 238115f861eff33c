#include "runtime/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/error.h"

namespace tenon::runtime {
namespace {

using format::ExprOp;
using testing::HasSubstr;
using Code = std::vector<Instruction>;

constexpr int64_t kLeast = INT64_MIN, kMost = INT64_MAX;

Instruction number(int64_t value) { return {ExprOp::Constant, value}; }
Instruction symbol(int64_t number) { return {ExprOp::Symbol, number}; }
Instruction op(ExprOp op) { return {op, 0}; }
Expr whole(const Code& code) { return {0, static_cast<uint32_t>(code.size())}; }

int64_t apply(ExprOp operation, int64_t a, int64_t b) {
  const Code code = {number(a), number(b), op(operation)};
  verify(whole(code), code, 0);
  return evaluate(whole(code), code, {});
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const StatusError& error) {
    return error.message();
  }
}

std::string verdict(const Code& code, Expr expr, size_t symbols = 0) {
  return error_of([&] { verify(expr, code, symbols); });
}
std::string verdict(const Code& code) { return verdict(code, whole(code)); }

TEST(RuntimeExpr, Arithmetic) {
  EXPECT_EQ(apply(ExprOp::Add, 2, -5), -3);
  EXPECT_EQ(apply(ExprOp::Mul, -2, 5), -10);
  EXPECT_EQ(apply(ExprOp::Min, -2, 5), -2);
  EXPECT_EQ(apply(ExprOp::Max, -2, 5), 5);
}

TEST(RuntimeExpr, DivisionRoundsDownAndTheRestHasTheDivisorsSign) {
  for (int64_t a : {-7, -6, -1, 0, 1, 6, 7}) {
    for (int64_t b : {-3, -1, 1, 3}) {
      const int64_t quotient = apply(ExprOp::FloorDiv, a, b), rest = apply(ExprOp::Mod, a, b);
      EXPECT_EQ(quotient * b + rest, a) << a << ", " << b;
      EXPECT_TRUE(b > 0 ? 0 <= rest && rest < b : b < rest && rest <= 0) << a << ", " << b;
    }
  }
  EXPECT_EQ(apply(ExprOp::Mod, kLeast, -1), 0);
}

TEST(RuntimeExpr, ComparisonsGive1Or0) {
  EXPECT_EQ(apply(ExprOp::Eq, 3, 3), 1);
  EXPECT_EQ(apply(ExprOp::Eq, 3, 4), 0);
  EXPECT_EQ(apply(ExprOp::Ne, 3, 3), 0);
  EXPECT_EQ(apply(ExprOp::Ne, 3, 4), 1);
  EXPECT_EQ(apply(ExprOp::Lt, 3, 3), 0);
  EXPECT_EQ(apply(ExprOp::Lt, 3, 4), 1);
  EXPECT_EQ(apply(ExprOp::Le, 3, 3), 1);
  EXPECT_EQ(apply(ExprOp::Le, 4, 3), 0);
}

// (N + 2) * M - 1, in the middle of a table.
TEST(RuntimeExpr, ReadsItsStretchOfTheTable) {
  const Code code = {number(99),      symbol(0),  number(2),       op(ExprOp::Add), symbol(1),
                     op(ExprOp::Mul), number(-1), op(ExprOp::Add), number(77)};
  const Expr expr(1, 7);
  EXPECT_EQ(verdict(code, expr, 2), "");
  EXPECT_EQ(evaluate(expr, code, std::vector<int64_t>{3, 4}), 19);
}

TEST(RuntimeExpr, WhatDoesNotFitIsAnError) {
  const auto error = [](ExprOp op, int64_t a, int64_t b) { return error_of([&] { apply(op, a, b); }); };
  EXPECT_THAT(error(ExprOp::Add, kMost, 1), HasSubstr("integer overflow: 9223372036854775807 + 1"));
  EXPECT_THAT(error(ExprOp::Mul, kMost, 2), HasSubstr("integer overflow"));
  EXPECT_THAT(error(ExprOp::FloorDiv, kLeast, -1), HasSubstr("integer overflow"));
  EXPECT_EQ(error(ExprOp::FloorDiv, 5, 0), "division by zero: 5 // 0");
  EXPECT_EQ(error(ExprOp::Mod, 5, 0), "division by zero: 5 mod 0");
}

TEST(RuntimeExpr, MalformedOnesAreRefused) {
  const Code one = {number(1)};
  EXPECT_EQ(verdict(one, {0, 2}), "an expression of 2 instructions from 0 on does not fit the table of 1");
  EXPECT_EQ(verdict(one, {2, 0}), "an expression of 0 instructions from 2 on does not fit the table of 1");
  EXPECT_THAT(verdict(one, {1, ~0u}), HasSubstr("does not fit the table of 1"));
  EXPECT_EQ(verdict(one, {0, 0}), "an expression leaves 0 numbers instead of one");
  EXPECT_EQ(verdict({number(1), number(2)}), "an expression leaves 2 numbers instead of one");
  EXPECT_EQ(verdict({number(1), op(ExprOp::Add)}), "an expression lacks an operand");
  EXPECT_EQ(verdict({op(ExprOp::Add)}), "an expression lacks an operand");
  EXPECT_EQ(verdict({op(static_cast<ExprOp>(200))}), "an expression has an unknown operator 200");
  EXPECT_EQ(verdict({symbol(2)}, {0, 1}, 2), "an expression names symbol 2, but there are 2");
  EXPECT_EQ(verdict({symbol(-1)}, {0, 1}, 2), "an expression names symbol -1, but there are 2");
  EXPECT_EQ(verdict({symbol(1)}, {0, 1}, 2), "");
}

// As many numbers wait as the stack has room for, and no more.
TEST(RuntimeExpr, DepthIsLimited) {
  const auto nested = [](uint32_t depth) {
    Code code(depth, number(1));
    code.insert(code.end(), depth - 1, op(ExprOp::Add));
    return code;
  };
  const Code deepest = nested(kDeepestExpr);
  EXPECT_EQ(verdict(deepest), "");
  EXPECT_EQ(evaluate(whole(deepest), deepest, {}), kDeepestExpr);
  EXPECT_EQ(verdict(nested(kDeepestExpr + 1)), "an expression nests deeper than 256");
}

}  // namespace
}  // namespace tenon::runtime
