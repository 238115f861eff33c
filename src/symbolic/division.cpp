// Floor division and modulo.
//
// A dividend over a constant c > 0 is reduced before it becomes a node: no term is a multiple of c, the coefficients
// are smaller than c and have no divisor in common with it, the leading one is positive, and the constant is in [0, c).
#include <algorithm>
#include <numeric>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

constexpr int kMaxDivisionSteps = 64;

// dividend == divisor*quotient + remainder
struct Division {
  Expr quotient;
  Expr remainder;
};

// The coefficients of the remainder keep their sign, so that what is known of its range stays useful:
// (i - j) % 4 is not (i + 3*j) % 4.
Division divide(const Expr& a, int64_t c) {
  std::vector<Expr> quotients, remainders;
  for (const Expr& term : terms(a)) {
    const int64_t k = coefficient(term);
    const auto parts = factors(term);
    quotients.push_back(make_term(term.is_constant() ? checked_floordiv(k, c) : k / c, {parts.begin(), parts.end()}));
    remainders.push_back(make_term(term.is_constant() ? checked_mod(k, c) : k % c, {parts.begin(), parts.end()}));
  }
  return {sum(quotients), sum(remainders)};
}

// Polynomial division: no term of the remainder is a multiple of b's leading term.
Division divide(const Expr& a, const Expr& b) {
  std::vector<Expr> quotients, remainders;
  Expr rest = a;
  for (int step = 0; step < kMaxDivisionSteps && !rest.is_constant(0); ++step) {
    const Expr term = leading(rest);
    auto quotient = divide_term(term, b);
    if (!quotient) quotient = divide_term(term, leading(b));
    if (quotient) {
      quotients.push_back(*quotient);
      rest -= *quotient * b;
    } else {
      remainders.push_back(term);
      rest -= term;
    }
  }
  return {sum(quotients), sum(remainders) + rest};
}

bool is_multiple(const Expr& a, const Expr& of) {
  if (!of.is_constant()) return divide(a, of).remainder.is_constant(0);
  const auto divides = [&](const Expr& term) { return checked_mod(coefficient(term), of.constant()) == 0; };
  return std::ranges::all_of(terms(a), divides);
}

// The dividend of the only quotient by a constant among the terms, if its coefficient is 1.
const Expr* only_quotient(const Expr& a) {
  const Expr* found = nullptr;
  for (const Expr& term : terms(a)) {
    if (factors(term).size() != 1 || factors(term)[0].kind() != Kind::kFloorDiv) continue;
    if (found) return nullptr;
    found = &term;
  }
  return found && coefficient(*found) == 1 && found->operands()[1].is_constant() ? found : nullptr;
}

// ---- by a constant --------------------------------------------------------------------------------------------------

Expr floordiv_by(const Expr& a, int64_t c);

// (x // d + rest) // c == (x + d*rest) // (d*c)
std::optional<Expr> merge_quotients(const Expr& a, int64_t c) {
  const Expr* inner = only_quotient(a);
  if (!inner) return std::nullopt;
  const int64_t d = inner->operands()[1].constant();
  int64_t both;
  if (__builtin_mul_overflow(c, d, &both)) return std::nullopt;
  return floordiv_by(inner->operands()[0] + scale(a - *inner, d), both);
}

Expr floordiv_reduced(const Expr& a, int64_t c) {
  if (a.is_constant()) return 0;
  // -a // c == -((a + c - 1) // c)
  if (coefficient(leading(a)) < 0) return -floordiv_reduced(c - 1 - a, c);
  if (auto merged = merge_quotients(a, c)) return *merged;
  // x // y // c == x // (y*c), whatever the sign of y
  if (a.kind() == Kind::kFloorDiv && !a.operands()[1].is_constant())
    return floordiv(a.operands()[0], a.operands()[1] * c);
  // x % (c*m) // c == x // c % m
  if (a.kind() == Kind::kMod && a.operands()[1].is_constant() && a.operands()[1].constant() % c == 0) {
    return mod(floordiv(a.operands()[0], c), a.operands()[1].constant() / c);
  }
  return make_node(Kind::kFloorDiv, {a, c});
}

