// Element by element.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- one tensor -----------------------------------------------------------------------------------------------------

void add_unary_ops(AtenTable& table) {
  table.op("aten.{acos,acosh,asin,asinh,atan,atanh,cos,cosh,sin,sinh,tan,tanh}.default(self)");
  table.op("aten.{bitwise_not,ceil,exp,floor,frac,isfinite,isinf,isnan,logical_not,neg,reciprocal}.default(self)");
  table.op("aten.{digamma,erf,erfc,erfinv,exp2,expm1,lgamma,log,log10,log1p,log2,rsqrt,sigmoid}.default(self)");
  table.op("aten.{sign,sqrt,trunc}.default(self)");
  const std::pair<std::string_view, std::string_view> other_names[] = {{"acos", "arccos"},
                                                                       {"acosh", "arccosh"},
                                                                       {"asin", "arcsin"},
                                                                       {"asinh", "arcsinh"},
                                                                       {"atan", "arctan"},
                                                                       {"atanh", "arctanh"},
                                                                       {"digamma", "special_psi"},
                                                                       {"digamma", "special_digamma"},
                                                                       {"erf", "special_erf"},
                                                                       {"erfc", "special_erfc"},
                                                                       {"erfinv", "special_erfinv"},
                                                                       {"exp2", "special_exp2"},
                                                                       {"expm1", "special_expm1"},
                                                                       {"lgamma", "special_gammaln"},
                                                                       {"log1p", "special_log1p"},
                                                                       {"neg", "negative"},
                                                                       {"rint", "round"},
                                                                       {"sigmoid", "special_expit"},
                                                                       {"sign", "sgn"},
                                                                       {"trunc", "fix"}};
  for (const auto& [op, name] : other_names) table.op(fmt::format("aten.{}.default(self)", name), op);
  table.op("aten.round.decimals(self, *, decimals)", "round");
  table.op("aten.special_round.default(self, *, decimals=0)", "round");
}

AtenArg absolute(AtenCall& c) {
  const Value x = c.tensor();
  return x.dtype() == DType::kBool ? x : c.abs(x);
}

AtenArg square(AtenCall& c) {
  const Value x = c.tensor();
  return c.op("square", {c.cast(x, x.dtype() == DType::kBool ? DType::kI64 : x.dtype())});
}

AtenArg signbit(AtenCall& c) {
  const Value x = c.tensor();
  if (x.dtype() == DType::kBool) return c.full(Expr(0), x.shape(), DType::kBool);
  if (!is_float(x.dtype())) return c.compare("lt", x, 0);
  return c.compare("lt", c.op("copysign", {c.scalar(1, x.dtype()), x}), 0);
}

void add_unary_others(AtenTable& table) {
  table.add("aten.{abs,absolute}.default(self)", absolute);
  table.add("aten.square.default(self)", square);
  table.add("aten.signbit.default(self)", signbit);
  table.add("aten.positive.default(self)", [](AtenCall& c) { return itself(c); });
  table.add("aten.isposinf.default(self)", [](AtenCall& c) { return c.compare("eq", c.tensor(), kInf); });
  table.add("aten.isneginf.default(self)", [](AtenCall& c) { return c.compare("eq", c.tensor(), -kInf); });
  table.add("aten.isreal.default(self)", [](AtenCall& c) { return c.full(Expr(1), c.tensor().shape(), DType::kBool); });
  table.add("aten.deg2rad.default(self)",
            unary_formula([](AtenCall&, Value x) { return x * (std::numbers::pi / 180); }));
  table.add("aten.rad2deg.default(self)",
            unary_formula([](AtenCall&, Value x) { return x * (180 / std::numbers::pi); }));
  table.add("aten.{sinc,special_sinc}.default(self)", unary_formula([](AtenCall& c, Value x) {
              const Value angle = x * std::numbers::pi;
              return c.where(c.compare("eq", x, 0), c.scalar(1, x.dtype()), c.sin(angle) / angle);
            }));
}

// ---- cases of floating point ----------------------------------------------------------------------------------------

