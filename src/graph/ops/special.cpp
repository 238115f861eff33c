// The unary family: error and gamma functions.
#include <math.h>  // lgamma_r is POSIX: <cmath> need not have it

#include <cmath>
#include <limits>
#include <numbers>

#include "graph/ops/elementwise.h"
#include "graph/ops/unary.h"

namespace tenon {
namespace {

using namespace ops;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;
constexpr double kTwoBySqrtPi = 2 * std::numbers::inv_sqrtpi;

// erf(y) - x, where y has the sign of x. Near |x| = 1 both round to 1, but their distances from 1 do not: 1 - |x| is
// exact.
double erf_residual(double y, double x) {
  if (std::abs(x) < 0.5) return std::erf(y) - x;
  return std::copysign(1.0, x) * ((1 - std::abs(x)) - std::erfc(std::abs(y)));
}

// Winitzki's approximation is good to 2e-3; each Newton step about squares the error.
double erfinv(double x) {
  if (std::abs(x) == 1) return std::copysign(kInfinity, x);
  if (!(std::abs(x) < 1)) return kNaN;
  constexpr double a = 0.147;
  const double w = std::log1p(-x * x);
  const double t = 2 / (kPi * a) + w / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - w / a) - t), x);
  for (int step = 0; step < 5; ++step) y -= erf_residual(y, x) / (kTwoBySqrtPi * std::exp(-y * y));
  return y;
}

// std::lgamma writes the global `signgam`, which is a race between threads.
double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// The argument from which the asymptotic series below are exact to double precision.
constexpr double kAsymptotic = 12;

double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0 && x == std::floor(x)) return kNaN;
  if (x < 0) return digamma(1 - x) - kPi / std::tan(kPi * std::fmod(x, 1.0));
  double sum = 0;
  for (; x < kAsymptotic; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  const double tail =
      y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691 / 32760)))));
  return sum + std::log(x) - 0.5 / x - tail;
}

double trigamma(double x) {
  if (x <= 0 && x == std::floor(x)) return std::isinf(x) ? kNaN : kInfinity;
  if (x < 0) return std::pow(kPi / std::sin(kPi * std::fmod(x, 1.0)), 2) - trigamma(1 - x);
  double sum = 0;
  for (; x < kAsymptotic; ++x) sum += 1 / (x * x);
  const double y = 1 / (x * x);
  const double tail =
      y * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * 691 / 2730)))));
  return sum + (1 + 0.5 / x + tail) / x;
}

const OpDef kErf{
    .name = "erf",
    .family = "unary",
    .doc = "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise([](double x) { return std::erf(x); }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return kTwoBySqrtPi * d * g.exp(-(x * x)); }),
    .peer = torch_is("torch.erf(x)"),
    .samples = unary_samples(),
};

const OpDef kErfc{
    .name = "erfc",
    .family = "unary",
    .doc = "1 - erf(x), exact where erf(x) is close to 1.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise([](double x) { return std::erfc(x); }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return -kTwoBySqrtPi * d * g.exp(-(x * x)); }),
    .peer = torch_is("torch.erfc(x)"),
    .samples = unary_samples(),
};

const OpDef kErfinv{
    .name = "erfinv",
    .family = "unary",
    .doc = "The inverse of erf. Infinite at -1 and 1, NaN outside.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(erfinv),
    .gradient = from_result([](GradContext& g, Value d, Value y) { return d * g.exp(y * y) / kTwoBySqrtPi; }),
    .peer = torch_is("torch.erfinv(x)"),
    .samples = unary_samples(),
    .domain = {-0.95, 0.95},
};

const OpDef kLgamma{
    .name = "lgamma",
    .family = "unary",
    .doc = "The logarithm of the absolute value of the gamma function.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(lgamma),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("digamma", x); }),
    .peer = torch_is("torch.lgamma(x)"),
    .samples = unary_samples(),
    .domain = {0.2, 6},
};

const OpDef kDigamma{
    .name = "digamma",
    .family = "unary",
    .doc = "The derivative of lgamma. NaN at negative integers.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(digamma),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("trigamma", x); }),
    .peer = torch_is("torch.digamma(x)"),
    .samples = unary_samples(),
    .domain = {0.2, 6},
};

const OpDef kTrigamma{
    .name = "trigamma",
    .family = "unary",
    .doc = "The derivative of digamma, for which it exists. Infinite at 0 and negative integers.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(trigamma),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.polygamma(1, x)"),
    .samples =
        Samples{"f64[3, 4]", "f32[40]", "f16[2, 3]", "bf16[]", "f32[0]", "i64[5] in 1..9", "u8[1] in 1..9", "bool[4]"},
    .domain = {0.2, 6},
    .special_values = false,
};  // PyTorch misses the poles below 0: its sin(pi * x) is not 0 there

}  // namespace

OpFamily ops::special_ops() {
  static const OpDef* const ops[] = {&kErf, &kErfc, &kErfinv, &kLgamma, &kDigamma, &kTrigamma};
  return ops;
}

}  // namespace tenon
