#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

const Symbol s0("s0"), s1("s1"), s2("s2"), k("k"), n("n"), o("o");

Expr expr(std::string_view text) { return parse(text).value(); }

std::string message(const auto& result) { return result ? "no error" : result.diagnostic().message; }

// ---- differentiate and intercept ------------------------------------------------------------------------------------

TEST(SymbolicAffine, HasASlopeAndAnOffset) {
  EXPECT_EQ(differentiate(expr("12*s0 + 3*s1 + 5"), s0).value(), 12);
  EXPECT_EQ(intercept(expr("12*s0 + 3*s1 + 5"), s0).value(), expr("3*s1 + 5"));
}
TEST(SymbolicAffine, SlopesMayBeSymbolic) {
  EXPECT_EQ(differentiate(expr("s0*(s1 + 2) + s1 // 2"), s0).value(), expr("s1 + 2"));
  EXPECT_EQ(intercept(expr("s0*(s1 + 2) + s1 // 2"), s0).value(), expr("s1 // 2"));
}
TEST(SymbolicAffine, OfWhatDoesNotDependOnTheSymbol) {
  EXPECT_EQ(differentiate(expr("s1 // 4"), s0).value(), 0);
  EXPECT_EQ(intercept(expr("s1 // 4"), s0).value(), expr("s1 // 4"));
}
TEST(SymbolicAffine, OfProductsThatAreNotDistributed) {
  Expr wide = s0;
  for (int i = 0; i < 80; ++i) wide += Symbol("wide" + std::to_string(i));
  const Expr other = wide - s0 + 1;
  const Expr product = wide * other;
  ASSERT_EQ(product.kind(), Kind::kMul);
  EXPECT_EQ(differentiate(product, s0).value(), other);
}
TEST(SymbolicAffine, OfOthersIsAnError) {
  EXPECT_EQ(message(differentiate(expr("s0 // 4 + 1"), s0)), "s0 // 4 is not affine in s0");
  EXPECT_EQ(message(differentiate(expr("s0*s0*s1"), s0)), "s0*s0*s1 is not affine in s0");
  EXPECT_EQ(message(intercept(expr("min(s0, s1)"), s0)), "min(s0, s1) is not affine in s0");
  EXPECT_EQ(message(intercept(expr("s0 < s1"), s1)), "s0 < s1 is not affine in s1");
}

// ---- solve ----------------------------------------------------------------------------------------------------------

TEST(SymbolicSolve, BindsSymbols) {
  const std::vector<Equation> equations = {{s0, 3, "x"}, {s1, 5, "y"}};
  EXPECT_EQ(solve(equations).value(), (Bindings{{s0, 3}, {s1, 5}}));
}
TEST(SymbolicSolve, InvertsAffineSizes) {
  const std::vector<Equation> equations = {{expr("2*s0 + 1"), 7, "x"}, {expr("6 - 3*s1"), 12, "y"}};
  EXPECT_EQ(solve(equations).value(), (Bindings{{s0, 3}, {s1, -2}}));
}
TEST(SymbolicSolve, UsesEquationsInTheOrderThatWorks) {
  const std::vector<Equation> equations = {
      {expr("s0*s1"), 15, "x"}, {expr("s2 // s0"), 2, "y"}, {s0, 3, "z"}, {expr("s2 - s1"), 2, "w"}};
  EXPECT_EQ(solve(equations).value(), (Bindings{{s0, 3}, {s1, 5}, {s2, 7}}));
}
TEST(SymbolicSolve, OfNothingIsNothing) { EXPECT_TRUE(solve({}).value().empty()); }