double largest(DType dtype) {
  if (dtype == DType::kF64) return DBL_MAX;
  if (dtype == DType::kF32) return FLT_MAX;
  return dtype == DType::kF16 ? 65504.0 : 0x1.FEp127;
}

AtenArg nan_to_num(AtenCall& c) {
  const Value x = c.tensor();
  if (!is_float(x.dtype())) return x;
  const auto number = [&](std::string_view name, double otherwise) {
    return c.scalar(c.given(name) ? c.real(name) : otherwise, x.dtype());
  };
  Value result = c.where(c.unary("isnan", x), number("nan", 0), x);
  result = c.where(c.compare("eq", x, kInf), number("posinf", largest(x.dtype())), result);
  return c.where(c.compare("eq", x, -kInf), number("neginf", -largest(x.dtype())), result);
}

AtenArg logit(AtenCall& c) {
  const auto formula = [](AtenCall& c, Value x) {
    if (c.given("eps")) {
      const double eps = c.real("eps");
      x = c.op("clamp", {x, c.scalar(eps, x.dtype()), c.scalar(1 - eps, x.dtype())});
    }
    return c.log(x / (1 - x));
  };
  return unary_formula(formula)(c);
}

void add_float_cases(AtenTable& table) {
  table.add("aten.nan_to_num.default(self, nan=None, posinf=None, neginf=None)", nan_to_num);
  table.add("aten.{logit,special_logit}.default(self, eps=None)", logit);
}

// ---- two tensors, or a tensor and a number --------------------------------------------------------------------------

// y times a number, in the dtype of the result if that is wider: half of an integer beside a float is not 0.
Value times_in(AtenCall& c, DType result, Value y, std::string_view number) {
  if (is_one(c.argument(number))) return y;
  return times(c, promote(y.dtype(), result) == result ? c.cast(y, result) : y, number);
}

Value plus_scaled(AtenCall& c, std::string_view op, Value x, Value y) {
  if (op == "sub" && y.dtype() == DType::kBool) return c.op(op, {x, y});  // an error, as in PyTorch
  return c.op(op, {x, times_in(c, result_dtype(std::vector{x.type(), y.type()}), y, "alpha")});
}

AtenFn scaled_binary(std::string_view op) {
  return [op](AtenCall& c) {
    const auto [x, y] = c.pair("self", "other");
    return plus_scaled(c, op, x, y);
  };
}

AtenArg reversed_sub(AtenCall& c) {
  const auto [x, y] = c.pair("self", "other");
  return plus_scaled(c, "sub", y, x);
}

AtenArg divide(AtenCall& c) {
  if (!c.given("rounding_mode")) return c.call("aten.div.Tensor", {c.argument("self"), c.argument("other")});
  const std::string mode = c.string("rounding_mode");
  if (mode != "floor" && mode != "trunc") fail("rounding_mode must be 'floor' or 'trunc', got '{}'", mode);
  return promoted_binary(mode == "floor" ? "floor_div" : "trunc_div")(c);
}

void add_arithmetic(AtenTable& table) {
  for (std::string_view overload : {"Tensor(self, other, *, alpha=1)", "Scalar(self, other, alpha=1)"}) {
    table.add(fmt::format("aten.add.{}", overload), scaled_binary("add"));
    table.add(fmt::format("aten.{{sub,subtract}}.{}", overload), scaled_binary("sub"));
    table.add(fmt::format("aten.rsub.{}", overload), reversed_sub);
  }
  table.op("aten.{mul,multiply}.{Tensor,Scalar}(self, other)", "mul");
  table.op("aten.{div,divide,true_divide}.{Tensor,Scalar}(self, other)", "div");
  table.add("aten.{div,divide}.{Tensor,Scalar}_mode(self, other, *, rounding_mode)", divide);
  table.add("aten.fmod.{Tensor,Scalar}(self, other)", promoted_binary("fmod"));
  table.op("aten.copysign.{Tensor,Scalar}(self, other)");
  table.add("aten.floor_divide.{default,Scalar}(self, other)", promoted_binary("floor_div"));
  table.add("aten.remainder.{Tensor,Scalar,Scalar_Tensor}(self, other)", promoted_binary("remainder"));
}

