// What has to hold of every expression, checked on random ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "symbolic/format.h"
#include "tests/symbolic/support_random_expr.h"

namespace tenon::symbolic {
namespace {

using testing::RandomTrees;
using testing::Tree;

constexpr bool is_sanitized() {
#ifdef __has_feature
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

// Sanitizers make each expression twenty times slower.
constexpr int kExpressions = is_sanitized() ? 10'000 : 100'000;
constexpr int kDepth = 5;

std::optional<Expr> try_build(const Tree& tree) {
  const Result<Expr> built = attempt([&] { return testing::build(tree); });
  return built ? std::optional(*built) : std::nullopt;
}

std::optional<int64_t> try_evaluate(const Tree& tree, const Bindings& bindings) {
  const Result<int64_t> value = attempt([&] { return testing::evaluate(tree, bindings); });
  return value ? std::optional(*value) : std::nullopt;
}

// The value, or the message: so that a failure says what went wrong.
std::string outcome(const Expr& expr, const Bindings& bindings) {
  const Result<int64_t> value = attempt([&] { return evaluate(expr, bindings); });
  return value ? std::to_string(*value) : value.diagnostic().message;
}

// A tree that has a value, and the expression that it was built into.
struct Sample {
  Tree tree;
  Expr expr;
  Bindings bindings;
  int64_t value;

  std::string describe() const {
    std::string text = fmt::format("{}\n  became {}\n  at", testing::to_string(tree), expr);
    for (const auto& [symbol, bound] : bindings) text += fmt::format(" {}={}", symbol.name(), bound);
    return text;
  }
};

template <class Check>
void for_random_samples(uint64_t seed, int count, const Check& check) {
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
    check(random, Sample{tree, *expr, bindings, *value});
  }
  if (::testing::Test::HasFailure()) return;
  EXPECT_GT(compared, count / 2) << "the generator makes too few expressions that have a value";
  EXPECT_LT(refused, count / 1000) << "the operators refuse expressions that have a value";
}

void expect_text_parses_back(const Sample& sample) {
  const Expr parsed = parse(to_string(sample.expr)).value();
  EXPECT_EQ(to_string(parsed), to_string(sample.expr)) << sample.describe();
  EXPECT_TRUE(parsed == sample.expr && parsed.hash() == sample.expr.hash()) << sample.describe();
}

void expect_ranges_are_respected(const Sample& sample, const Ranges& ranges) {
  const Interval interval = bounds(sample.expr, ranges);
  EXPECT_TRUE(interval.contains(sample.value)) << to_string(interval) << " lacks " << sample.value << "\n"
                                               << sample.describe();
  const Expr simpler = simplify(sample.expr, ranges);
  EXPECT_EQ(outcome(simpler, sample.bindings), std::to_string(sample.value))
      << sample.describe() << "\n  simplified to " << to_string(simpler);
}

TEST(SymbolicProperty, EveryFormHasTheValueOfWhatWasWritten) {
  for_random_samples(1, kExpressions, [](RandomTrees& random, const Sample& sample) {
    EXPECT_EQ(outcome(sample.expr, sample.bindings), std::to_string(sample.value)) << sample.describe();
    expect_text_parses_back(sample);
    expect_ranges_are_respected(sample, random.ranges(sample.bindings));
  });
}

TEST(SymbolicProperty, SubstitutionHasTheValueOfWhatWasReplaced) {
  for_random_samples(2, kExpressions / 4, [](RandomTrees& random, const Sample& sample) {
    const Tree by = random.tree(2);
    const Tree tree = testing::substitute(sample.tree, 0, by);
    const std::optional<int64_t> value = try_evaluate(tree, sample.bindings);
    const std::optional<Expr> replacement = try_build(by);
    if (!value || !replacement) return;
    const Result<Expr> expr = attempt([&] { return substitute(sample.expr, {{testing::symbols()[0], *replacement}}); });
    if (!expr) return;  // one of its constants overflows
    EXPECT_EQ(outcome(*expr, sample.bindings), std::to_string(*value))
        << Sample{tree, *expr, sample.bindings, *value}.describe();
  });
}

// Sums and products of symbols and constants, where the canonical form is complete: equal polynomials are one Expr.
TEST(SymbolicProperty, PolynomialsDoNotDependOnHowTheyAreWritten) {
  RandomTrees random(3);
  const auto polynomial = [&] {
    Expr result = 0;
    for (const auto& [symbol, value] : random.bindings()) result += (value % 5) * Expr(symbol) + value % 7;
    return result;
  };
  for (int i = 0; i < 2'000; ++i) {
    const Expr a = polynomial(), b = polynomial(), c = polynomial();
    EXPECT_EQ(a + (b + c), (c + a) + b);
    EXPECT_EQ(a * b, b * a);
    EXPECT_EQ(a * (b - c), a * b - c * a);
    EXPECT_EQ((a + b) * (a - b), a * a - b * b);
    if (!b.is_constant()) EXPECT_EQ(floordiv(a * b, b), a) << to_string(a) << " and " << to_string(b);
  }
}

}  // namespace
}  // namespace tenon::symbolic
