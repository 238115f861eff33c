// Activation functions: composites, most with a gradient of their own. The branch that is not taken stays finite,
// because zero times infinity would be NaN in a second derivative.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

AttrDef real_attr(std::string_view name, std::string_view doc, double fallback) {
  return {name, AttrKind::kReal, doc, Attr(fallback)};
}

// A function of PyTorch's torch.nn.functional.
OpDef activation(std::string_view name, std::string_view doc, Semantics semantics, Gradient gradient,
                 Domain domain = {}) {
  return unary_op(name, doc, kFloats, std::move(semantics), std::move(gradient),
                  {.family = "activation", .domain = domain, .torch = kept_text(fmt::format("F.{}(x)", name))});
}

// ---- linear pieces --------------------------------------------------------------------------------------------------

const OpDef kRelu =
    unary_op("relu", "The larger of x and 0. The gradient at 0 is 0.", kNumbers,
             composite([](ExpandContext& e) { return e.maximum(e.in(), e.integer(0, e.in().dtype())); }),
             from_result([](GradContext& g, Value d, Value y) { return drop_where(g, g.compare("le", y, 0), d); }),
             {.family = "activation", .torch = "F.relu(x)"});

const OpDef kLeakyRelu{
    .name = "leaky_relu",
    .family = "activation",
    .doc = "x above 0, negative_slope * x below.",
    .operands = one_operand(kFloats),
    .attrs = {real_attr("negative_slope", "the slope below 0", 0.01)},
    .infer = same_as(0),
    .semantics = wide_composite(
        [](ExpandContext& e, Value x) { return e.where(e.compare("gt", x, 0), x, x * e.real("negative_slope")); }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) {
      return g.where(g.compare("gt", x, 0), d, d * g.real("negative_slope"));
    }),
    .peer = torch_is("F.leaky_relu(x, negative_slope)"),
    .samples =
        unary_samples() + Samples{"T[12]; negative_slope=0.3", "T[5]; negative_slope=-1", "T[5]; negative_slope=0.0"},
};

// A weight for each channel (dimension 1), shaped so that it broadcasts over x.
Value prelu_weight(NodeContext& c) {
  Shape aligned(c.in(0).shape().size(), 1);
  if (!aligned.empty()) aligned[aligned.size() > 1 ? 1 : 0] = element_count(c.in(1).shape());
  return widen(c, c.reshape(c.in(1), std::move(aligned)));
}

const OpDef kPrelu{
    .name = "prelu",
    .family = "activation",
    .doc = "x above 0, weight * x below. One weight for all, or one for each channel (dimension 1).",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"weight", kFloats}},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = c.type(0);
      const TensorType& weight = c.type(1);
      if (weight.rank() > 1) fail("the weight must have rank 0 or 1, got {}", to_string(weight));
      if (weight.dtype != x.dtype)
        fail("x and weight must have one dtype, got {} and {}", to_string(x), to_string(weight));
      const Expr count = element_count(weight.shape);
      const Expr channels = x.rank() > 1 ? x.size(1) : Expr(1);
      if (!count.is_constant(1) && count != channels) {
        fail("{} weights for {} channels of x, {}", to_string(count), to_string(channels), to_string(x));
      }
      return {x};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value x = e.in_wide();
      return e.cast(e.where(e.compare("gt", x, 0), x, x * prelu_weight(e)), e.in().dtype());
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value d = widen(g, g.dout());
      const Value x = widen(g, g.in());
      const Value weight = prelu_weight(g);
      const Value is_above = g.compare("gt", x, 0);
      const Value by_weight = g.sum_to(drop_where(g, is_above, d * x), weight.shape());
      return {g.where(is_above, d, d * weight), g.reshape(by_weight, g.in(1).shape())};
    }),
    .peer = torch_is("F.prelu(x, weight)"),
    .samples = Samples{"T[2, 3, 4], T[3]", "T[2, 3], T[3]", "T[2, 3], T[1]", "T[5], T[1]", "T[], T[1]", "T[2, 3], T[]",
                       "T[0, 3], T[3]", "T[2, 1, 2, 2], T[1]"},
};

