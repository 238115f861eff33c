// What has to hold of every expression, checked on random ones.
#include <gtest/gtest.h>

#include "tests/symbolic/support_random_expr.h"

namespace tenon::symbolic {
namespace {

using testing::RandomTrees;
using testing::Tree;

constexpr int kExpressions = 100'000;
constexpr int kDepth = 5;

std::optional<Expr> try_build(const Tree& tree) {
  const Result<Expr> built = capture([&] { return testing::build(tree); });
  return built ? std::optional(*built) : std::nullopt;
}

std::optional<int64_t> try_evaluate(const Tree& tree, const Bindings& bindings) {
  const Result<int64_t> value = capture([&] { return testing::evaluate(tree, bindings); });
  return value ? std::optional(*value) : std::nullopt;
}

// The value, or the message: so that a failure says what went wrong.
std::string outcome(const Expr& expr, const Bindings& bindings) {
  const Result<int64_t> value = capture([&] { return evaluate(expr, bindings); });
  return value ? std::to_string(*value) : value.diagnostic().message;
}

std::string describe(const Tree& tree, const Expr& expr, const Bindings& bindings) {
  std::string text = fmt::format("{}\n  became {}\n  at", testing::to_string(tree), expr);
  for (const auto& [symbol, value] : bindings) text += fmt::format(" {}={}", symbol.name(), value);
  return text;
}

// Runs `check(tree, expr, bindings, value)` on trees that have a value and an expression.
template <class Check>
void for_random_trees(uint64_t seed, int count, const Check& check) {
  RandomTrees random(seed);
  int compared = 0, refused = 0;
  for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    const Tree tree = random.tree(kDepth);
    const Bindings bindings = random.bindings();
    const std::optional<int64_t> value = try_evaluate(tree, bindings);
    const std::optional<Expr> expr = try_build(tree);
    refused += value && !expr;
    if (!value || !expr) continue;
    ++compared;
    check(random, tree, *expr, bindings, *value);
  }
  if (::testing::Test::HasFailure()) return;
  EXPECT_GT(compared, count / 2) << "the generator makes too few expressions that have a value";
  EXPECT_LT(refused, count / 100) << "the operators refuse expressions that have a value";
}

TEST(SymbolicProperty, CanonicalFormKeepsTheValue) {
  for_random_trees(1, kExpressions, [](RandomTrees&, const Tree& tree, const Expr& expr, const Bindings& bindings, int64_t value) {
    EXPECT_EQ(outcome(expr, bindings), std::to_string(value)) << describe(tree, expr, bindings);
  });
}

TEST(SymbolicProperty, SimplifyKeepsTheValueWithinTheRanges) {
  for_random_trees(2, kExpressions, [](RandomTrees& random, const Tree& tree, const Expr& expr, const Bindings& bindings, int64_t value) {
    const Ranges ranges = random.ranges(bindings);
    const Expr simpler = simplify(expr, ranges);
    EXPECT_EQ(outcome(simpler, bindings), std::to_string(value)) << describe(tree, expr, bindings) << "\n  simplified " << to_string(simpler);
  });
}

TEST(SymbolicProperty, BoundsContainTheValue) {
  for_random_trees(3, kExpressions, [](RandomTrees& random, const Tree& tree, const Expr& expr, const Bindings& bindings, int64_t value) {
    const Interval interval = bounds(expr, random.ranges(bindings));
    EXPECT_TRUE(interval.contains(value)) << value << " is outside " << to_string(interval) << "\n" << describe(tree, expr, bindings);
  });
}

TEST(SymbolicProperty, TextParsesBackToTheSameExpression) {
  for_random_trees(4, kExpressions, [](RandomTrees&, const Tree& tree, const Expr& expr, const Bindings& bindings, int64_t) {
    const Expr parsed = parse(to_string(expr)).value();
    EXPECT_EQ(to_string(parsed), to_string(expr)) << describe(tree, expr, bindings);
    EXPECT_TRUE(parsed == expr && parsed.hash() == expr.hash()) << describe(tree, expr, bindings);
  });
}

TEST(SymbolicProperty, SubstituteKeepsTheValue) {
  for_random_trees(5, kExpressions / 4, [](RandomTrees& random, const Tree& tree, const Expr& expr, const Bindings& bindings, int64_t) {
    const Tree replacement = random.tree(2);
    const Tree replaced = testing::substitute(tree, 0, replacement);
    const std::optional<int64_t> value = try_evaluate(replaced, bindings);
    const std::optional<Expr> by = try_build(replacement);
    if (!value || !by) return;
    const Result<Expr> result = capture([&] { return substitute(expr, {{testing::symbols()[0], *by}}); });
    if (!result) return;  // a constant overflows
    EXPECT_EQ(outcome(*result, bindings), std::to_string(*value)) << describe(replaced, *result, bindings);
  });
}

}  // namespace
}  // namespace tenon::symbolic
