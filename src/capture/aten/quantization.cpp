// The operators of quantized models that PT2E makes: namespace quantized_decomposed.
//
// PyTorch computes quantize_per_tensor and quantize_per_channel in f32, with the reciprocal of the scale, and adds the
// zero point after rounding. quantize_per_token and quantize_per_channel_group add it before.
#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// ---- one scale for all, or one for each channel ---------------------------------------------------------------------

NamedAttrs quantized_attrs(const AtenCall& c) {
  return {{"quant_min", c.integer("quant_min")}, {"quant_max", c.integer("quant_max")}, {"dtype", *c.dtype()}};
}

// A number, or a tensor of one element.
Value one_number(AtenCall& c, std::string_view name, DType dtype) {
  if (!c.is_tensor(name)) return c.number(name, dtype);
  const Value x = c.tensor(name);
  if (!element_count(x.shape()).is_constant(1)) fail("{} must have one element, got {}", name, to_string(x.type()));
  return c.cast(c.reshape(x, {}), dtype);
}

// A vector along the dimension `axis` of x.
Value per_channel(AtenCall& c, Value vector, Value x) {
  Shape shape(static_cast<size_t>(x.rank() - dim_of(c, "axis", x)), 1);
  shape[0] = element_count(vector.shape());
  return c.reshape(vector, shape);
}

AtenArg quantize_per_tensor(AtenCall& c) {
  const Value scale = one_number(c, "scale", DType::kF64), zero_point = one_number(c, "zero_point", DType::kI64);
  return c.op("quantize", {to_wide(c, c.tensor("input")), scale, zero_point}, quantized_attrs(c));
}

// Bounds that are only known at run time.
AtenArg quantize_between(AtenCall& c) {
  const Value x = to_wide(c, c.tensor("input"));
  const auto number = [&](std::string_view name) { return one_number(c, name, x.dtype()); };
  const Value inverse = c.cast(1 / one_number(c, "scale", DType::kF64), x.dtype());
  const Value shifted = c.unary("rint", x * inverse) + number("zero_point");
  return c.cast(c.op("clamp", {shifted, number("quant_min"), number("quant_max")}), *c.dtype());
}

AtenArg quantize_per_channel(AtenCall& c) {
  Value x = to_wide(c, c.tensor("input"));
  const Value scale = to_wide(c, per_channel(c, c.tensor("scales"), x));
  if (scale.dtype() == DType::kF64) x = c.cast(x, DType::kF64);
  return c.op("quantize", {x, scale, per_channel(c, c.tensor("zero_points"), x)}, quantized_attrs(c));
}

NamedAttrs dequantized_attrs(const AtenCall& c) { return {{"dtype", c.dtype("out_dtype").value_or(DType::kF32)}}; }

AtenArg dequantize_per_tensor(AtenCall& c) {
  const Value scale = one_number(c, "scale", DType::kF32), zero_point = one_number(c, "zero_point", DType::kI64);
  return c.op("dequantize", {c.tensor("input"), scale, zero_point}, dequantized_attrs(c));
}

AtenArg dequantize_per_channel(AtenCall& c) {
  const Value x = c.tensor("input");
  Value zero_point = c.tensor_or_none("zero_points");
  if (zero_point) zero_point = per_channel(c, zero_point, x);
  return c.op("dequantize", {x, per_channel(c, c.tensor("scales"), x), zero_point}, dequantized_attrs(c));
}

// ---- one scale for each row, or for a part of it --------------------------------------------------------------------

Value quantize_rows(AtenCall& c, Value x, Value scale, Value zero_point) {
  const Value shifted = c.op("add", {c.op("mul", {x, 1 / scale}), zero_point});
  const Value low = c.scalar(static_cast<double>(c.integer("quant_min")), shifted.dtype());
  const Value high = c.scalar(static_cast<double>(c.integer("quant_max")), shifted.dtype());
  return c.cast(c.op("clamp", {c.unary("rint", shifted), low, high}), *c.dtype());
}

Value dequantize_rows(AtenCall& c, Value x, Value scale, Value zero_point) {
  return c.op("dequantize", {x, scale, zero_point}, {{"dtype", *c.dtype("output_dtype")}});
}

// The parts of each row as rows of their own.
template <Value (*build)(AtenCall&, Value, Value, Value)>
AtenArg by_part(AtenCall& c) {
  const Value x = c.tensor(c.takes("input") ? "input" : "w_int8"), scale = c.tensor("scales");
  Expr size = c.integer("group_size");
  if (scale.shape().back().is_constant(1) && Facts(c.graph().symbols()).less_equal(x.size(1) + 1, size))
    size = x.size(1);
  const auto column = [&](Value v) { return v ? c.reshape(v, {element_count(v.shape()), 1}) : v; };
  const Value rows = c.reshape(x, {floordiv(element_count(x.shape()), size), size});
  return c.reshape(build(c, rows, column(scale), column(c.tensor_or_none("zero_points"))), x.shape());
}

template <Value (*build)(AtenCall&, Value, Value, Value)>
AtenArg by_row(AtenCall& c) {
  return build(c, c.tensor("input"), c.tensor("scales"), c.tensor("zero_points"));
}

// ---- scales from the values -----------------------------------------------------------------------------------------

struct Range {
  Value low;   // at most 0
  Value high;  // at least 0
};

Range range_of(AtenCall& c, Value x, const NamedAttrs& dims) {
  const Value zero = c.scalar(0, x.dtype());
  return {c.minimum(c.op("amin", {x}, dims), zero), c.maximum(c.op("amax", {x}, dims), zero)};
}