const OpDef kThreshold{
    .name = "threshold",
    .family = "activation",
    .doc = "x above the threshold, else a fixed value.",
    .operands = one_operand(kFloats),
    .attrs = {{"threshold", AttrKind::kReal, "the number that x must exceed"},
              {"value", AttrKind::kReal, "the value that replaces x"}},
    .infer = same_as(0),
    .semantics = wide_composite([](ExpandContext& e, Value x) {
      return e.where(e.compare("le", x, e.real("threshold")), e.scalar(e.real("value"), x.dtype()), x);
    }),
    .gradient = from_operand(
        [](GradContext& g, Value d, Value x) { return drop_where(g, g.compare("le", x, g.real("threshold")), d); }),
    .peer = torch_is("F.threshold(x, threshold, value)"),
    .samples = Samples{"T[3, 4]; threshold=0.5, value=-2", "T[]; threshold=0, value=0", "T[0]; threshold=0, value=1",
                       "T[2, 1, 3]; threshold=-1, value=20"},
};

const OpDef kHardtanh{
    .name = "hardtanh",
    .family = "activation",
    .doc = "x, cut off at min_val and max_val. Unlike that of clamp, its gradient is 0 at the bounds.",
    .operands = one_operand(kFloats),
    .attrs = {real_attr("min_val", "the lower bound", -1), real_attr("max_val", "the upper bound", 1)},
    .infer = [](InferContext& c) -> Types {
      if (c.real("min_val") > c.real("max_val"))
        fail("min_val {} is above max_val {}", c.real("min_val"), c.real("max_val"));
      return {c.type(0)};
    },
    .semantics = wide_composite([](ExpandContext& e, Value x) {
      return e.op("clamp", {x, e.scalar(e.real("min_val"), x.dtype()), e.scalar(e.real("max_val"), x.dtype())});
    }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) {
      const Value below = g.compare("le", x, g.real("min_val"));
      const Value above = g.compare("ge", x, g.real("max_val"));
      return drop_where(g, g.op("bitwise_or", {below, above}), d);
    }),
    .peer = torch_is("F.hardtanh(x, min_val, max_val)"),
    .samples = unary_samples() + Samples{"T[12]; min_val=-2, max_val=0.5", "T[5]; min_val=1"},
};

const OpDef kRelu6 = activation("relu6", "x, cut off at 0 and 6.", composite([](ExpandContext& e) {
                                  return e.op("hardtanh", {e.in()}, {{"min_val", 0.0}, {"max_val", 6.0}});
                                }),
                                ByExpansion{}, Domain{-4, 9});

// relu6(x + 3) / 6, where hardsigmoid and hardswish bend.
Value hard_sigmoid(Builder& b, Value x) {
  return b.op("clamp", {x + 3, b.scalar(0, x.dtype()), b.scalar(6, x.dtype())}) / 6;
}

const OpDef kHardCurves[] = {
    activation("hardsigmoid", "(x + 3) / 6, cut off at 0 and 1.",
               wide_composite([](ExpandContext& e, Value x) { return hard_sigmoid(e, x); }),
               from_operand([](GradContext& g, Value d, Value x) {
                 return keep_where(g, g.op("bitwise_and", {g.compare("gt", x, -3), g.compare("lt", x, 3)}), d / 6);
               }),
               Domain{-5, 5}),
    activation("hardswish", "x * hardsigmoid(x).",
               wide_composite([](ExpandContext& e, Value x) { return x * hard_sigmoid(e, x); }),
               from_operand([](GradContext& g, Value d, Value x) {
                 const Value bent = g.where(g.compare("lt", x, 3), d * (x / 3 + 0.5), d);
                 return drop_where(g, g.compare("le", x, -3), bent);
               }),
               Domain{-5, 5}),
};

// ---- smooth ones ----------------------------------------------------------------------------------------------------

const OpDef kElu{
    .name = "elu",
    .family = "activation",
    .doc = "scale * x above 0, scale * alpha * expm1(input_scale * x) below.",
    .operands = one_operand(kFloats),
    .attrs = {real_attr("alpha", "how far below 0 it goes", 1), real_attr("scale", "a factor of the result", 1),
              real_attr("input_scale", "a factor of a negative x", 1)},
    .infer = same_as(0),
    .semantics = wide_composite([](ExpandContext& e, Value x) {
      const Value below = e.minimum(x, e.scalar(0, x.dtype()));
      const Value bent = e.unary("expm1", below * e.real("input_scale")) * (e.real("alpha") * e.real("scale"));
      return e.where(e.compare("gt", x, 0), x * e.real("scale"), bent);
    }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) {
      const Value below = g.minimum(x, g.scalar(0, x.dtype()));
      const double factor = g.real("input_scale") * g.real("alpha") * g.real("scale");
      const Value bent = d * g.exp(below * g.real("input_scale")) * factor;
      return g.where(g.compare("gt", x, 0), d * g.real("scale"), bent);
    }),
    .peer = torch_is("torch.ops.aten.elu(x, alpha, scale, input_scale)"),
    .samples = unary_samples() + Samples{"T[12]; alpha=0.3", "T[12]; alpha=1.7, scale=1.1, input_scale=0.5"},
};

