// Evaluation and substitution.
#include <algorithm>
#include <set>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

[[noreturn]] void fail_overflow(const Expr& expr) { fail("integer overflow: the value of {} does not fit", expr); }

enum class IfUndefined : uint8_t { kFail, kGuess };

constexpr Wide kGuessedMost = kInt64Max;  // of what does not fit: a sum of many such still fits into 128 bits

// The divisor is neither 0 nor -1.
Wide floor_quotient(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
Wide floor_remainder(Wide a, Wide b) { return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }

// Computes with 128 bits, because a canonical form may have larger intermediate values than what it was built from:
// x*(y - z) is x*y - x*z.
class Evaluator {
 public:
  explicit Evaluator(const Bindings& bindings, IfUndefined if_undefined = IfUndefined::kFail)
      : bindings_(bindings), if_undefined_(if_undefined) {}

  Wide value(const Expr& expr) const {
    switch (expr.kind()) {
      case Kind::kConstant:
        return expr.constant();
      case Kind::kSymbol:
        return bound(expr.symbol());
      case Kind::kAdd:
        return sum(expr);
      case Kind::kMul:
        return product(expr);
      case Kind::kMin:
        return extremum(expr, [](Wide a, Wide b) { return std::min(a, b); });
      case Kind::kMax:
        return extremum(expr, [](Wide a, Wide b) { return std::max(a, b); });
      default:
        return binary(expr, value(expr.operands()[0]), value(expr.operands()[1]));
    }
  }

 private:
  int64_t bound(Symbol symbol) const {
    const auto found = bindings_.find(symbol);
    if (found == bindings_.end()) fail("symbol {} has no value", symbol.name());
    return found->second;
  }

  Wide sum(const Expr& expr) const {
    Wide total = 0;
    for (const Expr& term : expr.operands()) {
      if (__builtin_add_overflow(total, value(term), &total)) return too_large(expr);
    }
    return total;
  }

  // A factor of zero undoes the overflow of the others: which comes first is up to the canonical order.
  Wide product(const Expr& expr) const {
    Wide total = 1;
    bool overflows = false, is_zero = false;
    for (const Expr& factor : expr.operands()) {
      const Wide next = value(factor);
      is_zero = is_zero || next == 0;
      overflows = __builtin_mul_overflow(total, next, &total) || overflows;
    }
    if (overflows && !is_zero) return too_large(expr);
    return is_zero ? 0 : total;
  }

  template <class Choose>
  Wide extremum(const Expr& expr, const Choose& choose) const {
    Wide best = value(expr.operands()[0]);
    for (const Expr& operand : expr.operands().subspan(1)) best = choose(best, value(operand));
    return best;
  }

  Wide too_large(const Expr& expr) const {
    if (if_undefined_ == IfUndefined::kFail) fail_overflow(expr);
    return kGuessedMost;
  }

  Wide binary(const Expr& expr, Wide a, Wide b) const {
    switch (expr.kind()) {
      case Kind::kFloorDiv:
      case Kind::kMod:
        return divide(expr, a, b);
      case Kind::kEq:
        return a == b;
      case Kind::kNe:
        return a != b;
      case Kind::kLt:
        return a < b;
      case Kind::kLe:
        return a <= b;
      default:
        check(false, "{} is not a binary operator", expr);
        return 0;
    }
  }

  Wide divide(const Expr& expr, Wide a, Wide b) const {
    if (b == 0 && if_undefined_ == IfUndefined::kGuess) return 0;
    if (b == 0) fail("division by zero: {} is 0 in {}", expr.operands()[1], expr);
    const bool is_quotient = expr.kind() == Kind::kFloorDiv;
    if (b != -1) return is_quotient ? floor_quotient(a, b) : floor_remainder(a, b);
    Wide negated;
    if (__builtin_sub_overflow(Wide{0}, a, &negated)) return too_large(expr);
    return is_quotient ? negated : 0;
  }

  const Bindings& bindings_;
  IfUndefined if_undefined_;
};

void collect_symbols(const Expr& expr, std::set<Symbol>& symbols) {
  if (expr.kind() == Kind::kSymbol) symbols.insert(expr.symbol());
  for (const Expr& operand : expr.operands()) collect_symbols(operand, symbols);
}

}  // namespace

int64_t evaluate(const Expr& expr, const Bindings& bindings) {
  const Wide value = Evaluator(bindings).value(expr);
  if (value < kInt64Min || value > kInt64Max) fail_overflow(expr);
  return static_cast<int64_t>(value);
}

int64_t estimate(const Expr& expr, const Bindings& assumed) {
  const Wide value = Evaluator(assumed, IfUndefined::kGuess).value(expr);
  return static_cast<int64_t>(std::clamp<Wide>(value, kInt64Min, kInt64Max));
}

Expr substitute(const Expr& expr, const Substitution& replacements) {
  if (expr.kind() != Kind::kSymbol) {
    return map_operands(expr, [&](const Expr& operand) { return substitute(operand, replacements); });
  }
  const auto found = replacements.find(expr.symbol());
  return found == replacements.end() ? expr : found->second;
}

std::vector<Symbol> symbols_of(const Expr& expr) {
  std::set<Symbol> symbols;
  collect_symbols(expr, symbols);
  return {symbols.begin(), symbols.end()};
}

bool depends_on(const Expr& expr, Symbol symbol) {
  if (expr.kind() == Kind::kSymbol) return expr.symbol() == symbol;
  return std::ranges::any_of(expr.operands(), [&](const Expr& operand) { return depends_on(operand, symbol); });
}

}  // namespace tenon::symbolic
