// An expression as slope*symbol + offset.
#include "symbolic/expr.h"

namespace tenon::symbolic {
namespace {

struct Affine {
  Expr slope;
  Expr offset;
};

Affine affine_in(const Expr& expr, Symbol symbol);

Affine affine_product(const Expr& expr, Symbol symbol) {
  Affine result = {0, 1};
  for (const Expr& factor : expr.operands()) {
    const Affine next = affine_in(factor, symbol);
    if (!result.slope.is_constant(0) && !next.slope.is_constant(0)) {
      fail("{} is not affine in {}", expr, symbol.name());
    }
    result = {result.slope * next.offset + result.offset * next.slope, result.offset * next.offset};
  }
  return result;
}

Affine affine_in(const Expr& expr, Symbol symbol) {
  if (!depends_on(expr, symbol)) return {0, expr};
  switch (expr.kind()) {
    case Kind::kSymbol:
      return {1, 0};
    case Kind::kMul:
      return affine_product(expr, symbol);
    case Kind::kAdd: {
      Affine total;
      for (const Expr& term : expr.operands()) {
        const auto [slope, offset] = affine_in(term, symbol);
        total = {total.slope + slope, total.offset + offset};
      }
      return total;
    }
    default:
      fail("{} is not affine in {}", expr, symbol.name());
  }
}

}  // namespace

Result<Expr> differentiate(const Expr& expr, Symbol symbol) {
  return attempt([&] { return affine_in(expr, symbol).slope; });
}

Result<Expr> intercept(const Expr& expr, Symbol symbol) {
  return attempt([&] { return affine_in(expr, symbol).offset; });
}

}  // namespace tenon::symbolic
