// Activations, and their backward overloads as AOTAutograd leaves them.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

Value zero(AtenCall& c, Value x) { return c.scalar(0, x.dtype()); }

// ---- forward --------------------------------------------------------------------------------------------------------

// The ops cut off floats only; integers are clamped.
AtenArg cut_off(AtenCall& c, double low, double high) {
  const Value x = c.tensor();
  if (is_float(x.dtype())) return c.op("hardtanh", {x}, {{"min_val", low}, {"max_val", high}});
  const auto bound = [&](double number) { return c.integer(static_cast<int64_t>(number), x.dtype()); };
  return c.op("clamp", {x, bound(low), bound(high)});
}

AtenArg threshold(AtenCall& c) {
  const Value x = c.tensor();
  const Value value = c.cast(c.operand("value", x.dtype()), x.dtype());
  return c.where(c.op("le", {x, c.operand("threshold", x.dtype())}), value, x);
}

Value softshrink(AtenCall& c, Value x) {
  const double lambd = c.real("lambd");
  const Value below = c.where(c.compare("lt", x, -lambd), x + lambd, x * 0);
  return c.where(c.compare("gt", x, lambd), x - lambd, below);
}

Value is_shrunk(AtenCall& c, Value x) {
  const double lambd = c.real("lambd");
  return logical_and(c, c.compare("ge", x, -lambd), c.compare("le", x, lambd));
}

Value elu(AtenCall& c, Value x) {
  const auto number = [&](std::string_view name) { return c.number(name, x.dtype()); };
  const Value negative = c.unary("expm1", x * number("input_scale")) * (number("alpha") * number("scale"));
  return c.where(c.compare("le", x, 0), negative, x * number("scale"));
}

Value softplus(AtenCall& c, Value x) {
  const Value beta = c.number("beta", x.dtype());
  const Value scaled = x * beta;
  const Value is_straight = c.compare("gt", scaled, c.number("threshold", x.dtype()));
  return c.where(is_straight, x, c.unary("log1p", c.exp(scaled)) / beta);
}

Value leaky_slope(AtenCall& c, Value g, Value x, Value slope) { return c.where(c.compare("gt", x, 0), g, g * slope); }

void add_forward(AtenTable& table) {
  table.op("aten.{relu,hardsigmoid,hardswish,selu,silu,log_sigmoid,mish}.default(self)");
  table.op("aten.celu.default(self, alpha=1.0)");
  table.op("aten.elu.default(self, alpha=1, scale=1, input_scale=1)", {}, unary_formula(elu));
  table.op("aten.gelu.default(self, *, approximate=\"none\")");
  table.op("aten.glu.default(self, dim=-1)");
  table.op("aten.leaky_relu.default(self, negative_slope=0.01)", {}, unary_formula([](AtenCall& c, Value x) {
             return leaky_slope(c, x, x, c.number("negative_slope", x.dtype()));
           }));
  table.op("aten.prelu.default(self, weight)");
  table.op("aten.softplus.default(self, beta=1, threshold=20)", {}, unary_formula(softplus));
  table.add("aten.hardtanh.default(self, min_val=-1, max_val=1)",
            [](AtenCall& c) { return cut_off(c, c.real("min_val"), c.real("max_val")); });
  table.add("aten.relu6.default(self)", [](AtenCall& c) { return cut_off(c, 0, 6); });
  table.add("aten.threshold.default(self, threshold, value)", threshold);
  table.add("aten.hardshrink.default(self, lambd=0.5)",
            unary_formula([](AtenCall& c, Value x) { return c.where(is_shrunk(c, x), zero(c, x), x); }));
  table.add("aten.softshrink.default(self, lambd=0.5)", unary_formula(softshrink));
  table.add("aten.log_sigmoid_forward.default(self)", [](AtenCall& c) {
    const Value x = c.tensor();
    return std::vector{c.unary("log_sigmoid", x), c.exp(-c.abs(x))};
  });
  table.add(
      "aten._prelu_kernel.default(self, weight)",
      binary_formula([](AtenCall& c, Value x, Value weight) { return c.where(c.compare("gt", x, 0), x, weight * x); },
                     "self", "weight"));
}

// ---- backward: of the gradient g of the result, and x ---------------------------------------------------------------

// An entry whose first two parameters are the gradient and the tensor that it is a function of.
void add_backward(AtenTable& table, std::string_view signature, BinaryFormula formula) {
  const AtenSignature parsed = parse_signature(signature).value();
  table.add(signature, [formula = std::move(formula), g = parsed.parameters[0].name,
                        x = parsed.parameters[1].name](AtenCall& c) { return binary_formula(formula, g, x)(c); });
}

Value softplus_backward(AtenCall& c, Value g, Value x) {
  const Value scaled = x * c.number("beta", x.dtype());
  return c.where(c.compare("gt", scaled, c.number("threshold", x.dtype())), g, g * c.sigmoid(scaled));
}

Value logit_backward(AtenCall& c, Value g, Value x) {
  const Value slope = g / (x * (1 - x));
  if (!c.given("eps")) {
    const Value nan = c.scalar(std::numeric_limits<double>::quiet_NaN(), g.dtype());
    const Value is_outside = logical_or(c, c.compare("lt", x, 0), c.compare("gt", x, 1));
    return c.where(is_outside, nan, slope);
  }
  const double eps = c.real("eps");
  const Value is_clamped = logical_or(c, c.compare("lt", x, eps), c.compare("gt", x, 1 - eps));
  return c.where(is_clamped, zero(c, g), slope);
}

