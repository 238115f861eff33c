// Minimum, maximum and comparisons.
#include <algorithm>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

// ---- minimum and maximum --------------------------------------------------------------------------------------------

bool is_preferred(Kind kind, int64_t a, int64_t b) { return kind == Kind::kMin ? a < b : a > b; }

// min(min(x, y) + z, ...) == min(x + z, y + z, ...)
void flatten(Kind kind, const Expr& expr, std::vector<Expr>& operands) {
  const auto is_nested = [&](const Expr& term) { return term.kind() == kind; };
  if (std::ranges::count_if(terms(expr), is_nested) != 1) {
    operands.push_back(expr);
    return;
  }
  const Expr nested = *std::ranges::find_if(terms(expr), is_nested);
  const Expr rest = expr - nested;
  for (const Expr& operand : nested.operands()) flatten(kind, operand + rest, operands);
}

// min(x, x + 1) == x
std::vector<Expr> without_shifted(Kind kind, const std::vector<Expr>& operands) {
  struct Shifted {
    Expr base;
    int64_t by;
  };
  std::vector<Shifted> shifted;
  for (const Expr& operand : operands) {
    const int64_t by = constant_term(operand);
    shifted.push_back({operand - by, by});
  }
  std::ranges::sort(shifted, [&](const Shifted& a, const Shifted& b) {
    const auto order = a.base <=> b.base;
    return order != 0 ? order < 0 : is_preferred(kind, a.by, b.by);
  });
  const auto dropped = std::ranges::unique(shifted, {}, &Shifted::base);
  shifted.erase(dropped.begin(), dropped.end());
  std::vector<Expr> kept;
  for (const auto& [base, by] : shifted) kept.push_back(base + by);
  return kept;
}

// min(x, max(x, y)) == x
void absorb(Kind kind, std::vector<Expr>& operands) {
  const Kind opposite = kind == Kind::kMin ? Kind::kMax : Kind::kMin;
  const std::vector<Expr> all = operands;
  std::erase_if(operands, [&](const Expr& operand) {
    const auto is_operand = [&](const Expr& inner) { return std::ranges::find(all, inner) != all.end(); };
    return operand.kind() == opposite && std::ranges::any_of(operand.operands(), is_operand);
  });
}

// The terms that all operands have, and the smallest of their constants.
Expr shared_terms(const std::vector<Expr>& operands) {
  const auto first = terms(operands[0]);
  std::vector<Expr> shared(first.begin(), first.end());
  int64_t smallest = kInt64Max, largest = kInt64Min;
  for (const Expr& operand : operands) {
    std::vector<Expr> both;
    std::ranges::set_intersection(shared, terms(operand), std::back_inserter(both));
    shared = std::move(both);
    smallest = std::min(smallest, constant_term(operand));
    largest = std::max(largest, constant_term(operand));
  }
  int64_t spread;
  if (__builtin_sub_overflow(largest, smallest, &spread)) smallest = 0;
  std::erase_if(shared, [](const Expr& term) { return term.is_constant(); });
  return sum_of_sorted(std::move(shared)) + smallest;
}

// ---- comparisons ----------------------------------------------------------------------------------------------------

Expr truth(bool value) { return value ? 1 : 0; }

Expr part_with_sign(const Expr& difference, int sign) {
  std::vector<Expr> part;
  for (const Expr& term : terms(difference)) {
    if ((coefficient(term) < 0) == (sign < 0)) part.push_back(scale(term, sign));
  }
  return sum_of_sorted(std::move(part));
}

Expr make_comparison(Kind kind, const Expr& difference) {
  return make_node(kind, {part_with_sign(difference, 1), part_with_sign(difference, -1)});
}

Expr negate(const Expr& boolean) {
  switch (boolean.kind()) {
    case Kind::kEq:
      return make_node(Kind::kNe, {boolean.operands()[0], boolean.operands()[1]});
    case Kind::kNe:
      return make_node(Kind::kEq, {boolean.operands()[0], boolean.operands()[1]});
    case Kind::kLt:
      return le(boolean.operands()[1], boolean.operands()[0]);
    case Kind::kLe:
      return lt(boolean.operands()[1], boolean.operands()[0]);
    default:
      return 1 - boolean;
  }
}

// A relation of one boolean with constants is that boolean, its negation, or constant: (a < b) == 1 is a < b.
template <class Holds>
std::optional<Expr> decide_boolean(const Expr& difference, const Holds& holds) {
  const auto parts = factors(leading(difference));
  const size_t others = constant_term(difference) == 0 ? 0 : 1;
  if (terms(difference).size() != 1 + others || !std::ranges::all_of(parts, is_boolean)) return std::nullopt;
  const Expr boolean = make_term(1, {parts.begin(), parts.end()});
  const bool when_false = holds(constant_term(difference));
  const bool when_true = holds(checked_add(constant_term(difference), coefficient(leading(difference))));
  if (when_false == when_true) return truth(when_true);
  return when_true ? boolean : negate(boolean);
}

// difference == 0, or difference != 0
Expr equality(Kind kind, const Expr& difference) {
  const auto holds = [&](int64_t value) { return (value == 0) == (kind == Kind::kEq); };
  if (difference.is_constant()) return truth(holds(difference.constant()));
  if (auto decided = decide_boolean(difference, holds)) return *decided;
  const int64_t g = coefficient_gcd(difference);
  if (constant_term(difference) % g != 0) return truth(kind == Kind::kNe);
  const Expr reduced = divide_terms(difference, g);
  return make_comparison(kind, coefficient(leading(reduced)) < 0 ? -reduced : reduced);
}

// difference < 0
Expr negative(const Expr& difference) {
  const auto holds = [](int64_t value) { return value < 0; };
  if (difference.is_constant()) return truth(holds(difference.constant()));
  if (auto decided = decide_boolean(difference, holds)) return *decided;
  // g*x + k < 0 is x <= (-k - 1) // g, and ~k is -k - 1 without the overflow.
  const int64_t g = coefficient_gcd(difference);
  const int64_t bound = checked_floordiv(~constant_term(difference), g);
  const Expr varying = divide_terms(difference - constant_term(difference), g);
  return bound == 0 ? make_comparison(Kind::kLe, varying) : make_comparison(Kind::kLt, varying + ~bound);
}

}  // namespace

Expr extremum(Kind kind, const std::vector<Expr>& operands) {
  std::vector<Expr> flat;
  for (const Expr& operand : operands) flatten(kind, operand, flat);
  flat = without_shifted(kind, flat);
  absorb(kind, flat);
  if (flat.size() == 1) return flat[0];
  const Expr shared = shared_terms(flat);
  if (!shared.is_constant(0)) {
    for (Expr& operand : flat) operand -= shared;
    return shared + extremum(kind, flat);
  }
  std::ranges::sort(flat);
  return make_node(kind, std::move(flat));
}

Expr min(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.constant(), b.constant());
  return extremum(Kind::kMin, {a, b});
}

Expr max(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.constant(), b.constant());
  return extremum(Kind::kMax, {a, b});
}

// Constants are compared as they are: their difference may not fit 64 bits.
Expr eq(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return truth(a == b);
  return equality(Kind::kEq, a - b);
}

Expr ne(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return truth(a != b);
  return equality(Kind::kNe, a - b);
}

Expr lt(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return truth(a.constant() < b.constant());
  return negative(a - b);
}

Expr le(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return truth(a.constant() <= b.constant());
  return negative(a - b - 1);
}

Expr gt(const Expr& a, const Expr& b) { return lt(b, a); }
Expr ge(const Expr& a, const Expr& b) { return le(b, a); }

}  // namespace tenon::symbolic
