#include "loops/box.h"

namespace tenon::loops {
namespace {

using symbolic::bounds;
using symbolic::Interval;
using symbolic::Ranges;

enum class Slope : uint8_t { kFlat, kUp, kDown, kUnknown };

Slope flipped(Slope slope) {
  if (slope == Slope::kUp) return Slope::kDown;
  return slope == Slope::kDown ? Slope::kUp : slope;
}

// The slope of a sum, minimum or maximum, from the slopes of its operands.
Slope joined(Slope a, Slope b) {
  if (a == b || b == Slope::kFlat) return a;
  return a == Slope::kFlat ? b : Slope::kUnknown;
}

Slope slope_of(const Expr& expr, Symbol symbol, const Ranges& ranges);

// The slope of a product. Known if one factor varies and the signs of the others are known.
Slope slope_of_product(const Expr& expr, Symbol symbol, const Ranges& ranges) {
  Slope slope = Slope::kFlat;
  bool negative = false;
  for (const Expr& factor : expr.operands()) {
    const Slope next = slope_of(factor, symbol, ranges);
    if (next != Slope::kFlat) {
      if (slope != Slope::kFlat) return Slope::kUnknown;
      slope = next;
      continue;
    }
    const Interval range = bounds(factor, ranges);
    if (range.low < 0 && range.high > 0) return Slope::kUnknown;
    if (range.low < 0) negative = !negative;
  }
  return negative ? flipped(slope) : slope;
}

Slope slope_of(const Expr& expr, Symbol symbol, const Ranges& ranges) {
  if (!depends_on(expr, symbol)) return Slope::kFlat;
  switch (expr.kind()) {
    case symbolic::Kind::kSymbol:
      return Slope::kUp;
    case symbolic::Kind::kAdd:
    case symbolic::Kind::kMin:
    case symbolic::Kind::kMax: {
      Slope slope = Slope::kFlat;
      for (const Expr& operand : expr.operands()) slope = joined(slope, slope_of(operand, symbol, ranges));
      return slope;
    }
    case symbolic::Kind::kMul:
      return slope_of_product(expr, symbol, ranges);
    case symbolic::Kind::kFloorDiv:
      if (bounds(expr.operands()[1], ranges).low <= 0) return Slope::kUnknown;
      if (depends_on(expr.operands()[1], symbol)) return Slope::kUnknown;
      return slope_of(expr.operands()[0], symbol, ranges);
    default:
      return Slope::kUnknown;
  }
}

}  // namespace

void Box::add(Symbol symbol, Expr low, Expr high) {
  ranges_[symbol] = {bounds(low, ranges_).low, bounds(high, ranges_).high};
  sides_.push_back({symbol, std::move(low), std::move(high)});
}

std::optional<Expr> Box::extreme(const Expr& expr, bool highest) const {
  Expr result = expr;
  for (auto side = sides_.rbegin(); side != sides_.rend(); ++side) {
    const Slope slope = slope_of(result, side->symbol, ranges_);
    if (slope == Slope::kFlat && !depends_on(result, side->symbol)) continue;
    if (slope == Slope::kUnknown) return {};
    result = substitute(result, {{side->symbol, (slope == Slope::kUp) == highest ? side->high : side->low}});
  }
  return result;
}

bool Box::never_negative(const Expr& expr) const {
  if (bounds(expr, ranges_).low >= 0) return true;
  try {
    const std::optional<Expr> low = lowest(expr);
    return low && bounds(*low, ranges_).low >= 0;
  } catch (const Error&) {  // A constant overflowed: nothing is proven.
    return false;
  }
}

bool Box::contains(const Constraint& constraint) const {
  const Expr& expr = constraint.expr;
  const bool is_rest = expr.kind() == symbolic::Kind::kMod && expr.operands()[1] == constraint.bound;
  if (is_rest && never_negative(constraint.bound)) return true;
  return never_negative(constraint.expr) && never_negative(constraint.bound - 1 - constraint.expr);
}

Expr Box::simplify(const Expr& expr) const { return symbolic::simplify(expr, ranges_); }

Box box_of(const IR& ir) {
  Box box(ir.ranges());
  for (const Var& var : ir.vars()) box.add(var.symbol(), 0, var.size - 1);
  return box;
}

}  // namespace tenon::loops
