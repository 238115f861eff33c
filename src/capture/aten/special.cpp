// Special functions of mathematics, as formulas. Where they need it, they compute in f64.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "capture/aten/common.h"
#include "graph/limits.h"

namespace tenon::aten {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- gamma, entropy, the normal distribution ------------------------------------------------------------------------

Value multivariate_lgamma(AtenCall& c, Value x) {
  const int64_t p = c.integer("p");
  check_part_count(p, "terms");
  Value sum = c.unary("lgamma", x);
  for (int64_t i = 1; i < p; ++i) sum = sum + c.unary("lgamma", x - static_cast<double>(i) / 2);
  return sum + static_cast<double>(p * (p - 1)) / 4 * std::log(std::numbers::pi);
}

Value entropy(AtenCall& c, Value x) {
  const Value positive = -x * c.log(x);  // NaN of NaN
  const Value others = c.where(c.compare("eq", x, 0), c.scalar(0, x.dtype()), c.scalar(-kInf, x.dtype()));
  return c.where(c.compare("le", x, 0), others, positive);
}

// The first terms of a series in 1/x^2 that erfc and its logarithm follow far out.
Value tail_series(Value x_squared) {
  const Value t = 1 / x_squared;
  return 1 - t + 3 * (t * t) - 15 * (t * t * t) + 105 * (t * t * t * t);
}

Value in_f64(AtenCall& c, Value x, const UnaryFormula& formula) {
  return c.cast(formula(c, c.cast(x, DType::kF64)), x.dtype());
}

// erfc underflows below -38: there, the series.
Value log_ndtr(AtenCall& c, Value x) {
  return in_f64(c, x, [](AtenCall& c, Value x) {
    const Value tail = c.unary("erfc", x * std::numbers::sqrt2 / 2) / 2;
    const Value upper = c.unary("log1p", -tail);
    const Value lower = c.log(c.unary("erfc", x * -(std::numbers::sqrt2 / 2)) / 2);
    const Value square = x * x;
    const Value far = c.log(tail_series(square)) - square / 2 - c.log(-x) - std::log(2 * std::numbers::pi) / 2;
    return c.where(c.compare("lt", x, -20), far, c.where(c.compare("lt", x, 0), lower, upper));
  });
}

// exp(x^2) overflows above 26: there, the series.
Value scaled_erfc(AtenCall& c, Value x) {
  return in_f64(c, x, [](AtenCall& c, Value x) {
    const Value near = c.exp(x * x) * c.unary("erfc", x);
    const Value far = tail_series(x * x * 2) / (x * std::sqrt(std::numbers::pi));
    return c.where(c.compare("gt", x, 20), far, near);
  });
}

// x * log(y), which is 0 where x is, unless y is NaN.
BinaryFormula zero_times(std::string_view log) {
  return [log](AtenCall& c, Value x, Value y) {
    const Value product = c.where(c.compare("eq", x, 0), c.scalar(0, x.dtype()), x * c.unary(log, y));
    return c.where(c.unary("isnan", y), c.scalar(kNan, x.dtype()), product);
  };
}

// ---- the quantiles of the normal distribution -----------------------------------------------------------------------

// A first guess for small p, from how the tail falls off.
Value quantile_guess(AtenCall& c, Value p) {
  const Value square = c.log(p) * -2;
  const Value far = -c.sqrt(square - c.log(square) - std::log(2 * std::numbers::pi));
  return c.where(c.compare("lt", p, 1e-8), far, c.unary("erfinv", p * 2 - 1) * std::numbers::sqrt2);
}

// Newton's method on the logarithm of the distribution, which is close to a parabola.
Value normal_quantile(AtenCall& c, Value x) {
  return in_f64(c, x, [](AtenCall& c, Value x) {
    const Value p = c.minimum(x, 1 - x);
    Value z = quantile_guess(c, p);
    for (int step = 0; step < 3; ++step) {
      const Value logarithm = log_ndtr(c, z);
      const Value slope = c.exp(z * z * -0.5 - logarithm) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
      z = z - (logarithm - c.log(p)) / slope;
    }
    z = c.where(c.compare("gt", x, 0.5), -z, z);
    z = c.where(c.compare("eq", x, 0.5), c.scalar(0, x.dtype()), z);
    z = c.where(c.compare("eq", x, 0), c.scalar(-kInf, x.dtype()), z);
    return c.where(c.compare("eq", x, 1), c.scalar(kInf, x.dtype()), z);
  });
}

void add_probabilities(AtenTable& table) {
  table.add("aten.{mvlgamma,special_multigammaln}.default(self, p)", unary_formula(multivariate_lgamma));
  table.add("aten.special_entr.default(self)", unary_formula(entropy));
  table.add("aten.special_ndtr.default(self)",
            unary_formula([](AtenCall& c, Value x) { return c.unary("erfc", x * -(std::numbers::sqrt2 / 2)) / 2; }));
  table.add("aten.special_log_ndtr.default(self)", unary_formula(log_ndtr));
  table.add("aten.special_ndtri.default(self)", unary_formula(normal_quantile));
  table.add("aten.special_erfcx.default(self)", unary_formula(scaled_erfc));
  table.add("aten.xlogy.{Tensor,Scalar_Self,Scalar_Other}(self, other)", binary_formula(zero_times("log")));
  table.add("aten.special_xlogy.{default,self_scalar,other_scalar}(self, other)", binary_formula(zero_times("log")));
  table.add("aten.special_xlog1py.{default,self_scalar,other_scalar}(self, other)",
            binary_formula(zero_times("log1p")));
}

// ---- Chebyshev polynomials ------------------------------------------------------------------------------------------

// Inside [-1, 1] each is a quotient of sines or cosines of multiples of an angle, outside of hyperbolic ones.
enum class Chebyshev : uint8_t { kFirst, kSecond, kThird, kFourth };

// wave((n + shift) * angle) / wave(divisor * angle); `limit` is its value where that is 0 / 0.
struct Wave {
  bool odd;        // a sine; else a cosine
  double shift;    // added to n
  double divisor;  // 0: no division
};

Wave wave_of(Chebyshev kind, bool flipped) {
  switch (kind) {
    case Chebyshev::kFirst:
      return {false, 0, 0};
    case Chebyshev::kSecond:
      return {true, 1, 1};
    case Chebyshev::kThird:
      return {flipped, 0.5, 0.5};
    case Chebyshev::kFourth:
      return {!flipped, 0.5, 0.5};
  }
  return {};
}

Value quotient(AtenCall& c, const Wave& wave, std::string_view function, Value n, Value angle) {
  const Value above = c.unary(function, (n + wave.shift) * angle);
  if (wave.divisor == 0) return above;
  const Value below = c.unary(function, angle * wave.divisor);
  if (!wave.odd) return above / below;
  const Value limit = (n + wave.shift) / wave.divisor;
  return c.where(c.compare("eq", below, 0), limit, above / below);
}

// By the angle from the nearer end: at -1 a polynomial is that of the mirrored kind at 1, up to its sign.
Value chebyshev(AtenCall& c, Chebyshev kind, Value x, Value n) {
  const Value degree = c.unary("trunc", n);
  const Value magnitude = c.abs(x);
  const Value one = c.scalar(1, x.dtype());
  const Value angle = c.unary("acos", c.minimum(magnitude, one));
  const Value hyperbolic = c.unary("acosh", c.maximum(magnitude, one));
  const auto side = [&](bool flipped) {
    const Wave wave = wave_of(kind, flipped);
    const Value inside = quotient(c, wave, wave.odd ? "sin" : "cos", degree, angle);
    const Value outside = quotient(c, wave, wave.odd ? "sinh" : "cosh", degree, hyperbolic);
    return c.where(c.compare("gt", magnitude, 1), outside, inside);
  };
  const Value parity = 1 - c.op("remainder", {degree, c.scalar(2, x.dtype())}) * 2;
  const Value result = c.where(c.compare("lt", x, 0), side(true) * parity, side(false));
  return c.where(c.compare("lt", degree, 0), c.scalar(0, x.dtype()), result);
}

AtenFn chebyshev_formula(Chebyshev kind, bool shifted) {
  const BinaryFormula formula = [=](AtenCall& c, Value x, Value n) {
    const Value wide = c.cast(x, DType::kF64);
    return c.cast(chebyshev(c, kind, shifted ? wide * 2 - 1 : wide, c.cast(n, DType::kF64)), x.dtype());
  };
  return binary_formula(formula, "x", "n");
}

void add_chebyshev(AtenTable& table) {
  const std::array<std::pair<char, Chebyshev>, 4> kinds = {
      {{'t', Chebyshev::kFirst}, {'u', Chebyshev::kSecond}, {'v', Chebyshev::kThird}, {'w', Chebyshev::kFourth}}};
  for (const auto& [letter, kind] : kinds) {
    const std::string rest = fmt::format("chebyshev_polynomial_{}.{{default,x_scalar,n_scalar}}(x, n)", letter);
    table.add("aten.special_" + rest, chebyshev_formula(kind, false));
    table.add("aten.special_shifted_" + rest, chebyshev_formula(kind, true));
  }
}

// ---- divisors -------------------------------------------------------------------------------------------------------

// Euclid's steps, as many as the largest Fibonacci numbers of the dtype take.
Value greatest_divisor(AtenCall& c, Value x, Value y) {
  const auto steps = static_cast<int>(std::ceil(8 * size_of(x.dtype()) / std::log2(std::numbers::phi))) + 1;
  Value a = c.abs(x);
  Value b = c.abs(y);
  for (int step = 0; step < steps; ++step) {
    const Value goes_on = c.compare("ne", b, 0);
    const Value rest = c.op("remainder", {a, c.where(goes_on, b, c.integer(1, b.dtype()))});
    a = c.where(goes_on, b, a);
    b = rest;
  }
  return a;
}

// Of two tensors in their promoted dtype and broadcast shape.
AtenFn of_same_type(Value (*formula)(AtenCall&, Value, Value)) {
  return [formula](AtenCall& c) {
    const Value x = c.tensor();
    const Value y = c.tensor("other");
    const DType dtype = result_dtype(std::vector{x.type(), y.type()});
    const Shape shape = broadcast(x.shape(), y.shape());
    return formula(c, c.expand(c.cast(x, dtype), shape), c.expand(c.cast(y, dtype), shape));
  };
}

Value least_multiple(AtenCall& c, Value x, Value y) {
  const Value divisor = greatest_divisor(c, x, y);
  const Value safe = c.where(c.compare("eq", divisor, 0), c.integer(1, x.dtype()), divisor);
  return c.abs(c.op("trunc_div", {x, safe}) * y);
}

// ---- the bits of floating-point numbers -----------------------------------------------------------------------------

DType bits_of(DType dtype) {
  return dtype == DType::kF64 ? DType::kI64 : dtype == DType::kF32 ? DType::kI32 : DType::kI16;
}

Value bitcast(AtenCall& c, Value x, DType dtype) { return c.op("bitcast", {x}, {{"dtype", dtype}}); }

// The next number of the dtype towards another: numbers of one sign are ordered as their bits are.
Value next_after(AtenCall& c, Value x, Value y) {
  const DType integers = bits_of(x.dtype());
  const Value goes_up = c.compare("eq", c.compare("gt", y, x), c.compare("gt", x, 0));
  const Value step = c.where(goes_up, c.integer(1, integers), c.integer(-1, integers));
  const Value next = bitcast(c, bitcast(c, x, integers) + step, x.dtype());
  const Value smallest = bitcast(c, c.full(Expr(1), x.shape(), integers), x.dtype());
  Value result = c.where(c.compare("eq", x, 0), c.op("copysign", {smallest, y}), next);
  result = c.where(c.compare("eq", x, y), y, result);
  const Value is_nan = logical_or(c, c.unary("isnan", x), c.unary("isnan", y));
  return c.where(is_nan, c.scalar(kNan, x.dtype()), result);
}

// The mantissa in [0.5, 1), and the power of two. Numbers too small for a normal mantissa are scaled up first.
AtenArg frexp(AtenCall& c) {
  const Value given = c.tensor();
  const Value x = to_wide(c, given);
  const bool is_double = x.dtype() == DType::kF64;
  const DType integers = bits_of(x.dtype());
  const int64_t fraction = is_double ? 52 : 23;
  const int64_t bias = is_double ? 1022 : 126;
  const int64_t exponent_bits = is_double ? 0x7FF : 0xFF;
  const Value is_small = c.compare("lt", c.abs(x), is_double ? 0x1p-1022 : 0x1p-126);
  const Value normal = c.where(is_small, x * (is_double ? 0x1p54 : 0x1p25), x);
  const Value bits = bitcast(c, normal, integers);
  const auto number = [&](int64_t value) { return c.integer(value, integers); };
  const Value biased = c.op("bitwise_and", {c.op("shift_right", {bits, number(fraction)}), number(exponent_bits)});
  const Value scaling = c.where(is_small, number(is_double ? 54 : 25), number(0));
  const Value kept = c.op("bitwise_and", {bits, number(~(exponent_bits << fraction))});
  const Value mantissa = bitcast(c, c.op("bitwise_or", {kept, number(bias << fraction)}), x.dtype());
  const Value is_plain = logical_and(c, c.unary("isfinite", x), c.compare("ne", x, 0));
  const Value exponent = c.where(is_plain, biased - scaling - number(bias), number(0));
  return std::vector{c.cast(c.where(is_plain, mantissa, x), given.dtype()), c.cast(exponent, DType::kI32)};
}

void add_exact(AtenTable& table) {
  table.add("aten.gcd.default(self, other)", of_same_type(greatest_divisor));
  table.add("aten.lcm.default(self, other)", of_same_type(least_multiple));
  table.add("aten.nextafter.default(self, other)", of_same_type(next_after));
  table.add("aten.frexp.Tensor(self)", frexp);
}

// ---- complex numbers that are real ----------------------------------------------------------------------------------

void add_real_parts(AtenTable& table) {
  table.add("aten.angle.default(self)", unary_formula([](AtenCall& c, Value x) {
              const Value angle =
                  c.where(c.compare("lt", x, 0), c.scalar(std::numbers::pi, x.dtype()), c.scalar(0, x.dtype()));
              return c.where(c.unary("isnan", x), x, angle);
            }));
  table.add("aten.conj_physical.default(self)", [](AtenCall& c) { return itself(c); });
}

}  // namespace

void add_special_entries(AtenTable& table) {
  for (const auto add :
       {add_probabilities, add_gamma_entries, add_bessel_entries, add_chebyshev, add_exact, add_real_parts})
    add(table);
}

}  // namespace tenon::aten