const OpDef kSelu =
    activation("selu", "elu with the alpha and scale that keep mean 0 and variance 1 from layer to layer.",
               composite([](ExpandContext& e) {
                 return e.op("elu", {e.in()}, {{"alpha", 1.6732632423543772848}, {"scale", 1.0507009873554804934}});
               }),
               ByExpansion{});

const OpDef kCelu{
    .name = "celu",
    .family = "activation",
    .doc = "x above 0, alpha * expm1(x / alpha) below: elu with a continuous slope.",
    .operands = one_operand(kFloats),
    .attrs = {real_attr("alpha", "how far below 0 it goes", 1)},
    .infer = [](InferContext& c) -> Types {
      if (c.real("alpha") == 0) fail("alpha must not be 0");
      return {c.type(0)};
    },
    .semantics = composite([](ExpandContext& e) {
      return e.op("elu", {e.in()}, {{"alpha", e.real("alpha")}, {"input_scale", 1 / e.real("alpha")}});
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.celu(x, alpha)"),
    .samples = unary_samples() + Samples{"T[12]; alpha=2.5"},
};

const OpDef kSilu = activation("silu", "x * sigmoid(x), also known as swish.",
                               wide_composite([](ExpandContext& e, Value x) { return x * e.sigmoid(x); }),
                               from_operand([](GradContext& g, Value d, Value x) {
                                 const Value s = g.sigmoid(x);
                                 return d * s * (1 + x * (1 - s));
                               }));

constexpr double kCubic = 0.044715;
constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kInvSqrt2 = 1 / std::numbers::sqrt2;

// The weight in gelu(x) = x * weight(x): the normal distribution, or its approximation.
Value gelu_weight(Builder& b, Value x, bool approximate) {
  const Value s = approximate ? b.tanh(kTanhScale * (x + kCubic * (x * x * x))) : b.unary("erf", x * kInvSqrt2);
  return 0.5 * (1 + s);
}

// The derivative of the weight. With tanh, weight' = 2 * weight * (1 - weight) * inner', where 1 - tanh^2 is 4 w (1 -
// w).
Value gelu_weight_slope(Builder& b, Value x, Value weight, bool approximate) {
  if (approximate) return 2 * weight * (1 - weight) * (kTanhScale * (1 + 3 * kCubic * (x * x)));
  return (kInvSqrt2 * std::numbers::inv_sqrtpi) * b.exp(-0.5 * (x * x));
}

const OpDef kGelu{
    .name = "gelu",
    .family = "activation",
    .doc = "x times the probability that a standard normal variable is below x. `tanh` approximates it.",
    .operands = one_operand(kFloats),
    .attrs = {{"approximate", AttrKind::kString, "`none` or `tanh`", Attr(std::string("none"))}},
    .infer = [](InferContext& c) -> Types {
      const std::string& approximate = c.string("approximate");
      if (approximate != "none" && approximate != "tanh")
        fail("approximate must be \"none\" or \"tanh\", got \"{}\"", approximate);
      return {c.type(0)};
    },
    .semantics = wide_composite(
        [](ExpandContext& e, Value x) { return x * gelu_weight(e, x, e.string("approximate") == "tanh"); }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) {
      const bool approximate = g.string("approximate") == "tanh";
      const Value weight = gelu_weight(g, x, approximate);
      return d * (weight + x * gelu_weight_slope(g, x, weight, approximate));
    }),
    .peer = torch_is("F.gelu(x, approximate=approximate)"),
    .samples = unary_samples() + Samples{"T[3, 4]; approximate=\"tanh\"", "T[]; approximate=\"tanh\""},
    .special_values = false,
};  // of infinity, PyTorch gives inf for one element and NaN for four

Value log1p_exp_of_minus_abs(Builder& b, Value x) { return b.unary("log1p", b.exp(-b.abs(x))); }

// log(1 + exp(x)), which neither overflows nor loses small values.
Value soft_plus(Builder& b, Value x) { return b.maximum(x, b.scalar(0, x.dtype())) + log1p_exp_of_minus_abs(b, x); }

const OpDef kSoftplus{
    .name = "softplus",
    .family = "activation",
    .doc = "log(1 + exp(beta * x)) / beta, and x itself where beta * x exceeds the threshold.",
    .operands = one_operand(kFloats),
    .attrs = {real_attr("beta", "the sharpness", 1), real_attr("threshold", "where it counts as linear", 20)},
    .infer = same_as(0),
    .semantics = wide_composite([](ExpandContext& e, Value x) {
      const Value scaled = x * e.real("beta");
      return e.where(e.compare("gt", scaled, e.real("threshold")), x, soft_plus(e, scaled) / e.real("beta"));
    }),
    .gradient = from_operand([](GradContext& g, Value d, Value x) {
      const Value scaled = x * g.real("beta");
      return g.where(g.compare("gt", scaled, g.real("threshold")), d, d * g.sigmoid(scaled));
    }),
    .peer = torch_is("F.softplus(x, beta, threshold)"),
    .samples = unary_samples() + Samples{"T[12]; beta=2.5", "T[12]; beta=0.5, threshold=1"},
};

const OpDef kLogSigmoid = unary_op("log_sigmoid", "log(sigmoid(x)), exact where sigmoid(x) is close to 0 or 1.",
                                   kFloats, wide_composite([](ExpandContext& e, Value x) {
                                     return e.minimum(x, e.scalar(0, x.dtype())) - log1p_exp_of_minus_abs(e, x);
                                   }),
                                   from_operand([](GradContext& g, Value d, Value x) { return d * g.sigmoid(-x); }),
                                   {.family = "activation", .torch = "F.logsigmoid(x)"});

const OpDef kSoftCurves[] = {
    activation("mish", "x * tanh(log(1 + exp(x))).",
               wide_composite([](ExpandContext& e, Value x) { return x * e.tanh(soft_plus(e, x)); }),
               from_operand([](GradContext& g, Value d, Value x) {
                 const Value t = g.tanh(soft_plus(g, x));
                 return d * (t + x * g.sigmoid(x) * (1 - t * t));
               })),
    activation("softsign", "x / (1 + |x|).",
               wide_composite([](ExpandContext& e, Value x) { return x / (1 + e.abs(x)); }),
               from_operand([](GradContext& g, Value d, Value x) {
                 const Value size = 1 + g.abs(x);
                 return d / (size * size);
               })),
};

// ---- gates ----------------------------------------------------------------------------------------------------------

const OpDef kGlu{
    .name = "glu",
    .family = "activation",
    .doc = "The first half of x times the sigmoid of the second half.",
    .operands = one_operand(kFloats),
    .attrs = {{"dim", AttrKind::kInt, "the dimension to halve", Attr(int64_t{-1})}},
    .infer = [](InferContext& c) -> Types {
      if (c.type(0).rank() == 0) fail("a tensor of rank 0 cannot be halved");
      TensorType type = c.type(0);
      Expr& size = type.shape[static_cast<size_t>(c.dim("dim"))];
      if (!mod(size, 2).is_constant(0))
        fail("dimension {} has size {}, which is not known to be even", c.dim("dim"), to_string(size));
      size = floordiv(size, 2);
      return {type};
    },
    .semantics = composite([](ExpandContext& e) {
      const int64_t dim = e.dim("dim");
      const Expr size = e.in().size(dim);
      const Expr half = floordiv(size, 2);
      const Value x = e.in_wide();
      return e.cast(e.slice(x, dim, 0, half) * e.sigmoid(e.slice(x, dim, half, size)), e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.glu(x, dim)"),
    .samples = Samples{"T[3, 4]", "T[4, 3]; dim=0", "T[2]", "T[2, 6, 1]; dim=-2", "T[0, 2]", "T[3, 0]"},
};

}  // namespace

OpRefs activation_ops() {
  return records(kRelu, kLeakyRelu, kPrelu, kThreshold, kHardtanh, kRelu6, kHardCurves, kElu, kSelu, kCelu, kSilu,
                 kGelu, kSoftplus, kLogSigmoid, kSoftCurves, kGlu);
}

}  // namespace tenon::ops
