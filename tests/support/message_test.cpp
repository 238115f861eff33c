#include "support/message.h"

#include <gtest/gtest.h>

#include "symbolic/expr.h"

namespace tenon {
namespace {

TEST(Message, PutsValuesInPlaceOfBraces) {
  EXPECT_EQ(fill_in("nothing"), "nothing");
  EXPECT_EQ(fill_in("{} of {}, {}", 1, 2u, int64_t{-3}), "1 of 2, -3");
  EXPECT_EQ(fill_in("{}{}", std::string("ab"), std::string_view("cd")), "abcd");
  EXPECT_EQ(fill_in("'{}' '{}' {}", "text", 'c', true), "'text' 'c' true");
  EXPECT_EQ(fill_in("{} {} {}", uint8_t{200}, int8_t{-1}, ~uint64_t{0}), "200 -1 18446744073709551615");
}

TEST(Message, GivesNumbersTheFewestDigitsThatReadBack) {
  EXPECT_EQ(fill_in("{} {} {} {}", 0.5, 0.1f, 0.1, 1e30), "0.5 0.1 0.1 1e+30");
}

TEST(Message, KeepsDoubledBraces) { EXPECT_EQ(fill_in("{{{}}} {{}}", 7), "{7} {}"); }

TEST(Message, AValueWithBracesStaysAsItIs) { EXPECT_EQ(fill_in("{} {}", "{}", "}"), "{} }"); }

TEST(Message, AsksOtherTypesForTheirText) {
  EXPECT_EQ(fill_in("size {}", symbolic::Expr(symbolic::Symbol("N")) * 2), "size 2*N");
}

}  // namespace
}  // namespace tenon
