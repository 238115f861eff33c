// Sums and products.
#include <algorithm>
#include <array>
#include <numeric>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

constexpr auto monomial_less = [](const Expr& a, const Expr& b) { return compare_monomials(a, b) < 0; };

Expr with_coefficient(const Expr& term, int64_t value) {
  const auto parts = factors(term);
  return make_term(value, {parts.begin(), parts.end()});
}

// Appends a term to a sum whose last term may be like it.
void append_term(std::vector<Expr>& sum, const Expr& term) {
  if (sum.empty() || compare_monomials(sum.back(), term) != 0) {
    if (!term.is_constant(0)) sum.push_back(term);
    return;
  }
  const int64_t total = checked_add(coefficient(sum.back()), coefficient(term));
  if (total == 0) {
    sum.pop_back();
  } else {
    sum.back() = with_coefficient(term, total);
  }
}

// ---- a == n*(a // n) + a % n: two of the three in a sum become the third --------------------------------------------

// Constants don't count: x - 4*((x + 1) // 4) is (x + 1) % 4 - 1.
bool has_terms_of(const Expr& sum, const Expr& part) {
  const auto is_in_sum = [&](const Expr& term) {
    const auto found = std::ranges::lower_bound(sum.operands(), term, monomial_less);
    return term.is_constant() || (found != sum.operands().end() && *found == term);
  };
  return !part.is_constant() && std::ranges::all_of(terms(part), is_in_sum);
}

std::optional<Expr> recombine_modulo(const Expr& sum, const Expr& term) {
  const Expr& modulo = factors(term)[0];
  const Expr& a = modulo.operands()[0];
  const int64_t k = coefficient(term);
  const Expr multiple = scale(modulo.operands()[1] * floordiv(a, modulo.operands()[1]), k);
  const Expr whole = scale(a, k);
  if (has_terms_of(sum, multiple)) return sum - term - multiple + whole;
  if (has_terms_of(sum, -whole)) return sum - term + whole - multiple;
  return std::nullopt;
}

std::optional<Expr> recombine_quotient(const Expr& sum, const Expr& term) {
  const Expr& quotient = factors(term)[0];
  const Expr &a = quotient.operands()[0], &n = quotient.operands()[1];
  if (!n.is_constant() || coefficient(term) % n.constant() != 0) return std::nullopt;
  const int64_t k = checked_floordiv(coefficient(term), n.constant());
  const Expr whole = scale(a, k);
  if (!has_terms_of(sum, -whole)) return std::nullopt;
  return sum - term + whole - scale(mod(a, n), k);
}

std::optional<Expr> recombine(const Expr& sum, const Expr& term) {
  if (factors(term).size() != 1) return std::nullopt;
  const Kind kind = factors(term)[0].kind();
  try {
    if (kind == Kind::kMod) return recombine_modulo(sum, term);
    if (kind == Kind::kFloorDiv) return recombine_quotient(sum, term);
    return std::nullopt;
  } catch (const Error&) {  // A multiple of n overflows. The sum is fine as it is.
    return std::nullopt;
  }
}

}  // namespace

// ---- sums -----------------------------------------------------------------------------------------------------------

Expr sum_of_sorted(std::vector<Expr> terms) {
  if (terms.empty()) return 0;
  if (terms.size() == 1) return terms[0];
  Expr sum = make_node(Kind::kAdd, std::move(terms));
  for (const Expr& term : sum.operands()) {
    if (auto simpler = recombine(sum, term)) return *simpler;
  }
  return sum;
}

Expr sum(std::span<const Expr> operands) {
  std::vector<Expr> sorted;
  for (const Expr& operand : operands) {
    const auto parts = terms(operand);
    sorted.insert(sorted.end(), parts.begin(), parts.end());
  }
  std::ranges::sort(sorted, monomial_less);
  std::vector<Expr> collected;
  for (const Expr& term : sorted) append_term(collected, term);
  return sum_of_sorted(std::move(collected));
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked_add(a.constant(), b.constant());
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  auto left = terms(a), right = terms(b);
  std::vector<Expr> merged;
  merged.reserve(left.size() + right.size());
  while (!left.empty() && !right.empty()) {
    auto& first = monomial_less(right[0], left[0]) ? right : left;
    append_term(merged, first[0]);
    first = first.subspan(1);
  }
  for (const Expr& term : left) append_term(merged, term);
  for (const Expr& term : right) append_term(merged, term);
  return sum_of_sorted(std::move(merged));
}

Expr scale(const Expr& expr, int64_t by) {
  if (expr.is_constant()) return checked_mul(expr.constant(), by);
  if (by == 0) return 0;
  if (by == 1) return expr;
  if (!is_sum(expr)) return with_coefficient(expr, checked_mul(coefficient(expr), by));
  std::vector<Expr> scaled;
  for (const Expr& term : terms(expr)) scaled.push_back(scale(term, by));
  return make_node(Kind::kAdd, std::move(scaled));
}

Expr operator-(const Expr& a) { return scale(a, -1); }

Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked_sub(a.constant(), b.constant());
  return a + -b;
}

// ---- products -------------------------------------------------------------------------------------------------------

Expr make_term(int64_t coefficient, std::vector<Expr> sorted_factors) {
  if (sorted_factors.empty() || coefficient == 0) return coefficient;
  if (sorted_factors.size() == 1 && coefficient == 1) return sorted_factors[0];
  if (sorted_factors.size() == 1 && is_sum(sorted_factors[0])) return scale(sorted_factors[0], coefficient);
  if (coefficient != 1) sorted_factors.emplace_back(coefficient);
  return make_node(Kind::kMul, std::move(sorted_factors));
}

