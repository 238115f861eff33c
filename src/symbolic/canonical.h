// Inside of symbolic: limits, and the view of an expression as a polynomial.
//
// An expression is a sum of terms; a term is a coefficient times factors. A factor is anything but a constant or a
// product, and a sum only where distributing it would give too many terms.
#pragma once

#include "symbolic/expr.h"

namespace tenon::symbolic {

__extension__ using Wide = __int128;

inline constexpr uint32_t kMaxDepth = 200;
inline constexpr uint32_t kMaxSize = 1 << 16;
inline constexpr size_t kMaxDistributedTerms = 64;
inline constexpr size_t kMaxDistributedDegree = 8;

// A node of exactly these operands, which are in canonical form already.
Expr make_node(Kind kind, std::vector<Expr> operands);
// The canonical form of an operator over any operands.
Expr rebuild(Kind kind, const std::vector<Expr>& operands);
// The canonical form of kMin or kMax over any operands, at least one.
Expr extremum(Kind kind, const std::vector<Expr>& operands);

template <class Map>
Expr map_operands(const Expr& expr, const Map& map) {
  if (expr.operands().empty()) return expr;
  std::vector<Expr> operands;
  operands.reserve(expr.operands().size());
  bool changed = false;
  for (const Expr& operand : expr.operands()) {
    operands.push_back(map(operand));
    changed = changed || operands.back() != operand;
  }
  return changed ? rebuild(expr.kind(), operands) : expr;
}

// Views into the expression, which has to outlive them.
std::span<const Expr> terms(const Expr& expr);    // none of 0
std::span<const Expr> factors(const Expr& term);  // none of a constant
int64_t coefficient(const Expr& term);            // 3 of 3*x*y, and of 3
inline const Expr& leading(const Expr& expr) { return expr.kind() == Kind::kAdd ? expr.operands().front() : expr; }
inline bool is_sum(const Expr& expr) { return expr.kind() == Kind::kAdd; }

int64_t constant_term(const Expr& expr);
// Of the coefficients of all terms but the constant; 0 when there are none.
int64_t coefficient_gcd(const Expr& expr);

// The order of sums: equal for terms that differ in their coefficient only.
std::strong_ordering compare_monomials(const Expr& a, const Expr& b);

Expr make_term(int64_t coefficient, std::vector<Expr> sorted_factors);
Expr multiply_terms(const Expr& a, const Expr& b);
// Of terms in order, no two alike, none zero.
Expr sum_of_sorted(std::vector<Expr> terms);
Expr scale(const Expr& expr, int64_t by);

// term / by, when that is exact; `by` is seen as one term (a sum is one factor).
std::optional<Expr> divide_term(const Expr& term, const Expr& by);
// The largest term that divides all terms of both; its coefficient is positive.
Expr common_divisor(const Expr& a, const Expr& b);
// Each term of the expression divided by one that divides them all.
Expr divide_terms(const Expr& expr, const Expr& by);

std::string_view sign_of(Kind kind);  // "//", "==", "min"; empty for constants and symbols
bool is_comparison(Kind kind);
bool is_boolean(const Expr& expr);  // provably 0 or 1

}  // namespace tenon::symbolic
