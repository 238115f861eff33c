// The unary family: trigonometric and hyperbolic functions.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/unary.h"

namespace tenon {
namespace {

using namespace ops;

const OpDef kSin{
    .name = "sin",
    .family = "unary",
    .doc = "The sine of an angle in radians.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kSin),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.cos(x); }),
    .peer = torch_is("torch.sin(x)"),
    .samples = unary_samples(),
};

const OpDef kCos{
    .name = "cos",
    .family = "unary",
    .doc = "The cosine of an angle in radians.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kCos),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return -d * g.sin(x); }),
    .peer = torch_is("torch.cos(x)"),
    .samples = unary_samples(),
};

const OpDef kTan{
    .name = "tan",
    .family = "unary",
    .doc = "The tangent of an angle in radians.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kTan),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * (1 + y * y); }),
    .peer = torch_is("torch.tan(x)"),
    .samples = unary_samples(),
    .domain = {-1.3, 1.3},
};

const OpDef kAsin{
    .name = "asin",
    .family = "unary",
    .doc = "The inverse sine, in [-pi/2, pi/2]. NaN outside [-1, 1].",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAsin),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(1 - x * x); }),
    .peer = torch_is("torch.asin(x)"),
    .samples = unary_samples(),
    .domain = {-0.9, 0.9},
};

const OpDef kAcos{
    .name = "acos",
    .family = "unary",
    .doc = "The inverse cosine, in [0, pi]. NaN outside [-1, 1].",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAcos),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return -d * g.rsqrt(1 - x * x); }),
    .peer = torch_is("torch.acos(x)"),
    .samples = unary_samples(),
    .domain = {-0.9, 0.9},
};

const OpDef kAtan{
    .name = "atan",
    .family = "unary",
    .doc = "The inverse tangent, in [-pi/2, pi/2].",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAtan),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / (x * x + 1); }),
    .peer = torch_is("torch.atan(x)"),
    .samples = unary_samples(),
};

const OpDef kSinh{
    .name = "sinh",
    .family = "unary",
    .doc = "The hyperbolic sine.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kSinh),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("cosh", x); }),
    .peer = torch_is("torch.sinh(x)"),
    .samples = unary_samples(),
};

const OpDef kCosh{
    .name = "cosh",
    .family = "unary",
    .doc = "The hyperbolic cosine.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kCosh),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.unary("sinh", x); }),
    .peer = torch_is("torch.cosh(x)"),
    .samples = unary_samples(),
};

const OpDef kTanh{
    .name = "tanh",
    .family = "unary",
    .doc = "The hyperbolic tangent.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kTanh),
    .gradient = from_result([](GradContext&, Value d, Value y) { return d * (1 - y * y); }),
    .peer = torch_is("torch.tanh(x)"),
    .samples = unary_samples(),
};

const OpDef kAsinh{
    .name = "asinh",
    .family = "unary",
    .doc = "The inverse hyperbolic sine.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAsinh),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(x * x + 1); }),
    .peer = torch_is("torch.asinh(x)"),
    .samples = unary_samples(),
};

const OpDef kAcosh{
    .name = "acosh",
    .family = "unary",
    .doc = "The inverse hyperbolic cosine. NaN below 1.",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAcosh),
    .gradient = from_operand([](GradContext& g, Value d, Value x) { return d * g.rsqrt(x * x - 1); }),
    .peer = torch_is("torch.acosh(x)"),
    .samples = unary_samples(),
    .domain = {1.2, 4},
};

const OpDef kAtanh{
    .name = "atanh",
    .family = "unary",
    .doc = "The inverse hyperbolic tangent. NaN outside [-1, 1].",
    .operands = one_operand(),
    .infer = elementwise_type,
    .semantics = real_elementwise(Primitive::kAtanh),
    .gradient = from_operand([](GradContext&, Value d, Value x) { return d / (1 - x * x); }),
    .peer = torch_is("torch.atanh(x)"),
    .samples = unary_samples(),
    .domain = {-0.9, 0.9},
};

}  // namespace

OpFamily ops::trigonometric_ops() {
  static const OpDef* const ops[] = {&kSin,  &kCos,  &kTan,  &kAsin,  &kAcos,  &kAtan,
                                     &kSinh, &kCosh, &kTanh, &kAsinh, &kAcosh, &kAtanh};
  return ops;
}

}  // namespace tenon
