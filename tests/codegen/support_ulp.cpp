#include "tests/codegen/support_ulp.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>
#include <random>
#include <ranges>
#include <type_traits>

#include "runtime/scalar_functions.h"

namespace tenon::test {
namespace {

constexpr long double kPi = std::numbers::pi_v<long double>;
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

long double reciprocal(long double x) { return 1 / x; }
long double rsqrt(long double x) { return 1 / std::sqrt(x); }
long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

long double logaddexp(long double x, long double y) {
  if (x == y) return x + std::numbers::ln2_v<long double>;
  if (std::isnan(x) || std::isnan(y)) return x + y;
  return std::max(x, y) + std::log1p(std::exp(-std::fabs(x - y)));
}

// Newton's steps from what double has.
long double erfinv(long double x) {
  if (std::isnan(x) || std::fabs(x) > 1) return std::numeric_limits<long double>::quiet_NaN();
  if (std::fabs(x) == 1) return x * kInfinity;
  if (std::fabs(x) < 1e-300L) return x * std::sqrt(kPi) / 2;
  long double y = std::fabs(tenon::erfinv(static_cast<double>(x)));
  for (int step = 0; step < 2; ++step) {
    const long double residual = y < 0.5L ? std::erf(y) - std::fabs(x) : (1 - std::fabs(x)) - std::erfc(y);
    y -= residual / (2 / std::sqrt(kPi) * std::exp(-y * y));
  }
  return std::copysign(y, x);
}

// ---- digamma: near its zeros, with the 113 bits of a quad where there is one ----

#ifdef __SIZEOF_FLOAT128__
__extension__ using Quad = __float128;
#else
using Quad = long double;
#endif

// 2 * atanh((x - 1) / (x + 1)) of a number around 1.
Quad log_near_one(Quad x) {
  const Quad ratio = (x - 1) / (x + 1), square = ratio * ratio;
  Quad sum = 0;
  for (int k = 81; k > 0; k -= 2) sum = sum * square + Quad(1) / k;
  return 2 * ratio * sum;
}

Quad log_of(Quad x) {
  const int exponent = std::ilogb(static_cast<long double>(x));
  return exponent * log_near_one(2) + log_near_one(x / static_cast<Quad>(std::ldexp(1.0L, exponent)));
}

Quad pi_cot(Quad x) {
  const Quad pi = Quad(kPi) - 5.0165576126683320235573270803307570313e-20L;
  const Quad square = pi * x * pi * x;
  Quad sine = 1, cosine = 1;
  for (int k = 40; k > 0; k -= 2) {
    sine = 1 - sine * square / (k * (k + 1));
    cosine = 1 - cosine * square / (k * (k - 1));
  }
  return cosine / (x * sine);
}

// The recurrence alone leads out of the negative numbers, where they are not many.
Quad digamma_of(Quad x, long double fraction) {
  if (x < -60) return digamma_of(1 - x, 0) - pi_cot(fraction);
  constexpr Quad kTerms[] = {Quad(1) / 12,        Quad(-1) / 120,       Quad(1) / 252,    Quad(-1) / 240,
                             Quad(1) / 132,       Quad(-691) / 32760,   Quad(1) / 12,     Quad(-3617) / 8160,
                             Quad(43867) / 14364, Quad(-174611) / 6600, Quad(77683) / 276};
  Quad sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  const Quad z = 1 / (x * x);
  Quad tail = 0;
  for (const Quad& term : kTerms | std::views::reverse) tail = tail * z + term;
  return sum + log_of(x) - 1 / (2 * x) - tail * z;
}

// The function's own recurrence and asymptotic series, which is exact to 64 bits from 30 on.
long double digamma(long double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0 && x == std::floor(x)) return std::numeric_limits<long double>::quiet_NaN();
  const long double fraction = x - std::nearbyint(x);
  long double y = x < 0 ? 1 - x : x;
  long double sum = x < 0 ? -kPi / std::tan(kPi * fraction) : 0;
  for (; y < 30; ++y) sum -= 1 / y;
  const long double z = 1 / (y * y);
  const long double tail =
      z * (1.0L / 12 -
           z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * (691.0L / 32760 - z / 12))))));
  const long double result = sum + std::log(y) - 0.5L / y - tail;
  return std::fabs(result) < 1 ? static_cast<long double>(digamma_of(x, fraction)) : result;
}

