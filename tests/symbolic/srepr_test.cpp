// The strings are what torch 2.13.0 and sympy 1.14.0 print, unless the test says otherwise.
#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

std::string read(std::string_view text) { return to_string(parse_srepr(text).value()); }

std::string error_of(std::string_view text) {
  const Result<Expr> result = parse_srepr(text);
  return result ? "no error" : result.diagnostic().message;
}

// ---- shapes of exported programs ------------------------------------------------------------------------------------

TEST(SymbolicSrepr, Sizes) {
  EXPECT_EQ(read("Symbol('s10', positive=True, integer=True)"), "s10");
  EXPECT_EQ(read("Symbol('u0', integer=True)"), "u0");
}
TEST(SymbolicSrepr, ConcatenatedSize) {
  EXPECT_EQ(read("Add(Mul(Integer(2), Symbol('s10', positive=True, integer=True)), Integer(1))"), "2*s10 + 1");
}
TEST(SymbolicSrepr, Strides) {
  EXPECT_EQ(read("Mul(Integer(3), Symbol('s25', positive=True, integer=True), Symbol('s63', positive=True, "
                 "integer=True))"),
            "3*s25*s63");
}
TEST(SymbolicSrepr, PaddedStride) {
  EXPECT_EQ(read("Mul(Integer(3), Add(Symbol('s25', positive=True, integer=True), Integer(7)), Add(Symbol('s63', "
                 "positive=True, integer=True), Integer(3)))"),
            "3*s25*s63 + 9*s25 + 21*s63 + 63");
}
TEST(SymbolicSrepr, ConvolutionAndPooling) {
  EXPECT_EQ(read("Add(FloorDiv(Add(Symbol('s25', positive=True, integer=True), Integer(-1)), Integer(2)), Integer(1))"),
            "(s25 + 1) // 2");
  EXPECT_EQ(read("Add(FloorDiv(Add(FloorDiv(Add(Symbol('s25', positive=True, integer=True), Integer(-1)), Integer(2)), "
                 "Integer(-1)), Integer(2)), Integer(1))"),
            "(s25 + 1) // 4");
  EXPECT_EQ(read("Mul(Integer(3), Max(Integer(1), FloorDiv(Symbol('s25', positive=True, integer=True), Integer(2))), "
                 "Max(Integer(1), FloorDiv(Symbol('s63', positive=True, integer=True), Integer(2))))"),
            "3*max(s25 // 2, 1)*max(s63 // 2, 1)");
}
TEST(SymbolicSrepr, StridedSlice) {
  EXPECT_EQ(read("FloorDiv(Add(Symbol('s63', positive=True, integer=True), Integer(1)), Integer(2))"),
            "(s63 + 1) // 2");
}
TEST(SymbolicSrepr, SliceToAMultiple) {
  EXPECT_EQ(read("Add(Symbol('s63', positive=True, integer=True), Mul(Integer(-1), Mod(Symbol('s63', positive=True, "
                 "integer=True), Integer(4))))"),
            "4*(s63 // 4)");
}
TEST(SymbolicSrepr, SecondChunk) {
  EXPECT_EQ(read("Add(Symbol('s25', positive=True, integer=True), Mul(Integer(-1), FloorDiv(Add(Symbol('s25', "
                 "positive=True, integer=True), Integer(1)), Integer(2))))"),
            "s25 - (s25 + 1) // 2");
}
TEST(SymbolicSrepr, RoundedUpHalf) {
  EXPECT_EQ(read("Mul(Integer(-1), FloorDiv(Mul(Integer(-1), Symbol('s25', positive=True, integer=True)), "
                 "Integer(2)))"),
            "(s25 + 1) // 2");
  EXPECT_EQ(read("CeilToInt(IntTrueDiv(Symbol('s25', positive=True, integer=True), Integer(2)))"), "(s25 + 1) // 2");
}
TEST(SymbolicSrepr, Reshaped) {
  EXPECT_EQ(read("Mul(Integer(3), Min(Symbol('s63', positive=True, integer=True), Mul(Symbol('s25', positive=True, "
                 "integer=True), Symbol('s63', positive=True, integer=True)), Mul(Integer(3), Symbol('s25', "
                 "positive=True, integer=True), Symbol('s63', positive=True, integer=True))))"),
            "3*min(s25*s63, 3*s25*s63, s63)");
}
TEST(SymbolicSrepr, Clamped) {
  EXPECT_EQ(read("Min(Integer(10), Symbol('s25', positive=True, integer=True))"), "min(s25, 10)");
  EXPECT_EQ(read("Max(Symbol('s25', positive=True, integer=True), Symbol('s63', positive=True, integer=True))"),
            "max(s25, s63)");
}
TEST(SymbolicSrepr, Squared) {
  EXPECT_EQ(read("Pow(Symbol('s25', positive=True, integer=True), Integer(2))"), "s25*s25");
}

