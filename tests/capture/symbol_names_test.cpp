#include "capture/symbol_names.h"

#include <gmock/gmock.h>

namespace tenon {
namespace {

using symbolic::Symbol;

std::map<std::string, std::string> names_of(const std::vector<SizedInput>& inputs,
                                            const std::map<Symbol, std::string>& named = {},
                                            const std::set<Symbol>& taken = {}) {
  std::map<std::string, std::string> names;
  for (const auto& [symbol, name] : readable_names(inputs, named, taken)) names[symbol.name()] = name.name();
  return names;
}

using Names = std::map<std::string, std::string>;
const Symbol a("s1"), b("s2"), c("s3");

TEST(SymbolNames, AreTheFirstPlaceWhereASymbolStandsAlone) {
  EXPECT_EQ(names_of({{"x", {2 * a, 4}}, {"y", {b, a}}, {"z", {a, b}}}), (Names{{"s1", "y.1"}, {"s2", "y.0"}}));
}

TEST(SymbolNames, DimensionsComeBeforeNumbers) {
  EXPECT_EQ(names_of({{"n", {a}, true}, {"m", {b}, true}, {"x", {a}}}), (Names{{"s1", "x.0"}, {"s2", "m"}}));
}

TEST(SymbolNames, ASymbolWithinExpressionsKeepsItsName) {
  EXPECT_EQ(names_of({{"x", {2 * a + b}}, {"n", {3 * c}, true}}), (Names{{"s1", "s1"}, {"s2", "s2"}, {"s3", "s3"}}));
}

TEST(SymbolNames, TheUsersComeFirst) {
  EXPECT_EQ(names_of({{"x", {2 * a, b}}, {"batch", {c}, true}}, {{a, "batch"}, {Symbol("s9"), "unused"}}),
            (Names{{"s1", "batch"}, {"s2", "x.1"}, {"s3", "batch_2"}}));
}

TEST(SymbolNames, AreUnique) {
  EXPECT_EQ(names_of({{"u0", {a}, true}, {"u0", {b}, true}, {"x", {3 * c}}}, {}, {Symbol("u0"), c}),
            (Names{{"s1", "u0_2"}, {"s2", "u0_3"}, {"s3", "s3_2"}}));
  EXPECT_EQ(names_of({{"x", {a, b}}}, {{a, "x.1"}}), (Names{{"s1", "x.1"}, {"s2", "x.1_2"}}));
  EXPECT_EQ(names_of({{"s2", {a}, true}, {"y", {2 * b}}}), (Names{{"s1", "s2"}, {"s2", "s2_2"}}));
}

TEST(SymbolNames, AreValid) {
  EXPECT_EQ(names_of({{"1 x\"\n", {a}}, {"", {b}}, {"nan", {c}, true}}),
            (Names{{"s1", "_1_x__.0"}, {"s2", "_.0"}, {"s3", "_nan"}}));
  EXPECT_EQ(names_of({{"x", {a}}}, {{a,
                                     "gr\xc3\xb6\xc3\x9f"
                                     "e"}}),
            (Names{{"s1", "gr____e"}}));
}

TEST(SymbolNames, AreInMessagesOfPyTorch) {
  const SymbolNames names = {{a, Symbol("batch")}, {b, Symbol("x.1")}};
  EXPECT_EQ(with_readable_names("Runtime assertion failed for expression s1*s2 >= s11 on node 'ge'", names),
            "Runtime assertion failed for expression batch*x.1 >= s11 on node 'ge'");
  EXPECT_EQ(with_readable_names("s1 is what I call it", names), "s1 is what I call it");
}

}  // namespace
}  // namespace tenon