long double trigamma(long double x) {
  if (x <= 0 && x == std::floor(x)) return std::isinf(x) ? std::numeric_limits<long double>::quiet_NaN() : kInfinity;
  if (x < 0) {
    const long double sine = std::sin(kPi * (x - std::nearbyint(x)));
    return (kPi / sine) * (kPi / sine) - trigamma(1 - x);
  }
  long double sum = 0;
  for (; x < 30; ++x) sum += 1 / (x * x);
  const long double z = 1 / (x * x);
  const long double tail =
      z * (1.0L / 6 -
           z * (1.0L / 30 - z * (1.0L / 42 - z * (1.0L / 30 - z * (5.0L / 66 - z * (691.0L / 2730 - z * 7 / 6))))));
  return sum + (1 + 0.5L / x + tail) / x;
}

long double log_gamma(long double x) {
  int sign = 0;
  return ::lgammal_r(x, &sign);
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
T neighbour(T x, int steps) {
  for (; steps > 0; --steps) x = std::nextafter(x, std::numeric_limits<T>::infinity());
  for (; steps < 0; ++steps) x = std::nextafter(x, -std::numeric_limits<T>::infinity());
  return x;
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (T x : {T(0),
              T(0.25),
              T(0.5),
              T(1),
              T(2),
              T(3),
              T(4),
              T(1e5),
              T(1.5e6),
              Limits::min(),
              Limits::denorm_min(),
              Limits::max(),
              Limits::infinity(),
              Limits::quiet_NaN(),
              Limits::epsilon(),
              T(88.8),
              T(103.97),
              T(709.8),
              T(745.2),
              T(0x1p24),
              T(0x1p53)}) {
    for (int steps : {-1, 0, 1}) {
      values.push_back(neighbour(x, steps));
      values.push_back(-neighbour(x, steps));
    }
  }
  return values;
}

// Where arguments are reduced, results are small or change their formula.
template <class T>
T near_multiple(std::mt19937_64& random, long double of) {
  const int bits = static_cast<int>(random() % 40);
  const auto times = static_cast<long double>(random() & ((uint64_t{1} << bits) - 1 + (uint64_t{1} << bits)));
  const T x = neighbour(static_cast<T>(times * of), static_cast<int>(random() % 3) - 1);
  return random() % 2 == 0 ? x : -x;
}

template <class T>
T any_argument(std::mt19937_64& random, const MathCase& c) {
  const double fraction = static_cast<double>(random() >> 11) * 0x1p-53;
  switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      return std::bit_cast<T>(static_cast<BitsOf<T>>(random()));
    case 3:
      return near_multiple<T>(random, kPi / 2);
    case 4:
      return near_multiple<T>(random, std::numbers::ln2_v<long double> / 2);
    default:
      return static_cast<T>(c.low + (c.high - c.low) * fraction);
  }
}

template <class T>
void add_special_values(const MathCase& c, MathPoints<T>& points) {
  const std::vector<T> values = special_values<T>();
  for (T x : values) {
    if (c.binary == nullptr) points.x.push_back(x);
    if (c.binary == nullptr) continue;
    for (T y : values) {
      points.x.push_back(x);
      points.y.push_back(y);
    }
  }
}

// The difference of two neighbours where x is, as if exponents had no end above.
template <class T>
long double ulp_of(long double x) {
  using Limits = std::numeric_limits<T>;
  const int exponent = x == 0 ? Limits::min_exponent : std::ilogb(x) + 1;
  return std::ldexp(1.0L, std::max(exponent, Limits::min_exponent) - Limits::digits);
}