// ---- every other function -------------------------------------------------------------------------------------------

TEST(SymbolicSrepr, Modulo) {
  EXPECT_EQ(read("Mod(Symbol('s63', positive=True, integer=True), Integer(4))"), "s63 % 4");
  EXPECT_EQ(read("PythonMod(Symbol('u0', integer=True), Symbol('s1', positive=True, integer=True))"), "u0 % s1");
  EXPECT_EQ(read("ModularIndexing(Symbol('s0', positive=True, integer=True), Integer(2), Integer(3))"),
            "(s0 // 2) % 3");
}
TEST(SymbolicSrepr, Divisions) {
  EXPECT_EQ(read("CleanDiv(Symbol('s0', positive=True, integer=True), Integer(2))"), "s0 // 2");
  EXPECT_EQ(read("CeilDiv(Symbol('s0'), Integer(2))"), "(s0 + 1) // 2");  // torch turns it into a FloorDiv
}
TEST(SymbolicSrepr, RoundedDivisions) {
  EXPECT_EQ(read("FloorToInt(IntTrueDiv(Symbol('s0', positive=True, integer=True), Integer(2)))"), "s0 // 2");
  EXPECT_EQ(read("TruncToInt(ToFloat(Symbol('s0', positive=True, integer=True)))"), "s0");
  const Expr half =
      parse_srepr("TruncToInt(IntTrueDiv(Symbol('s0', positive=True, integer=True), Integer(2)))").value();
  EXPECT_EQ(evaluate(half, {{Symbol("s0"), 7}}), 3);
  EXPECT_EQ(evaluate(half, {{Symbol("s0"), -7}}), -3);
  EXPECT_EQ(to_string(simplify(half, {{Symbol("s0"), Interval::at_least(0)}})), "s0 // 2");
}
TEST(SymbolicSrepr, Shifts) {  // torch turns shifts by a constant into products and quotients
  EXPECT_EQ(read("LShift(Symbol('s0'), Integer(3))"), "8*s0");
  EXPECT_EQ(read("RShift(Symbol('s0'), Integer(3))"), "s0 // 8");
}
TEST(SymbolicSrepr, Comparisons) {
  EXPECT_EQ(read("Equality(Symbol('s0', positive=True, integer=True), Symbol('s1', positive=True, integer=True))"),
            "s0 == s1");
  EXPECT_EQ(read("Unequality(Symbol('s0', positive=True, integer=True), Integer(4))"), "s0 != 4");
  EXPECT_EQ(read("StrictLessThan(Symbol('s0', positive=True, integer=True), Symbol('s1', positive=True, "
                 "integer=True))"),
            "s0 < s1");
  EXPECT_EQ(read("LessThan(Symbol('s0', positive=True, integer=True), Symbol('s1', positive=True, integer=True))"),
            "s0 <= s1");
  EXPECT_EQ(read("StrictGreaterThan(Symbol('s0', positive=True, integer=True), Integer(4))"), "4 < s0");
  EXPECT_EQ(read("GreaterThan(Symbol('u0', integer=True), Integer(0))"), "0 <= u0");
}
TEST(SymbolicSrepr, Booleans) {
  const std::string a = "StrictGreaterThan(Symbol('s0', positive=True, integer=True), Integer(4))";
  const std::string b = "StrictGreaterThan(Symbol('s1', positive=True, integer=True), Integer(2))";
  EXPECT_EQ(read("And(" + a + ", " + b + ")"), "(2 < s1)*(4 < s0)");
  EXPECT_EQ(read("Or(" + a + ", " + b + ")"), "max(2 < s1, 4 < s0)");
  EXPECT_EQ(read("Not(" + a + ")"), "s0 < 5");
  EXPECT_EQ(read("Not(And(" + a + ", " + b + "))"), "-(2 < s1)*(4 < s0) + 1");
  EXPECT_EQ(read("true"), "1");
  EXPECT_EQ(read("false"), "0");
}
TEST(SymbolicSrepr, QualifiedNames) {  // as other versions of sympy and torch print them
  EXPECT_EQ(read("torch.utils._sympy.functions.FloorDiv(Symbol(\"s0\"), Integer(2))"), "s0 // 2");
  EXPECT_EQ(read("S.NegativeOne"), "-1");
  EXPECT_EQ(read("Identity(Mul(Integer(2), Symbol('s0', positive=True, integer=True)))"), "2*s0");
}

// ---- errors ---------------------------------------------------------------------------------------------------------