AtenArg float_power(AtenCall& c) {
  const auto [x, y] = c.pair("self", "exponent");
  return c.pow(c.cast(x, DType::kF64), c.cast(y, DType::kF64));
}

void add_powers(AtenTable& table) {
  constexpr std::string_view kOverloads = "{Scalar,Tensor_Scalar,Tensor_Tensor}(self, exponent)";
  table.add(fmt::format("aten.pow.{}", kOverloads), promoted_binary("pow", "self", "exponent"));
  table.add(fmt::format("aten.float_power.{}", kOverloads), float_power);
  table.add("aten.ldexp.Tensor(self, other)", [](AtenCall& c) {
    const Value exponent = to_float(c, c.tensor("other"));
    return c.tensor() * c.pow(c.scalar(2, exponent.dtype()), exponent);
  });
}

void add_comparisons(AtenTable& table) {
  table.op("aten.{eq,ne,lt,le,gt,ge}.{Tensor,Scalar}(self, other)");
  table.op("aten.not_equal.{Tensor,Scalar}(self, other)", "ne");
  table.op("aten.less.{Tensor,Scalar}(self, other)", "lt");
  table.op("aten.less_equal.{Tensor,Scalar}(self, other)", "le");
  table.op("aten.greater.{Tensor,Scalar}(self, other)", "gt");
  table.op("aten.greater_equal.{Tensor,Scalar}(self, other)", "ge");
  table.op("aten.{logical_and,logical_or,logical_xor}.default(self, other)");
}

void add_bits(AtenTable& table) {
  table.op("aten.{bitwise_and,bitwise_or,bitwise_xor}.{Tensor,Scalar,Scalar_Tensor}(self, other)");
  for (std::string_view op : {"and", "or", "xor"}) {
    table.op(fmt::format("aten.__{}__.{{Tensor,Scalar}}(self, other)", op), fmt::format("bitwise_{}", op));
  }
  for (std::string_view way : {"left", "right"}) {
    const std::string op = fmt::format("shift_{}", way);
    table.op(fmt::format("aten.bitwise_{}_shift.{{Tensor,Tensor_Scalar,Scalar_Tensor}}(self, other)", way), op);
    table.op(fmt::format("aten.__{}shift__.{{Tensor,Scalar}}(self, other)", way.front()), op);
  }
}

Value log2_of_sum(AtenCall& c, Value x, Value y) {
  const Value rest = c.unary("log1p", c.unary("exp2", -c.abs(x - y))) / std::numbers::ln2;
  return c.where(c.compare("eq", x, y), x + 1, c.maximum(x, y) + rest);  // two infinities are equal
}

AtenArg heaviside(AtenCall& c) {
  const Value x = c.tensor();
  return c.where(c.compare("eq", x, 0), c.tensor("values"), c.cast(c.compare("gt", x, 0), x.dtype()));
}

void add_pairs(AtenTable& table) {
  table.op("aten.{atan2,maximum,minimum,fmax,fmin,hypot,logaddexp}.default(self, other)");
  table.op("aten.arctan2.default(self, other)", "atan2");
  table.op("aten.max.other(self, other)", "maximum");
  table.op("aten.min.other(self, other)", "minimum");
  table.add("aten.atan2.out(self, other, *, out)", [](AtenCall& c) {
    const Value angle = c.cast(c.op("atan2", {c.tensor(), c.tensor("other")}), c.tensor("out").dtype());
    c.write("out", angle);
    return itself(c, "out");
  });
  table.add("aten.logaddexp2.default(self, other)", binary_formula(log2_of_sum));
  table.add("aten.heaviside.default(self, values)", heaviside);
}

// ---- closeness ------------------------------------------------------------------------------------------------------

Value is_close(AtenCall& c) {
  const Value x = c.tensor();
  const Value y = c.tensor("other");
  Value close = c.compare("eq", x, y);
  if (c.flag("equal_nan")) close = logical_or(c, close, logical_and(c, c.unary("isnan", x), c.unary("isnan", y)));
  const Value expected = to_float(c, y);
  const Value allowed = c.abs(expected * c.real("rtol")) + c.real("atol");
  const Value actual = c.abs(to_float(c, x) - expected);
  const Value near = logical_and(c, c.unary("isfinite", actual), c.compare("le", actual, allowed));
  return logical_or(c, close, near);
}

