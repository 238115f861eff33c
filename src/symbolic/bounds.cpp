#include <algorithm>

#include "symbolic/canonical.h"
#include "symbolic/interval.h"

namespace tenon::symbolic {
namespace {

// How many terms of sums are opened up for one question: each costs another walk.
constexpr int kMaxOpened = 64;

class Bounder {
 public:
  explicit Bounder(const Ranges& ranges) : ranges_(ranges) {}

  Interval of(const Expr& expr) {
    switch (expr.kind()) {
      case Kind::kConstant:
        return Interval::exactly(expr.constant());
      case Kind::kSymbol:
        return known(expr.symbol());
      case Kind::kAdd:
        return of_sum(expr);
      case Kind::kMul:
        return of_product(expr);
      case Kind::kFloorDiv:
        return floordiv(of(expr.operands()[0]), of(expr.operands()[1]));
      case Kind::kMod:
        return mod(of(expr.operands()[0]), of(expr.operands()[1]));
      case Kind::kMin:
      case Kind::kMax:
        return of_extremum(expr.kind(), expr.operands());
      default:
        return compare(expr.kind(), of(expr.operands()[0]), of(expr.operands()[1]));
    }
  }

 private:
  Interval known(Symbol symbol) const {
    const auto found = ranges_.find(symbol);
    return found == ranges_.end() ? Interval::all() : found->second;
  }

  Interval of_product(const Expr& expr) {
    Interval result = Interval::exactly(coefficient(expr));
    const auto all = factors(expr);
    for (auto first = all.begin(); first != all.end();) {
      const auto last = std::find_if(first, all.end(), [&](const Expr& factor) { return factor != *first; });
      result = result * power(of(*first), static_cast<int>(last - first));
      first = last;
    }
    return result;
  }

  Interval of_extremum(Kind kind, std::span<const Expr> operands) {
    Interval result = of(operands[0]);
    for (const Expr& operand : operands.subspan(1)) {
      const Interval next = of(operand);
      result = kind == Kind::kMin ? min(result, next) : max(result, next);
    }
    return result;
  }

  Interval of_sum(const Expr& expr) {
    Interval result = Interval::exactly(0);
    for (const Expr& term : expr.operands()) result = result + of(term);
    if (result.is_single()) return result;
    for (const Expr& term : expr.operands()) {
      if (factors(term).size() == 1 && opened_ < kMaxOpened) result = intersect(result, of_opened(expr, term));
    }
    return result;
  }

  // The bounds of a sum, term by term, ignore that terms share symbols: x - x // 2 is not negative if x is not. Opening
  // a term lets its parts cancel against the rest.
  Interval of_opened(const Expr& sum, const Expr& term) {
    try {
      const Expr& factor = factors(term)[0];
      if (factor.kind() == Kind::kFloorDiv) return of_opened_quotient(sum, term);
      if (factor.kind() == Kind::kMin || factor.kind() == Kind::kMax) return of_opened_extremum(sum, term);
      return Interval::all();
    } catch (const Error&) {  // The opened sum overflows, or is too large. The closed one has bounds as well.
      return Interval::all();
    }
  }

  // c*(rest + k*(a // c)) == c*rest + k*a - k*(a % c)
  Interval of_opened_quotient(const Expr& sum, const Expr& term) {
    const Expr &a = factors(term)[0].operands()[0], &c = factors(term)[0].operands()[1];
    if (!c.is_constant() || !shares_terms(sum - term, a)) return Interval::all();
    ++opened_;
    const int64_t k = coefficient(term);
    const Expr opened_sum = (sum - term) * c + scale(a, k);
    const Interval modulo = Interval::exactly(k) * Interval{0, c.constant() - 1};
    return divide_multiples(of(opened_sum) + -modulo, c.constant());
  }

  // rest + k*min(a, b) == min(rest + k*a, rest + k*b), and a maximum when k is negative
  Interval of_opened_extremum(const Expr& sum, const Expr& term) {
    const Expr& extremum = factors(term)[0];
    const Expr rest = sum - term;
    const auto shares = [&](const Expr& operand) { return shares_terms(rest, operand); };
    if (std::ranges::none_of(extremum.operands(), shares)) return Interval::all();
    ++opened_;
    std::vector<Expr> sums;
    for (const Expr& operand : extremum.operands()) sums.push_back(rest + scale(operand, coefficient(term)));
    const bool is_min = (extremum.kind() == Kind::kMin) == (coefficient(term) > 0);
    return of_extremum(is_min ? Kind::kMin : Kind::kMax, sums);
  }

  // Whether `rest` shares a term with `part`, directly or inside of an operand of one of its terms.
  static bool shares_terms(const Expr& rest, const Expr& part) {
    const auto is_in_part = [&](const Expr& term) {
      const auto is_alike = [&](const Expr& other) { return compare_monomials(term, other) == 0; };
      return !term.is_constant() && std::ranges::any_of(terms(part), is_alike);
    };
    const auto has_in_part = [&](const Expr& operand) { return std::ranges::any_of(terms(operand), is_in_part); };
    return std::ranges::any_of(terms(rest), [&](const Expr& term) {
      return is_in_part(term) ||
             (factors(term).size() == 1 && std::ranges::any_of(factors(term)[0].operands(), has_in_part));
    });
  }

  const Ranges& ranges_;
  int opened_ = 0;
};

}  // namespace

Interval bounds(const Expr& expr, const Ranges& ranges) { return Bounder(ranges).of(expr); }

}  // namespace tenon::symbolic