// Scale and zero point as tensors of one element.
AtenArg::List one_of_each(AtenCall& c, Value scale, Value zero_point) {
  return {c.reshape(c.cast(scale, DType::kF64), {1}), c.reshape(c.cast(zero_point, DType::kI64), {1})};
}

AtenArg choose_qparams(AtenCall& c) {
  const Range range = range_of(c, c.tensor("input"), {});
  const int64_t low = c.integer("quant_min"), high = c.integer("quant_max");
  const Value eps = c.scalar(c.real("eps"), DType::kF32);
  const Value scale = c.maximum(c.cast((range.high - range.low) / static_cast<double>(high - low), DType::kF32), eps);
  const Value steps = c.cast(c.unary("rint", c.op("div", {range.low, scale})), DType::kI32);
  const Value zero_point =
      c.op("clamp", {c.integer(low, DType::kI32) - steps, c.integer(low, DType::kI32), c.integer(high, DType::kI32)});
  return one_of_each(c, scale, zero_point);
}

AtenArg choose_qparams_symmetric(AtenCall& c) {
  const Range range = range_of(c, c.tensor("input"), {});
  const double half = static_cast<double>(c.integer("quant_max") - c.integer("quant_min")) / 2;
  const Value scale = c.cast(c.maximum(-range.low, range.high) / half, DType::kF32);
  const Value zero_point = c.integer(*c.dtype() == DType::kU8 ? 128 : 0);
  return one_of_each(c, c.maximum(scale, c.scalar(c.real("eps"), DType::kF32)), zero_point);
}

NamedAttrs last_dim() { return {{"dims", std::vector<int64_t>{-1}}, {"keepdim", true}}; }

void require_i8(AtenCall& c) {
  if (*c.dtype() != DType::kI8) c.decline("rows are quantized to i8, not {}", name_of(*c.dtype()));
}

AtenArg choose_per_token(AtenCall& c) {
  require_i8(c);
  const Value most = c.op("amax", {c.abs(c.tensor("input"))}, last_dim());
  const Value wide = most.dtype() == DType::kF16 ? c.cast(most, DType::kF32) : most;
  const Value scale = c.op("clamp", {wide, c.scalar(1e-5, wide.dtype()), Value()}) / 127;
  return AtenArg::List{scale, c.full_like(scale, 0)};
}

// The zero point that rounds the farther end of the range best.
AtenArg choose_per_token_asymmetric(AtenCall& c) {
  require_i8(c);
  constexpr double kLow = -128, kHigh = 127, kEps = 0x1p-23;
  const Range range = range_of(c, c.tensor("input"), last_dim());
  Value scale = (range.high - range.low) / (kHigh - kLow);
  scale = c.op("clamp", {scale, c.scalar(kEps, scale.dtype()), Value()});
  const Value low = range.low / scale, high = range.high / scale;
  const Value is_low = c.compare("gt", (kLow + low) + (kHigh + high), 0);
  const Value zero_point = c.where(is_low, kLow - low, kHigh - high);
  const Value inside =
      c.op("clamp", {zero_point, c.scalar(kLow, zero_point.dtype()), c.scalar(kHigh, zero_point.dtype())});
  return AtenArg::List{c.cast(scale, DType::kF64), c.cast(c.unary("rint", inside), DType::kI64)};
}

}  // namespace

void add_quantization_entries(AtenTable& table) {
  const auto add = [&](std::string_view signature, const AtenFn& build) {
    table.add("quantized_decomposed." + std::string(signature), build);
  };
  add("quantize_per_tensor.{default,tensor}(input, scale, zero_point, quant_min, quant_max, dtype)",
      quantize_per_tensor);
  add("quantize_per_tensor.tensor2(input, scale, zero_point, quant_min, quant_max, dtype)", quantize_between);
  add("dequantize_per_tensor.{default,tensor,tensor2}(input, scale, zero_point, quant_min, quant_max, dtype, *, "
      "out_dtype=None)",
      dequantize_per_tensor);
  add("quantize_per_channel.default(input, scales, zero_points, axis, quant_min, quant_max, dtype)",
      quantize_per_channel);
  add("dequantize_per_channel.default(input, scales, zero_points, axis, quant_min, quant_max, dtype, *, "
      "out_dtype=None)",
      dequantize_per_channel);
  add("quantize_per_token.default(input, scales, zero_points, quant_min, quant_max, dtype)", by_row<quantize_rows>);
  add("dequantize_per_token.default(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype)",
      by_row<dequantize_rows>);
  add("quantize_per_channel_group.default(input, scales, zero_points, quant_min, quant_max, dtype, group_size)",
      by_part<quantize_rows>);
  add("dequantize_per_channel_group.default(input, scales, zero_points, quant_min, quant_max, dtype, group_size, "
      "output_dtype)",
      by_part<dequantize_rows>);
  add("choose_qparams.tensor(input, quant_min, quant_max, eps, dtype)", choose_qparams);
  add("choose_qparams_symmetric.tensor(input, quant_min, quant_max, eps, dtype)", choose_qparams_symmetric);
  add("choose_qparams_per_token.default(input, dtype)", choose_per_token);
  add("choose_qparams_per_token_asymmetric.default(input, dtype)", choose_per_token_asymmetric);
  add("_choose_qparams_per_token_asymmetric_impl.default(input, dtype)", choose_per_token_asymmetric);
  add("convert_element_type.no_fuse(input, dtype)", [](AtenCall& c) { return c.cast(c.tensor("input"), *c.dtype()); });
}

}  // namespace tenon::aten