Expr multiply_terms(const Expr& a, const Expr& b) {
  std::vector<Expr> merged;
  std::ranges::merge(factors(a), factors(b), std::back_inserter(merged));
  // c*c is c where c is 0 or 1.
  const auto repeated =
      std::ranges::unique(merged, [](const Expr& x, const Expr& y) { return x == y && is_boolean(x); });
  merged.erase(repeated.begin(), repeated.end());
  return make_term(checked_mul(coefficient(a), coefficient(b)), std::move(merged));
}

namespace {

// The number of terms, and the highest degree, that an expression has once all its products are distributed.
struct Extent {
  size_t terms = 1;
  size_t degree = 1;
};

Extent operator+(Extent a, Extent b) {
  return {std::min<size_t>(a.terms + b.terms, kMaxSize), std::max(a.degree, b.degree)};
}
Extent operator*(Extent a, Extent b) { return {std::min<size_t>(a.terms * b.terms, kMaxSize), a.degree + b.degree}; }

Extent distributed_extent(const Expr& expr) {
  if (expr.is_constant()) return {.terms = 1, .degree = 0};
  if (expr.kind() != Kind::kAdd && expr.kind() != Kind::kMul) return {};
  Extent extent = is_sum(expr) ? Extent{0, 0} : Extent{1, 0};
  for (const Expr& operand : expr.operands()) {
    extent = is_sum(expr) ? extent + distributed_extent(operand) : extent * distributed_extent(operand);
  }
  return extent;
}

// One term distributes over any number of them: that adds none.
bool can_distribute(std::span<const Expr> operands) {
  Extent extent = {1, 0};
  size_t most_terms = 1;
  for (const Expr& operand : operands) {
    const Extent next = distributed_extent(operand);
    extent = extent * next;
    most_terms = std::max(most_terms, next.terms);
  }
  return extent.degree <= kMaxDistributedDegree && (extent.terms <= kMaxDistributedTerms || extent.terms == most_terms);
}

Expr distribute(const Expr& a, const Expr& b) {
  std::vector<Expr> products;
  for (const Expr& x : terms(a)) {
    for (const Expr& y : terms(b)) products.push_back(multiply_terms(x, y));
  }
  return sum(products);
}

Expr distribute(std::span<const Expr> operands) {
  Expr result = 1;
  for (const Expr& operand : operands) result = distribute(result, operand);
  return result;
}

// One term times sums that have no divisor in common with it, and a positive leading coefficient.
std::vector<Expr> factor_out_contents(std::span<const Expr> operands) {
  Expr content = 1;
  std::vector<Expr> result;
  for (const Expr& operand : operands) {
    if (!is_sum(operand)) {
      content = multiply_terms(content, operand);
      continue;
    }
    const Expr divisor = common_divisor(operand, operand);
    const Expr part = coefficient(leading(operand)) < 0 ? -divisor : divisor;
    content = multiply_terms(content, part);
    result.push_back(divide_terms(operand, part));
  }
  result.push_back(content);
  return result;
}

}  // namespace

Expr product(std::span<const Expr> operands) {
  if (std::ranges::none_of(operands, is_sum) || can_distribute(operands)) return distribute(operands);
  const std::vector<Expr> parts = factor_out_contents(operands);
  if (can_distribute(parts)) return distribute(parts);
  Expr result = 1;
  for (const Expr& part : parts) result = multiply_terms(result, part);
  return result;
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_constant()) return scale(b, a.constant());
  if (b.is_constant()) return scale(a, b.constant());
  if (!is_sum(a) && !is_sum(b)) return multiply_terms(a, b);
  return product(std::array{a, b});
}

// ---- exact division by a term ---------------------------------------------------------------------------------------

namespace {

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Half of 2^63 divides as well, and fits.
int64_t as_coefficient(uint64_t gcd) {
  return static_cast<int64_t>(gcd > static_cast<uint64_t>(kInt64Max) ? gcd / 2 : gcd);
}

}  // namespace

int64_t coefficient_gcd(const Expr& expr) {
  uint64_t gcd = 0;
  for (const Expr& term : terms(expr)) {
    if (!term.is_constant()) gcd = std::gcd(gcd, magnitude(coefficient(term)));
  }
  return as_coefficient(gcd);
}

std::optional<Expr> divide_term(const Expr& term, const Expr& by) {
  if (checked_mod(coefficient(term), coefficient(by)) != 0) return std::nullopt;
  if (!std::ranges::includes(factors(term), factors(by))) return std::nullopt;
  std::vector<Expr> rest;
  std::ranges::set_difference(factors(term), factors(by), std::back_inserter(rest));
  return make_term(checked_floordiv(coefficient(term), coefficient(by)), std::move(rest));
}

Expr common_divisor(const Expr& a, const Expr& b) {
  uint64_t gcd = 0;
  std::vector<Expr> shared(factors(leading(a)).begin(), factors(leading(a)).end());
  for (const Expr& expr : {a, b}) {
    for (const Expr& term : terms(expr)) {
      gcd = std::gcd(gcd, magnitude(coefficient(term)));
      std::vector<Expr> both;
      std::ranges::set_intersection(shared, factors(term), std::back_inserter(both));
      shared = std::move(both);
    }
  }
  return make_term(as_coefficient(gcd), std::move(shared));
}

Expr divide_terms(const Expr& expr, const Expr& by) {
  std::vector<Expr> quotients;
  for (const Expr& term : terms(expr)) quotients.push_back(divide_term(term, by).value());
  return sum_of_sorted(std::move(quotients));
}

}  // namespace tenon::symbolic