Value elu_backward(AtenCall& c, Value g, Value y) {
  const Value scale = c.number("scale", y.dtype());
  const Value input_scale = c.number("input_scale", y.dtype());
  const Value negative = c.number("alpha", y.dtype()) * scale;
  const Value slope =
      c.flag("is_result") ? (y + negative) * input_scale : c.exp(y * input_scale) * (negative * input_scale);
  return c.where(c.compare("le", y, 0), g * slope, g * scale);
}

AtenArg prelu_backward(AtenCall& c) {
  const Value g = c.tensor("grad_output");
  const Value x = c.tensor();
  const Value weight = c.tensor("weight");
  const Value positive = c.compare("gt", x, 0);
  return std::vector{c.where(positive, g, weight * g), c.where(positive, zero(c, g), x * g)};
}

void add_backwards(AtenTable& table) {
  add_backward(table, "aten.threshold_backward.default(grad_output, self, threshold)",
               [](AtenCall& c, Value g, Value x) {
                 return c.where(c.compare("le", x, c.number("threshold", x.dtype())), zero(c, g), g);
               });
  add_backward(table, "aten.tanh_backward.default(grad_output, output)",
               [](AtenCall&, Value g, Value y) { return g * (1 - y * y); });
  add_backward(table, "aten.sigmoid_backward.default(grad_output, output)",
               [](AtenCall&, Value g, Value y) { return g * (1 - y) * y; });
  table.gradient("aten.gelu_backward.default(grad_output, self, *, approximate=\"none\")", "gelu");
  table.gradient("aten.silu_backward.default(grad_output, self)", "silu");
  table.gradient("aten.mish_backward.default(grad_output, self)", "mish");
  table.gradient("aten.hardswish_backward.default(grad_output, self)", "hardswish");
  table.gradient("aten.hardsigmoid_backward.default(grad_output, self)", "hardsigmoid");
  table.gradient("aten.hardtanh_backward.default(grad_output, self, min_val, max_val)", "hardtanh");
  table.gradient("aten.log_sigmoid_backward.default(grad_output, self, buffer)", "log_sigmoid");
  table.gradient("aten.glu_backward.default(grad_output, self, dim)", "glu");
  add_backward(table, "aten.softplus_backward.default(grad_output, self, beta, threshold)", softplus_backward);
  add_backward(table, "aten.logit_backward.default(grad_output, self, eps=None)", logit_backward);
  add_backward(
      table, "aten.leaky_relu_backward.default(grad_output, self, negative_slope, self_is_result)",
      [](AtenCall& c, Value g, Value x) { return leaky_slope(c, g, x, c.number("negative_slope", x.dtype())); });
  const BinaryFormula shrink_backward = [](AtenCall& c, Value g, Value x) {
    return c.where(is_shrunk(c, x), zero(c, g), g);
  };
  add_backward(table, "aten.softshrink_backward.default(grad_output, self, lambd)", shrink_backward);
  add_backward(table, "aten.hardshrink_backward.default(grad_out, self, lambd)", shrink_backward);
  table.add("aten.elu_backward.default(grad_output, alpha, scale, input_scale, is_result, self_or_result)",
            binary_formula(elu_backward, "grad_output", "self_or_result"));
  table.add("aten._prelu_kernel_backward.default(grad_output, self, weight)", prelu_backward);
}

// ---- rrelu: a leaky relu whose slopes are random in training --------------------------------------------------------

double mean_slope(AtenCall& c) { return (c.real("lower") + c.real("upper")) / 2; }

// The result, and the slope of each element.
std::pair<Value, Value> random_relu(AtenCall& c) {
  const Value x = c.tensor();
  const Value is_positive = c.compare("gt", x, 0);
  if (!c.flag("training")) return {c.where(is_positive, x, x * mean_slope(c)), Value()};
  const Value uniform = c.cast(
      c.op("uniform", {c.key(element_count(x.shape()))}, {{"shape", x.shape()}, {"dtype", DType::kF32}}), x.dtype());
  const Value slopes = uniform * (c.real("upper") - c.real("lower")) + c.real("lower");
  const Value noise = c.where(is_positive, c.scalar(1, x.dtype()), slopes);
  return {x * noise, noise};
}

Value random_relu_backward(AtenCall& c, Value g, Value x) {
  const bool is_random = c.flag("training") && c.real("upper") - c.real("lower") > 1e-6;
  return is_random ? g * to_wide(c, c.tensor("noise")) : leaky_slope(c, g, x, c.scalar(mean_slope(c), g.dtype()));
}

void add_random_relu(AtenTable& table) {
  const std::string slopes = "lower=0.125, upper=0.3333333333333333, training=False, generator=None";
  table.add("aten.rrelu.default(self, " + slopes + ")", [](AtenCall& c) { return random_relu(c).first; });
  table.add("aten.rrelu_with_noise.default(self, noise, " + slopes + ")", [](AtenCall& c) {
    const auto [result, noise] = random_relu(c);
    if (noise) c.write("noise", noise);
    return result;
  });
  table.add("aten.rrelu_with_noise_functional.default(self, noise, " + slopes + ")", [](AtenCall& c) {
    const auto [result, noise] = random_relu(c);
    return std::vector{result, noise ? noise : c.tensor("noise")};
  });
  add_backward(
      table, "aten.rrelu_with_noise_backward.default(grad_output, self, noise, lower, upper, training, self_is_result)",
      random_relu_backward);
}

}  // namespace

void add_activation_entries(AtenTable& table) {
  add_forward(table);
  add_backwards(table);
  add_random_relu(table);
}

}  // namespace tenon::aten