AtenArg is_equal(AtenCall& c) {
  const Value x = c.tensor();
  const Value y = c.tensor("other");
  if (x.shape() != y.shape()) c.decline("sizes {} and {} differ", to_string(x.shape()), to_string(y.shape()));
  return c.op("all", {c.compare("eq", x, y)});
}

void add_closeness(AtenTable& table) {
  constexpr auto kTolerances = "(self, other, rtol=1e-05, atol=1e-08, equal_nan=False)";
  table.add(fmt::format("aten.isclose.default{}", kTolerances), [](AtenCall& c) { return is_close(c); });
  table.add(fmt::format("aten.allclose.default{}", kTolerances),
            [](AtenCall& c) { return c.op("all", {is_close(c)}); });
  table.add("aten.equal.default(self, other)", is_equal);
}

// ---- selection ------------------------------------------------------------------------------------------------------

AtenArg where(AtenCall& c) {
  const Value condition = c.cast(c.tensor("condition"), DType::kBool);
  if (!c.is_tensor("self") && !c.is_tensor("other")) {
    return c.where(condition, c.as_tensor(c.argument("self")), c.as_tensor(c.argument("other")));
  }
  const auto [x, y] = c.pair("self", "other");
  return c.where(condition, x, y);
}

AtenArg masked_fill(AtenCall& c) {
  const Value x = c.tensor();
  const Value mask = c.cast(c.tensor("mask"), DType::kBool);
  return c.op("masked_fill", {x, mask, c.operand("value", x.dtype())});
}

AtenFn clamped(std::string_view low, std::string_view high) {
  return [low, high](AtenCall& c) {
    const auto bound = [&](std::string_view name) {
      return name.empty() || !c.given(name) ? Value() : c.operand(name, c.tensor().dtype());
    };
    return c.op("clamp", {c.tensor(), bound(low), bound(high)});
  };
}

// self + value * tensor1 * tensor2, of any numbers.
AtenArg addcmul(AtenCall& c) {
  const Value x = c.tensor();
  const Value a = c.tensor("tensor1");
  const Value b = c.tensor("tensor2");
  if (is_float(x.dtype()) && is_float(a.dtype()) && is_float(b.dtype()) && !c.is_run_time_number("value")) {
    return c.op("addcmul", {x, a, b}, {{"value", c.real("value")}});
  }
  const DType result = result_dtype(std::vector{x.type(), a.type(), b.type()});
  return x + times_in(c, result, a, "value") * b;
}

// self + value * tensor1 / tensor2
AtenArg addcdiv(AtenCall& c) { return c.tensor() + times(c, c.tensor("tensor1") / c.tensor("tensor2"), "value"); }

void add_selections(AtenTable& table) {
  table.add("aten.where.{self,Scalar,ScalarSelf,ScalarOther}(condition, self, other)", where);
  table.add("aten.masked_fill.{Tensor,Scalar}(self, mask, value)", masked_fill);
  table.op("aten.lerp.{Tensor,Scalar}(self, end, weight)");
  table.add("aten.{clamp,clip}.{default,Tensor}(self, min=None, max=None)", clamped("min", "max"));
  table.add("aten.clamp_min.{default,Tensor}(self, min)", clamped("min", ""));
  table.add("aten.clamp_max.{default,Tensor}(self, max)", clamped("", "max"));
  table.add("aten.addcmul.default(self, tensor1, tensor2, *, value=1)", addcmul);
  table.op("aten.addcdiv.default(self, tensor1, tensor2, *, value=1)", {}, addcdiv);
}

}  // namespace

void add_pointwise_entries(AtenTable& table) {
  for (const auto add : {add_unary_ops, add_unary_others, add_float_cases, add_arithmetic, add_powers, add_comparisons,
                         add_bits, add_pairs, add_closeness, add_selections})
    add(table);
}

}  // namespace tenon::aten
