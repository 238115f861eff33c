#include "symbolic/c_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/shared_library.h"
#include "tests/symbolic/support_random_expr.h"

namespace tenon::symbolic {
namespace {

std::string text(std::string_view expr, const Ranges& ranges = {}) {
  return to_c(parse(expr).value(), ranges, [](Symbol symbol) { return symbol.name(); });
}

TEST(CText, ReadsLikeC) {
  EXPECT_EQ(text("2*x + y - 3"), "2*x + y - 3");
  EXPECT_EQ(text("-x*y + 1"), "-x*y + 1");
  EXPECT_EQ(text("(x + 1)*(y - 2)*3"), "3*x*y - 6*x + 3*y - 6");
  EXPECT_EQ(text("min(x, y, 3)"), "least(x, least(y, 3))");
  EXPECT_EQ(text("x // 4 + x % y"), "floordiv(x, 4) + floormod(x, y)");
  const Ranges positive = {{Symbol("x"), Interval::at_least(0)}};
  EXPECT_EQ(text("(x + 1) // 4", positive), "(x + 1) / 4");
  EXPECT_EQ(text("x % y", positive), "floormod(x, y)");
}

// What the compiler makes of the text has the value of the expression.
TEST(CText, MeansWhatTheExpressionMeans) {
  constexpr int kCount = 300;
  testing::RandomTrees random(1);
  std::string source = "#include <cstdint>\n" + std::string(kCFunctions);
  std::vector<Expr> exprs;
  std::vector<Bindings> bindings;
  std::vector<int64_t> values;
  while (exprs.size() < kCount) {
    const testing::Tree tree = random.tree(4);
    const Bindings numbers = random.bindings();
    const auto value = attempt([&] { return testing::evaluate(tree, numbers); });
    if (!value.ok() || std::abs(value.value()) > 1'000'000) continue;
    const auto expr = attempt([&] { return testing::build(tree); });
    if (!expr.ok() || !attempt([&] { return evaluate(expr.value(), numbers); }).ok()) continue;
    exprs.push_back(expr.value());
    bindings.push_back(numbers);
    values.push_back(value.value());
  }
  for (size_t i = 0; i < exprs.size(); ++i) {
    source += fmt::format("extern \"C\" int64_t f{}() {{ ", i);
    for (const auto& [symbol, value] : bindings[i])
      source += fmt::format("const int64_t {} = {}; ", symbol.name(), value);
    const Ranges ranges = random.ranges(bindings[i]);
    source += fmt::format("return {}; }}\n", to_c(exprs[i], ranges, [](Symbol symbol) { return symbol.name(); }));
  }
  const auto library = SharedLibrary::compile(source, std::vector<std::string>{"-std=c++17", "-w"});
  for (size_t i = 0; i < exprs.size(); ++i) {
    EXPECT_EQ(library->function<int64_t()>(fmt::format("f{}", i))(), values[i]) << to_string(exprs[i]);
  }
}

}  // namespace
}  // namespace tenon::symbolic
