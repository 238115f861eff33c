// Bessel and Airy functions, in f64: power series near zero, asymptotic series far out, and between them an integral.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kFarTerms = 24;
constexpr double kFarOscillating = 12;  // from there on, the asymptotic series of J and Y
constexpr double kFarDecaying = 16;     // and of K

AtenFn in_f64(UnaryFormula formula, std::string_view argument) {
  return unary_formula([formula = std::move(formula)](
                           AtenCall& c, Value x) { return c.cast(formula(c, c.cast(x, DType::kF64)), x.dtype()); },
                       argument);
}

Value number(AtenCall& c, double value) { return c.scalar(value, DType::kF64); }

// The polynomial with these coefficients, the constant one first.
Value polynomial(Value x, const std::vector<double>& coefficients) {
  Value sum = x * 0 + coefficients.back();
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// ---- series ---------------------------------------------------------------------------------------------------------

// The coefficients of (x/2)^2k in J of order 0 or 1 (of I, with sign 1), less the factor (x/2)^order.
std::vector<double> near_terms(int order, int sign, int count) {
  std::vector<double> terms = {1};
  for (int k = 1; k < count; ++k) terms.push_back(sign * terms.back() / (static_cast<double>(k) * (k + order)));
  return terms;
}

// Those of the second part of Y and K: each term times digamma(k + 1) + digamma(k + order + 1).
std::vector<double> digamma_terms(int order, int sign, int count) {
  std::vector<double> terms = near_terms(order, sign, count);
  double sum = -2 * std::numbers::egamma + order;
  for (int k = 0; k < count; ++k) {
    if (k > 0) sum += 1.0 / k + 1.0 / (k + order);
    terms[static_cast<size_t>(k)] *= sum;
  }
  return terms;
}

// The coefficients of 1/x^k in the asymptotic series of every Bessel function.
std::vector<double> far_terms(double order) {
  std::vector<double> terms = {1};
  for (int k = 1; k < kFarTerms; ++k) {
    const double odd = 2 * k - 1;
    terms.push_back(terms.back() * (4 * order * order - odd * odd) / (8.0 * k));
  }
  return terms;
}

// The first function of an order, J, at large x; the second, Y. Their waves start at `phase`.
Value far_wave(AtenCall& c, Value x, double order, double phase, bool is_second) {
  const std::vector<double> terms = far_terms(order);
  std::vector<double> even, odd;
  for (size_t k = 0; k < terms.size(); ++k) (k % 2 == 0 ? even : odd).push_back(k % 4 < 2 ? terms[k] : -terms[k]);
  const Value inverse = 1 / x;
  const Value p = polynomial(inverse * inverse, even), q = polynomial(inverse * inverse, odd) * inverse;
  const Value sine = c.sin(x - phase), cosine = c.cos(x - phase);
  const Value wave = is_second ? p * sine + q * cosine : p * cosine - q * sine;
  return wave * c.sqrt(2 / (x * kPi));
}

double phase_of(int order) { return (order / 2.0 + 0.25) * kPi; }

Value half_power(Value x, Value series, int order) { return order == 0 ? series : series * x / 2; }

// ---- J and Y --------------------------------------------------------------------------------------------------------

constexpr int kNearTerms = 34;

Value near_first(Value x, int order) {
  return half_power(x, polynomial(x * x / 4, near_terms(order, -1, kNearTerms)), order);
}

UnaryFormula first_kind(int order) {
  return [order](AtenCall& c, Value x) {
    const Value size = c.abs(x);
    const Value far = far_wave(c, size, order, phase_of(order), false);
    const Value result = c.where(c.compare("gt", size, kFarOscillating), far, near_first(size, order));
    return order == 0 ? result : c.where(c.compare("lt", x, 0), -result, result);
  };
}

UnaryFormula second_kind(int order) {
  return [order](AtenCall& c, Value x) {
    const Value series = half_power(x, polynomial(x * x / 4, digamma_terms(order, -1, kNearTerms)), order);
    Value near = c.log(x / 2) * near_first(x, order) * (2 / kPi) - series / kPi;
    if (order == 1) near = near - 2 / (x * kPi);
    const Value far = far_wave(c, x, order, phase_of(order), true);
    const Value result = c.where(c.compare("gt", x, kFarOscillating), far, near);
    return c.where(c.compare("eq", x, 0), number(c, -kInf), c.where(c.compare("lt", x, 0), number(c, kNan), result));
  };
}

// ---- I and K --------------------------------------------------------------------------------------------------------

// I times exp(-|x|): the power series up to 20, the asymptotic one above.
Value scaled_modified_first(AtenCall& c, Value x, int order) {
  constexpr int kTerms = 45;
  const Value size = c.abs(x);
  const Value near = half_power(size, polynomial(x * x / 4, near_terms(order, 1, kTerms)) * c.exp(-size), order);
  const Value far = polynomial(-1 / size, far_terms(order)) / c.sqrt(size * (2 * kPi));
  const Value result = c.where(c.compare("gt", size, 20), far, near);
  return order == 0 ? result : c.where(c.compare("lt", x, 0), -result, result);
}

UnaryFormula modified_first(int order, bool scaled) {
  return [=](AtenCall& c, Value x) {
    const Value result = scaled_modified_first(c, x, order);
    return scaled ? result : result * c.exp(c.abs(x));
  };
}

// K times exp(x), for x above 2: the integral over t of exp(-x * (cosh t - 1)) * cosh(order * t), whose sum over equal
// steps converges faster than any power of the step.
Value scaled_modified_second(AtenCall& c, Value x, double order) {
  constexpr double kStep = 0.125;
  constexpr int kSteps = 32;
  Value sum = x * 0 + 0.5;
  for (int k = 1; k < kSteps; ++k) {
    sum = sum + c.exp(x * (1 - std::cosh(k * kStep))) * std::cosh(order * k * kStep);
  }
  const Value far = polynomial(1 / x, far_terms(order)) * c.sqrt(kPi / (x * 2));
  return c.where(c.compare("gt", x, kFarDecaying), far, sum * kStep);
}

UnaryFormula modified_second(int order, bool scaled) {
  return [=](AtenCall& c, Value x) {
    constexpr int kTerms = 16;
    const Value square = x * x / 4;
    const Value first = half_power(x, polynomial(square, near_terms(order, 1, kTerms)), order);
    const Value second = half_power(x, polynomial(square, digamma_terms(order, 1, kTerms)), order) / 2;
    const Value logarithm = c.log(x / 2) * first;
    const Value near = order == 0 ? second - logarithm : logarithm + 1 / x - second;
    const Value far = scaled_modified_second(c, x, order);
    const Value result =
        c.where(c.compare("lt", x, 2), scaled ? near * c.exp(x) : near, scaled ? far : far * c.exp(-x));
    return c.where(c.compare("eq", x, 0), number(c, kInf), c.where(c.compare("lt", x, 0), number(c, kNan), result));
  };
}

// ---- Airy -----------------------------------------------------------------------------------------------------------

// By the powers of x^3.
Value near_airy(Value x) {
  constexpr int kTerms = 44;
  std::vector<double> even = {std::pow(3, -2.0 / 3) / std::tgamma(2.0 / 3)};
  std::vector<double> odd = {std::pow(3, -1.0 / 3) / std::tgamma(1.0 / 3)};
  for (int k = 1; k < kTerms; ++k) {
    even.push_back(even.back() / (3.0 * k * (3 * k - 1)));
    odd.push_back(odd.back() / (3.0 * k * (3 * k + 1)));
  }
  const Value cube = x * x * x;
  return polynomial(cube, even) - polynomial(cube, odd) * x;
}

// Beyond the series it is a Bessel function of order 1/3: K on the right, a wave on the left.
Value airy(AtenCall& c, Value x) {
  constexpr double kOrder = 1.0 / 3;
  const Value size = c.abs(x);
  const Value argument = size * c.sqrt(size) * (2.0 / 3);
  const Value factor = c.sqrt(size / 3);
  const Value right = scaled_modified_second(c, argument, kOrder) * c.exp(-argument) * factor / kPi;
  const Value left = far_wave(c, argument, kOrder, kPi / 4, false) * factor;
  const Value result = c.where(c.compare("gt", x, 2.5), right, c.where(c.compare("lt", x, -8), left, near_airy(x)));
  return c.where(c.unary("isinf", x), number(c, kNan), result);
}

Value spherical_first(AtenCall& c, Value x) {
  const Value known = c.where(c.unary("isinf", x), number(c, 0), c.sin(x) / x);
  return c.where(c.compare("eq", x, 0), number(c, 1), known);
}

}  // namespace

