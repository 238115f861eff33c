// The unary family: error and gamma functions.
#include <cmath>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/unary.h"

namespace tenon {
namespace {

using namespace ops;

constexpr double kTwoBySqrtPi = 2 * std::numbers::inv_sqrtpi;

const OpDef kErf{
    .name = "erf",
    .family = "unary",
    .doc = "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kErf),
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
    .semantics = real_elementwise(Primitive::kErfc),
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
    .semantics = real_elementwise(Primitive::kErfinv),
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
    .semantics = real_elementwise(Primitive::kLgamma),
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
    .semantics = real_elementwise(Primitive::kDigamma),
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
    .semantics = real_elementwise(Primitive::kTrigamma),
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
