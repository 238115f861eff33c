// Simplification with the ranges of symbols.
#include <algorithm>
#include <numeric>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

// The rounds of simplification, in the rare case that the rules do not settle.
constexpr int kMaxRounds = 8;
// Operands of a minimum are compared pairwise up to this number.
constexpr size_t kMaxPairwise = 32;

// a == step*multiple + rest, where 0 <= rest < step
struct Split {
  int64_t step;
  Expr multiple;
  Expr rest;
};

class Simplifier {
 public:
  explicit Simplifier(const Ranges& ranges) : ranges_(ranges) {}

  Expr simplified(const Expr& expr) const {
    Expr result = expr;
    for (int round = 0; round < kMaxRounds; ++round) {
      const Expr before = result;
      result = rewritten(map_operands(result, [&](const Expr& operand) { return simplified(operand); }));
      if (result == before) break;
    }
    return result;
  }

 private:
  Expr rewritten(const Expr& expr) const {
    if (expr.is_constant()) return expr;
    const Interval range = bounds(expr, ranges_);
    if (range.is_single()) return range.low;
    switch (expr.kind()) {
      case Kind::kFloorDiv:
        return rewritten_quotient(expr);
      case Kind::kMod:
        return rewritten_modulo(expr);
      case Kind::kMin:
      case Kind::kMax:
        return rewritten_extremum(expr);
      default:
        return expr;
    }
  }

  // (g*x + rest) // (g*c) == x // c where 0 <= rest < g
  Expr rewritten_quotient(const Expr& expr) const {
    const Expr &a = expr.operands()[0], &b = expr.operands()[1];
    if (b.is_constant()) {
      const auto split = split_dividend(a, b.constant());
      return split ? floordiv(split->multiple, b.constant() / split->step) : expr;
    }
    if (is_below(a, b)) return 0;
    // x // y // z == x // (y*z) where z is positive
    if (a.kind() == Kind::kFloorDiv && is_positive(b)) return floordiv(a.operands()[0], a.operands()[1] * b);
    return expr;
  }

  // (g*x + rest) % (g*c) == g*(x % c) + rest where 0 <= rest < g
  Expr rewritten_modulo(const Expr& expr) const {
    const Expr &a = expr.operands()[0], &b = expr.operands()[1];
    if (!b.is_constant()) return is_below(a, b) ? a : expr;
    const auto split = split_dividend(a, b.constant());
    return split ? split->step * mod(split->multiple, b.constant() / split->step) + split->rest : expr;
  }

  // 0 <= a < b
  bool is_below(const Expr& a, const Expr& b) const {
    return bounds(a, ranges_).low >= 0 && bounds(b - a, ranges_).low > 0;
  }
  bool is_positive(const Expr& a) const { return bounds(a, ranges_).low > 0; }

  // The largest divisor of c that some terms are multiples of, while the others are known to be less.
  std::optional<Split> split_dividend(const Expr& a, int64_t c) const {
    std::vector<int64_t> steps = {c};
    for (const Expr& term : terms(a)) {
      if (!term.is_constant()) steps.push_back(std::gcd(coefficient(term), c));
    }
    std::ranges::sort(steps, std::greater());
    for (const int64_t step : steps) {
      if (step == 1) return std::nullopt;
      if (auto split = split_by(a, step)) return split;
    }
    return std::nullopt;
  }

  std::optional<Split> split_by(const Expr& a, int64_t step) const {
    std::vector<Expr> multiples, others;
    for (const Expr& term : terms(a)) {
      const bool is_multiple = !term.is_constant() && coefficient(term) % step == 0;
      (is_multiple ? multiples : others).push_back(term);
    }
    const Expr rest = sum(others);
    const Interval range = bounds(rest, ranges_);
    if (!range.is_bounded() || checked_floordiv(range.low, step) != checked_floordiv(range.high, step)) return {};
    const int64_t quotient = checked_floordiv(range.low, step);
    return Split{step, divide_terms(sum(multiples), step) + quotient, rest - checked_mul(quotient, step)};
  }

  // min(x, y) == x where x <= y
  Expr rewritten_extremum(const Expr& expr) const {
    std::vector<Expr> kept(expr.operands().begin(), expr.operands().end());
    if (kept.size() > kMaxPairwise) return expr;
    const bool is_min = expr.kind() == Kind::kMin;
    for (size_t i = 0; i < kept.size();) {
      const auto is_better = [&](const Expr& other) {
        return other != kept[i] && bounds(is_min ? kept[i] - other : other - kept[i], ranges_).low >= 0;
      };
      if (std::ranges::any_of(kept, is_better)) {
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return kept.size() == expr.operands().size() ? expr : extremum(expr.kind(), kept);
  }

  const Ranges& ranges_;
};

}  // namespace

Expr simplify(const Expr& expr, const Ranges& ranges) {
  try {
    return Simplifier(ranges).simplified(expr);
  } catch (const Error&) {
    return expr;
  }
}

bool provably_equal(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (a == b) return true;
  try {
    return simplify(a - b, ranges).is_constant(0);
  } catch (const Error&) {
    return false;
  }
}

bool provably_less_equal(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (a == b) return true;
  try {
    return bounds(simplify(b - a, ranges), ranges).low >= 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tenon::symbolic
