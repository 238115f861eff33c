// The zeta function, the derivatives of digamma and the incomplete gamma functions, in f64.
#include <array>
#include <cmath>
#include <numbers>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BinaryFormula in_f64(BinaryFormula formula) {
  return [formula = std::move(formula)](AtenCall& c, Value x, Value y) {
    return c.cast(formula(c, c.cast(x, DType::kF64), c.cast(y, DType::kF64)), x.dtype());
  };
}

Value number(AtenCall& c, double value) { return c.scalar(value, DType::kF64); }

Value is_whole(AtenCall& c, Value x) { return c.compare("eq", x, c.unary("floor", x)); }

// ---- zeta -----------------------------------------------------------------------------------------------------------

// The sum of (q + k)^-s over all k, for q > 0 and s > 1: the first terms, and for the rest Euler's and Maclaurin's
// formula. Its k-th coefficient, B(2k) / (2k)!, is 2 * zeta(2k) / (2 pi)^2k with the signs in turn.
Value zeta_of_positive(AtenCall& c, Value s, Value q) {
  constexpr int kFirstTerms = 10;
  constexpr int kCorrections = 12;
  Value sum = c.pow(q, -s);
  for (int k = 1; k < kFirstTerms; ++k) sum = sum + c.pow(q + k, -s);
  const Value end = q + kFirstTerms;
  const Value last = c.pow(end, -s);
  Value rest = end / (s - 1) + 0.5;
  Value factor = s / end;
  for (int k = 1; k <= kCorrections; ++k) {
    const double size = 2 * std::riemann_zeta(2.0 * k) * std::pow(2 * std::numbers::pi, -2.0 * k);
    rest = rest + factor * (k % 2 == 1 ? size : -size);
    factor = factor * ((s + (2 * k - 1)) / end) * ((s + 2 * k) / end);
  }
  return sum + c.where(c.compare("eq", last, 0), last, last * rest);
}

// Below 0 the powers are defined for whole s: the terms up to 0, mirrored, are a difference of two sums.
Value zeta(AtenCall& c, Value s, Value q) {
  const Value whole = c.unary("floor", q);
  const Value fraction = q - whole;
  const Value is_negative = c.compare("lt", q, 0);
  const Value parity = 1 - c.op("remainder", {s, number(c, 2)}) * 2;
  const Value right = zeta_of_positive(c, s, c.where(is_negative, fraction, q));
  const Value left = zeta_of_positive(c, s, 1 - fraction) - zeta_of_positive(c, s, c.where(is_negative, 1 - q, q));
  const Value of_negative = c.where(is_whole(c, s), right + parity * left, number(c, kNan));
  Value result = c.where(is_negative, of_negative, right);
  const Value is_pole = logical_and(c, c.compare("le", q, 0), is_whole(c, q));
  result = c.where(is_pole, number(c, kInf), result);
  const Value is_undefined = logical_or(c, c.compare("lt", s, 1), c.compare("eq", q, kInf));
  result = c.where(is_undefined, number(c, kNan), result);
  return c.where(c.compare("eq", s, 1), number(c, kInf), result);
}

Value derivative_of_digamma(AtenCall& c, Value x) {
  const auto order = static_cast<double>(c.integer("n"));
  const double factor = (c.integer("n") % 2 == 0 ? -1 : 1) * std::tgamma(order + 1);
  return c.cast(zeta(c, number(c, order + 1), c.cast(x, DType::kF64)) * factor, x.dtype());
}

AtenArg polygamma(AtenCall& c) {
  const int64_t order = c.integer("n");
  if (order < 0) fail("polygamma takes n from 0 on, got {}", order);
  if (order > 1) return unary_formula(derivative_of_digamma)(c);
  return c.unary(order == 0 ? "digamma" : "trigamma", c.tensor());
}

// ---- the incomplete gamma functions ---------------------------------------------------------------------------------

constexpr double kLargeOrder = 15;

// x^a * exp(-x) / gamma(a)
Value front(AtenCall& c, Value a, Value x) { return c.exp(a * c.log(x) - x - c.unary("lgamma", a)); }

// The lower function, for x < a + 1.
Value by_series(AtenCall& c, Value a, Value x) {
  constexpr int kTerms = 50;
  Value term = 1 / a;
  Value sum = term;
  for (int k = 1; k < kTerms; ++k) {
    term = term * (x / (a + k));
    sum = sum + term;
  }
  return sum * front(c, a, x);
}