TEST(SymbolicSreprError, Rational) {
  EXPECT_EQ(error_of("Mul(Rational(1, 2), Symbol('s0', positive=True, integer=True))"),
            "Rational can't be read as an integer expression: it is not an integer; PyTorch's integer division is "
            "FloorDiv");
}
TEST(SymbolicSreprError, Float) {
  EXPECT_EQ(error_of("Float('2.5', precision=53)"),
            "Float can't be read as an integer expression: it is not an integer");
}
TEST(SymbolicSreprError, TrueDivision) {
  EXPECT_EQ(error_of("IntTrueDiv(Symbol('s0', positive=True, integer=True), Integer(2))"),
            "IntTrueDiv can't be read as an integer expression: it is not an integer outside FloorToInt, CeilToInt and "
            "TruncToInt");
  EXPECT_EQ(error_of("CeilToInt(Float('2.5', precision=53))"), "CeilToInt of Float can't be read exactly");
}
TEST(SymbolicSreprError, Rounding) {
  EXPECT_EQ(error_of("RoundToInt(IntTrueDiv(Symbol('s25', positive=True, integer=True), Integer(2)))"),
            "RoundToInt can't be read as an integer expression: rounding to the nearest even integer is not supported");
}
TEST(SymbolicSreprError, Piecewise) {
  EXPECT_EQ(
      error_of("Piecewise(ExprCondPair(Symbol('s25', positive=True, integer=True), StrictGreaterThan(Symbol('s25', "
               "positive=True, integer=True), Symbol('s63', positive=True, integer=True))), "
               "ExprCondPair(Symbol('s63', positive=True, integer=True), true))"),
      "Piecewise can't be read as an integer expression: conditional sizes are not supported");
}
TEST(SymbolicSreprError, Exponent) {
  EXPECT_EQ(error_of("Pow(Symbol('s0', positive=True, integer=True), Integer(-1))"),
            "the exponent -1 is not a natural number");
  EXPECT_EQ(error_of("Pow(Symbol('s0', positive=True, integer=True), Symbol('s1', positive=True, integer=True))"),
            "the exponent s1 is not a natural number");
  EXPECT_EQ(error_of("Pow(Symbol('s0', positive=True, integer=True), Integer(1000000))"),
            "the exponent 1000000 is larger than 64");
}
TEST(SymbolicSreprError, UnknownFunction) {
  EXPECT_EQ(error_of("BitwiseFn_bitwise_and(Symbol('s25', positive=True, integer=True), Integer(3))"),
            "BitwiseFn_bitwise_and is not a function of integer expressions");
  EXPECT_EQ(error_of("FloorDivv(Integer(1), Integer(2))"),
            "FloorDivv is not a function of integer expressions; did you mean 'FloorDiv'?");
}
TEST(SymbolicSreprError, NumberOfArguments) {
  EXPECT_EQ(error_of("FloorDiv(Integer(1))"), "FloorDiv takes 2 arguments, got 1");
  EXPECT_EQ(error_of("Max()"), "Max takes 1 or more arguments, got 0");
}
TEST(SymbolicSreprError, Infinity) {
  EXPECT_EQ(error_of("int_oo"), "int_oo can't be read as an integer expression: infinity is not an integer");
}
TEST(SymbolicSreprError, LargeInteger) {
  EXPECT_EQ(error_of("Integer(10000000000000000000000000)"), "an integer does not fit 64 bits");
}
TEST(SymbolicSreprError, SymbolName) {
  EXPECT_EQ(error_of("Symbol(\"it's\", integer=True)"),
            "'it's' is not a symbol name: it has to match [A-Za-z_][A-Za-z0-9_.]*");
}
TEST(SymbolicSreprError, DivisionByZeroSaysWhere) {
  const Result<Expr> result =
      parse_srepr("Add(Integer(1),\n  FloorDiv(Symbol('s0'), Integer(0)))", {"model.json", 7, 1});
  EXPECT_EQ(result.diagnostic().text(), "model.json:8:3: error: division by zero: s0 // 0");
}
TEST(SymbolicSreprError, Syntax) {
  EXPECT_EQ(error_of("Add(Integer(1)"), "expected ')', got the end of the text");
  EXPECT_EQ(error_of("Integer(1))"), "expected the end of the expression, got ')'");
  EXPECT_EQ(error_of("Symbol('s0"), "expected ''', got the end of the text");
}
TEST(SymbolicSreprError, DeepNestingIsNoStackOverflow) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "Add(";
  EXPECT_EQ(error_of(text), "the expression nests deeper than 200 levels");
}

}  // namespace
}  // namespace tenon::symbolic
