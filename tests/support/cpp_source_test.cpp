#include "support/cpp_source.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(CppSource, TellsNamesFromOtherWords) {
  for (const char* word : {"x", "N", "m_1", "Batch", "x2"}) EXPECT_TRUE(is_cpp_name(word)) << word;
  for (const char* word : {"", "2x", "_x", "a.b", "int", "co_await", "errno", "EOF", "M_PI"}) {
    EXPECT_FALSE(is_cpp_name(word)) << word;
  }
}

TEST(CppSource, GivesEachKeyANameOfItsOwn) {
  CppNames names({"load"});
  EXPECT_EQ(names.get("1", "m"), "m");
  EXPECT_EQ(names.get("2", "m"), "m_");
  EXPECT_EQ(names.get("1", "other"), "m");
  EXPECT_EQ(names.get("3", "int"), "int_v");
  EXPECT_EQ(names.get("4", "7"), "v7");
  EXPECT_EQ(names.get("5", "a.b"), "a_b");
  EXPECT_EQ(names.get("6", "load"), "load_");
}

constexpr std::string_view kText = R"(// A file of f(x) and others.
#include <cmath>

// One (1).
inline int one() { return 1; }

// ---- others ----

template <class T>
T two(T x) {
  return x + one();
}

inline int three() { return 3; }
)";

TEST(CppSource, PicksTheFunctionsThatAreUsed) {
  const CppFunctions functions({kText});
  EXPECT_EQ(functions.names(), (std::set<std::string, std::less<>>{"one", "two", "three"}));
  EXPECT_EQ(functions.used_by("nothing"), "");
  EXPECT_EQ(
      functions.used_by("two(2)"),
      "// One (1).\ninline int one() { return 1; }\n\ntemplate <class T>\nT two(T x) {\n  return x + one();\n}\n\n");
}

}  // namespace
}  // namespace tenon