// The upper function, for x >= a + 1.
Value by_continued_fraction(AtenCall& c, Value a, Value x) {
  constexpr int kDepth = 64;
  const Value start = x - a;
  Value fraction = start + (2 * kDepth + 1);
  for (int k = kDepth; k > 0; --k) fraction = start + (2 * k - 1) - (k - a) * k / fraction;
  return front(c, a, x) / fraction;
}

struct Node {
  double place;  // in [0, 1]
  double weight;
};

// Of Gauss's quadrature: the roots of a Legendre polynomial, by Newton's method.
template <size_t kCount>
std::array<Node, kCount> quadrature() {
  std::array<Node, kCount> nodes;
  for (size_t i = 0; i < kCount; ++i) {
    double root = std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) / (kCount + 0.5));
    double slope = 1;
    for (int step = 0; step < 8; ++step) {
      const double value = std::legendre(kCount, root);
      slope = kCount * (root * value - std::legendre(kCount - 1, root)) / (root * root - 1);
      root -= value / slope;
    }
    nodes[i] = {(1 + root) / 2, 1 / ((1 - root * root) * slope * slope)};
  }
  return nodes;
}

// How far from x the integrand falls by exp(-40), where it falls at this rate and ever faster.
Value reach(AtenCall& c, Value rate, Value bend) { return 80 / (rate + c.sqrt(rate * rate + bend * 160)); }

// For large a the integrand is a bell around a - 1. From x outwards, away from its top: the part beyond x, which is the
// upper function right of the top, and the lower one, negative, left of it.
Value by_quadrature(AtenCall& c, Value a, Value x) {
  const Value top = a - 1;
  const Value rate = c.abs(top / x - 1), bend = top / (x * x * 2);
  const Value left = c.minimum(reach(c, rate, bend), x);
  const Value span = c.where(c.compare("gt", x, top), reach(c, rate, bend / 2), -left);
  Value sum = x * 0;
  for (const Node& node : quadrature<32>()) {
    const Value t = x + span * node.place;
    sum = sum + c.exp(top * c.log(t / top) - (t - top)) * node.weight;
  }
  return sum * span * c.exp(top * c.log(top) - top - c.unary("lgamma", a));
}

// The lower function, or the upper: together they are 1.
BinaryFormula incomplete_gamma(bool is_upper) {
  return [is_upper](AtenCall& c, Value a, Value x) {
    const auto complement = [](Value part) { return 1 - part; };
    const Value series = by_series(c, a, x), fraction = by_continued_fraction(c, a, x);
    const Value area = by_quadrature(c, c.maximum(a, number(c, kLargeOrder)), x);
    const Value is_right = c.compare("gt", x, a - 1);
    const Value small = c.where(c.compare("lt", x, a + 1), is_upper ? complement(series) : series,
                                is_upper ? fraction : complement(fraction));
    const Value large = is_upper ? c.where(is_right, area, area + 1) : c.where(is_right, complement(area), -area);
    Value result = c.where(c.compare("gt", a, kLargeOrder), large, small);
    const Value none = number(c, is_upper ? 1 : 0), all = number(c, is_upper ? 0 : 1), nan = number(c, kNan);
    result = c.where(c.compare("eq", x, kInf), all, result);
    result = c.where(c.compare("eq", a, kInf), c.where(c.compare("eq", x, kInf), nan, none), result);
    result = c.where(c.compare("eq", x, 0), none, result);
    result = c.where(c.compare("eq", a, 0), c.where(c.compare("gt", x, 0), all, nan), result);
    const Value is_outside = logical_or(c, c.compare("lt", a, 0), c.compare("lt", x, 0));
    return c.where(is_outside, nan, result);
  };
}

}  // namespace

void add_gamma_entries(AtenTable& table) {
  table.add("aten.{polygamma,special_polygamma}.default(n, self)", polygamma);
  table.add("aten.special_zeta.{default,self_scalar,other_scalar}(self, other)", binary_formula(in_f64(zeta)));
  const auto incomplete = [](bool upper) { return binary_formula(in_f64(incomplete_gamma(upper))); };
  table.add("aten.{igamma,special_gammainc}.default(self, other)", incomplete(false));
  table.add("aten.{igammac,special_gammaincc}.default(self, other)", incomplete(true));
}

}  // namespace tenon::aten