template <class T>
double error_of(const MathCase& c, long double expected, T result) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(expected) || std::isnan(result)) return std::isnan(expected) == std::isnan(result) ? 0 : kWrong;
  if (std::isinf(expected)) return static_cast<long double>(result) == expected ? 0 : kWrong;
  if (result == 0 && std::signbit(result) != std::signbit(expected) && c.smallest == 0) return kWrong;
  const long double largest = std::numeric_limits<T>::max();
  const long double beyond = std::copysign(largest + ulp_of<T>(largest), expected);
  const long double got = std::isinf(result) && std::signbit(result) == std::signbit(expected) ? beyond : result;
  if (std::isinf(result) && std::fabs(expected) > largest) return 0;
  if (std::isinf(got)) return kWrong;
  const long double scale = std::max(std::fabs(expected), static_cast<long double>(c.smallest));
  return static_cast<double>(std::fabs(got - expected) / ulp_of<T>(std::min(scale, largest)));
}

}  // namespace

const std::vector<MathCase>& math_cases() {
  static const std::vector<MathCase> cases = {
      {"sqrt", std::sqrt, nullptr, 0, 10},
      {"rsqrt", rsqrt, nullptr, 0, 10},
      {"reciprocal", reciprocal, nullptr, -10, 10},
      {"exp", std::exp, nullptr, -110, 90},
      {"exp2", std::exp2, nullptr, -152, 129},
      {"expm1", std::expm1, nullptr, -5, 5},
      {"log", std::log, nullptr, 0, 4},
      {"log2", std::log2, nullptr, 0, 4},
      {"log10", std::log10, nullptr, 0, 4},
      {"log1p", std::log1p, nullptr, -1, 4},
      {"sigmoid", sigmoid, nullptr, -110, 40},
      {"sin", std::sin, nullptr, -10, 10},
      {"cos", std::cos, nullptr, -10, 10},
      {"tan", std::tan, nullptr, -10, 10},
      {"asin", std::asin, nullptr, -1, 1},
      {"acos", std::acos, nullptr, -1, 1},
      {"atan", std::atan, nullptr, -4, 4},
      {"sinh", std::sinh, nullptr, -3, 3},
      {"cosh", std::cosh, nullptr, -3, 3},
      {"tanh", std::tanh, nullptr, -3, 3},
      {"asinh", std::asinh, nullptr, -3, 3},
      {"acosh", std::acosh, nullptr, 1, 3},
      {"atanh", std::atanh, nullptr, -1, 1},
      {"erf", std::erf, nullptr, -4, 4},
      {"erfc", std::erfc, nullptr, -3, 11},
      {"erfinv", erfinv, nullptr, -1, 1},
      {"pow", nullptr, std::pow, 0, 30, 4},
      {"atan2", nullptr, std::atan2, -4, 4},
      {"hypot", nullptr, std::hypot, -4, 4},
      {"logaddexp", nullptr, logaddexp, -20, 20, 2, 1},
      {"lgamma", log_gamma, nullptr, -5, 20, 4},
      {"digamma", digamma, nullptr, -5, 20},
      {"trigamma", trigamma, nullptr, -5, 20},
  };
  return cases;
}

template <class T>
MathPoints<T> make_points(const MathCase& c, int64_t count) {
  std::mt19937_64 random(1);
  MathPoints<T> points;
  add_special_values(c, points);
  const auto total = (std::max(count, static_cast<int64_t>(points.x.size())) + 15) / 16 * 16;
  while (std::ssize(points.x) < total) {
    points.x.push_back(any_argument<T>(random, c));
    if (c.binary != nullptr) points.y.push_back(any_argument<T>(random, c));
  }
  for (size_t i = 0; i < points.x.size(); ++i) {
    points.expected.push_back(c.binary != nullptr ? c.binary(points.x[i], points.y[i]) : c.unary(points.x[i]));
  }
  return points;
}

template <class T>
Worst worst_of(const MathCase& c, const MathPoints<T>& points, const std::vector<T>& results) {
  Worst worst;
  for (size_t i = 0; i < results.size(); ++i) {
    const double ulp = error_of(c, points.expected[i], results[i]);
    if (ulp > worst.ulp) worst = {ulp, static_cast<int64_t>(i)};
  }
  return worst;
}

template MathPoints<float> make_points(const MathCase& c, int64_t count);
template MathPoints<double> make_points(const MathCase& c, int64_t count);
template Worst worst_of(const MathCase& c, const MathPoints<float>& points, const std::vector<float>& results);
template Worst worst_of(const MathCase& c, const MathPoints<double>& points, const std::vector<double>& results);

}  // namespace tenon::test