Expr floordiv_by(const Expr& a, int64_t c) {
  if (c == 0) fail("division by zero: {} // 0", a);
  if (a.is_constant()) return checked_floordiv(a.constant(), c);
  if (c < 0) return floordiv_by(-a, checked_sub(0, c));
  // (g*x + k) // (g*c) == (x + k // g) // c
  const int64_t g = std::gcd(c, coefficient_gcd(a));
  if (g > 1) return floordiv_by(divide(a, g).quotient, c / g);
  if (c == 1) return a;
  const auto [quotient, remainder] = divide(a, c);
  if (quotient.is_constant(0)) return floordiv_reduced(a, c);
  return quotient + floordiv_by(remainder, c);
}

Expr mod_reduced(const Expr& a, int64_t c) {
  if (a.is_constant()) return a;
  // -a % c == c - 1 - (a + c - 1) % c
  if (coefficient(leading(a)) < 0) return c - 1 - mod_reduced(c - 1 - a, c);
  return make_node(Kind::kMod, {a, c});
}

Expr mod_by(const Expr& a, int64_t c) {
  if (c == 0) fail("division by zero: {} % 0", a);
  if (a.is_constant()) return checked_mod(a.constant(), c);
  if (c < 0) return -mod_by(-a, checked_sub(0, c));
  // (g*x + k) % (g*c) == g*((x + k // g) % c) + k % g
  const int64_t g = std::gcd(c, coefficient_gcd(a));
  if (g > 1) return scale(mod_by(divide(a, g).quotient, c / g), g) + checked_mod(constant_term(a), g);
  if (c == 1) return 0;
  const auto [quotient, remainder] = divide(a, c);
  return quotient.is_constant(0) ? mod_reduced(a, c) : mod(remainder, c);
}

// ---- by an expression -----------------------------------------------------------------------------------------------

// The remainder is worth having where it is simpler: x // (x + 1) is not 1 + -1 // (x + 1).
bool is_simpler(const Expr& remainder, const Expr& dividend) {
  return terms(remainder).size() < terms(dividend).size();
}

Expr floordiv_by(const Expr& a, const Expr& b) {
  if (a.is_constant(0)) return 0;
  if (coefficient(leading(b)) < 0) return floordiv(-a, -b);
  const Expr shared = common_divisor(a, b);
  if (!shared.is_constant(1)) return floordiv(divide_terms(a, shared), divide_terms(b, shared));
  const auto [quotient, remainder] = divide(a, b);
  if (is_simpler(remainder, a)) return quotient + floordiv(remainder, b);
  if (a.kind() == Kind::kMod && a.operands()[1] == b) return 0;
  return make_node(Kind::kFloorDiv, {a, b});
}

Expr mod_by(const Expr& a, const Expr& b) {
  if (a.is_constant(0)) return 0;
  if (coefficient(leading(b)) < 0) return -mod(-a, -b);
  const Expr shared = common_divisor(a, b);
  if (!shared.is_constant(1)) return shared * mod(divide_terms(a, shared), divide_terms(b, shared));
  const Expr remainder = divide(a, b).remainder;
  if (is_simpler(remainder, a)) return mod(remainder, b);
  return make_node(Kind::kMod, {a, b});
}

// (k*(x % n) + y) % b == (k*x + y) % b where k*n is a multiple of b
std::optional<Expr> without_inner_modulo(const Expr& a, const Expr& b) {
  for (const Expr& term : terms(a)) {
    if (factors(term).size() != 1 || factors(term)[0].kind() != Kind::kMod) continue;
    const auto operands = factors(term)[0].operands();
    const int64_t k = coefficient(term);
    if (is_multiple(scale(operands[1], k), b)) return a - term + scale(operands[0], k);
  }
  return std::nullopt;
}

}  // namespace

Expr floordiv(const Expr& a, const Expr& b) {
  return b.is_constant() ? floordiv_by(a, b.constant()) : floordiv_by(a, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (b.is_constant(0)) fail("division by zero: {} % 0", a);
  if (auto outer = without_inner_modulo(a, b)) return mod(*outer, b);
  return b.is_constant() ? mod_by(a, b.constant()) : mod_by(a, b);
}

Expr ceildiv(const Expr& a, const Expr& b) { return -floordiv(-a, b); }

}  // namespace tenon::symbolic