void add_bessel_entries(AtenTable& table) {
  table.add("aten.{i0,special_i0,special_modified_bessel_i0}.default(self)", in_f64(modified_first(0, false), "self"));
  table.add("aten.{special_i1,special_modified_bessel_i1}.default(self)", in_f64(modified_first(1, false), "self"));
  table.add("aten.special_i0e.default(self)", in_f64(modified_first(0, true), "self"));
  table.add("aten.special_i1e.default(self)", in_f64(modified_first(1, true), "self"));
  for (int order : {0, 1}) {
    table.add(fmt::format("aten.special_bessel_j{}.default(self)", order), in_f64(first_kind(order), "self"));
    table.add(fmt::format("aten.special_bessel_y{}.default(self)", order), in_f64(second_kind(order), "self"));
    table.add(fmt::format("aten.special_modified_bessel_k{}.default(self)", order),
              in_f64(modified_second(order, false), "self"));
    table.add(fmt::format("aten.special_scaled_modified_bessel_k{}.default(x)", order),
              in_f64(modified_second(order, true), "x"));
  }
  table.add("aten.special_airy_ai.default(x)", in_f64(airy, "x"));
  table.add("aten.special_spherical_bessel_j0.default(x)", in_f64(spherical_first, "x"));
}

}  // namespace tenon::aten