TEST(SymbolicSolveError, Conflict) {
  const std::vector<Equation> equations = {{s0, 3, "dimension 0 of input x"}, {s0, 4, "dimension 0 of input y"}};
  EXPECT_EQ(message(solve(equations)),
            "dimension 0 of input y: s0 == 4 is false, where s0 = 3 from dimension 0 of input x");
}
TEST(SymbolicSolveError, ConflictWithAConstant) {
  const std::vector<Equation> equations = {{3, 4, "dimension 1 of input x"}};
  EXPECT_EQ(message(solve(equations)), "dimension 1 of input x: 3 == 4 is false");
}
TEST(SymbolicSolveError, ConflictOfADerivedSize) {
  const std::vector<Equation> equations = {{s0, 7, "x"}, {expr("s0 // 2"), 4, "y"}};
  EXPECT_EQ(message(solve(equations)), "y: s0 // 2 == 4 is false, where s0 = 7 from x");
}
TEST(SymbolicSolveError, NoIntegerSolution) {
  const std::vector<Equation> equations = {{expr("2*s0 + 1"), 8, "dimension 0 of input x"}};
  EXPECT_EQ(message(solve(equations)), "dimension 0 of input x: 2*s0 + 1 == 8 has no integer solution for s0");
}
TEST(SymbolicSolveError, OutsideTheRange) {
  const std::vector<Equation> equations = {{expr("2*s0"), 2, "dimension 0 of input x"}};
  EXPECT_EQ(message(solve(equations, {{s0, {2, 64}}})),
            "dimension 0 of input x: 2*s0 == 2 gives s0 = 1, which is outside its range [2, 64]");
}
TEST(SymbolicSolveError, Undetermined) {
  const std::vector<Equation> equations = {{expr("s0 + s1"), 8, "dimension 0 of input x"}};
  EXPECT_EQ(message(solve(equations)), "dimension 0 of input x: s0 + s1 == 8 does not determine s0, s1");
  const std::vector<Equation> quotient = {{expr("s0 // 2"), 8, "dimension 0 of input x"}};
  EXPECT_EQ(message(solve(quotient)), "dimension 0 of input x: s0 // 2 == 8 does not determine s0");
}
TEST(SymbolicSolveError, NamesTheEquationThatOverflows) {
  const std::vector<Equation> equations = {{s0, int64_t{1} << 40, "x"}, {expr("s0*s0 + s1"), 0, "y"}};
  EXPECT_EQ(message(solve(equations)),
            "y: s0*s0 + s1 == 0: integer overflow: 1099511627776 * 1099511627776 does not fit 64 bits");
}

// ---- solve_for ------------------------------------------------------------------------------------------------------

TEST(SymbolicSolveFor, InfersSizes) {
  const std::vector<SymbolicEquation> equations = {{expr("2*o + k - 2"), n, "conv"}, {o, 8, "o"}, {k, 3, "k"}};
  const std::vector<Symbol> unknowns = {n, o, k};
  EXPECT_EQ(solve_for(equations, unknowns).value(), (Substitution{{k, 3}, {n, 17}, {o, 8}}));
}
TEST(SymbolicSolveFor, AnswersInTermsOfTheOthers) {
  const std::vector<SymbolicEquation> equations = {{expr("2*o + k"), expr("2*n + 4"), "conv"}, {k, 2, "k"}};
  EXPECT_EQ(solve_for(equations, std::vector{o, k}).value(), (Substitution{{k, 2}, {o, n + Expr(1)}}));
}
TEST(SymbolicSolveFor, DividesBySymbolicSlopes) {
  const std::vector<SymbolicEquation> equations = {{expr("s0*o"), expr("s0*n + 3*s0"), "reshape"}};
  EXPECT_EQ(solve_for(equations, std::vector{o}).value(), (Substitution{{o, n + Expr(3)}}));
}
TEST(SymbolicSolveFor, ChecksEquationsWithoutUnknowns) {
  const std::vector<SymbolicEquation> holds = {{o, n, "x"}, {expr("2*o"), expr("n + n"), "y"}};
  EXPECT_EQ(solve_for(holds, std::vector{o}).value(), (Substitution{{o, n}}));
}

TEST(SymbolicSolveForError, Conflict) {
  const std::vector<SymbolicEquation> equations = {{o, n, "x"}, {o, expr("n + 1"), "y"}};
  EXPECT_EQ(message(solve_for(equations, std::vector{o})), "y: o == n + 1 is false, where o = n from x");
}
TEST(SymbolicSolveForError, WhatDoesNotFollow) {
  const std::vector<SymbolicEquation> equations = {{n, k, "x"}};
  EXPECT_EQ(message(solve_for(equations, {})), "x: n == k does not follow");
}
TEST(SymbolicSolveForError, NoIntegerSolution) {
  const std::vector<SymbolicEquation> equations = {{expr("2*o"), n, "x"}};
  EXPECT_EQ(message(solve_for(equations, std::vector{o})), "x: 2*o == n has no integer solution for o");
}
TEST(SymbolicSolveForError, UnknownWithoutEquation) {
  EXPECT_EQ(message(solve_for({}, std::vector{o})), "no equation determines o");
}

}  // namespace
}  // namespace tenon::symbolic
