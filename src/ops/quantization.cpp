// Quantized numbers: integers q that stand for (q - zero_point) * scale. Scale and zero point broadcast over the
// tensor: one number for all, or one along a dimension (per channel, per row).
#include "ops/common.h"

namespace tenon::ops {
namespace {

constexpr DTypeSet kQuantized = DTypeSet(DType::kI8) | DType::kU8 | DType::kI16 | DType::kI32;

void require_broadcast(const InferContext& c) {
  for (size_t operand : {size_t{1}, size_t{2}}) {
    if (c.has(operand)) check_broadcasts_to(c.type(operand).shape, c.type(0).shape);
  }
}

const OpDef kQuantize{
    .name = "quantize",
    .family = "quantization",
    .doc =
        "rint(x / scale) + zero_point, cut off at quant_min and quant_max, as an integer. Halves round to even. x is "
        "multiplied by 1 / scale, which is computed in the dtype of the scale and rounded to that of x. NaN gives 0.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"scale", kFloats}, {"zero_point", kNumbers}},
    .attrs = {{"quant_min", AttrKind::kInt, "the least result"},
              {"quant_max", AttrKind::kInt, "the largest result"},
              {"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types {
      if (!kQuantized.contains(c.dtype("dtype"))) {
        fail("the dtype must be {}, got {}", to_string(kQuantized, ", "), name_of(c.dtype("dtype")));
      }
      const int64_t low = c.integer("quant_min"), high = c.integer("quant_max");
      if (low > high) fail("quant_min {} is above quant_max {}", low, high);
      require_broadcast(c);
      return {{c.dtype("dtype"), c.type(0).shape}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value x = e.in_wide(0);
      const DType dtype = x.dtype();
      const Value inverse = e.cast(1 / e.in_wide(1), dtype);
      const Value shifted = e.unary("rint", x * inverse) + e.cast(e.in(2), dtype);
      const Value low = e.scalar(static_cast<double>(e.integer("quant_min")), dtype);
      const Value high = e.scalar(static_cast<double>(e.integer("quant_max")), dtype);
      return e.cast(e.op("clamp", {shifted, low, high}), e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.clamp(torch.round((x if x.dtype == torch.float64 else x.float()) * (1.0 / scale)) + "
                     "zero_point, quant_min, quant_max).to(dtype)"),
    .samples =
        Samples{"T[3, 4], f32[] in 0.1..0.2, i64[] in 3..5; quant_min=0, quant_max=255, dtype=u8",
                "T[3, 4], f32[3, 1] in 0.01..0.2, i64[3, 1] in -3..5; quant_min=-128, quant_max=127, dtype=i8",
                "T[2, 3, 2], f32[3, 1] in 0.01..0.2, f32[3, 1] in -3..5; quant_min=-8, quant_max=7, dtype=i8",
                "T[40], f32[1] in 0.001..0.002, i32[1] in 0..0; quant_min=-127, quant_max=127, dtype=i8",
                "T[9], f32[] in 0.1..0.1, i64[] in 128..128; quant_min=0, quant_max=127, dtype=u8",
                "T[0, 2], f32[] in 0.1..0.2, i64[] in 1..1; quant_min=0, quant_max=255, dtype=u8",
                "f32[5], f32[] in 0.001..0.001, i64[] in 0..0; quant_min=-32768, quant_max=32767, dtype=i16",
                "f32[5], f32[] in 0.001..0.001, i64[] in 7..7; quant_min=-1000000, quant_max=1000000, dtype=i32"},
    .special_values = false,  // PyTorch leaves the cast of NaN undefined
};

const OpDef kDequantize{
    .name = "dequantize",
    .family = "quantization",
    .doc =
        "(x - zero_point) * scale: the number that a quantized one stands for. Without a zero point it is 0. Computed "
        "in at least f32 and rounded once, to `dtype`.",
    .operands =
        std::vector<OperandDef>{{"x", kQuantized}, {"scale", kFloats}, {"zero_point", kNumbers, Arity::kOptional}},
    .attrs = {{"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kF32)}},
    .infer = [](InferContext& c) -> Types {
      if (!is_float(c.dtype("dtype"))) fail("the dtype must be a float, got {}", name_of(c.dtype("dtype")));
      require_broadcast(c);
      return {{c.dtype("dtype"), c.type(0).shape}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value scale = e.in_wide(1);
      Value x = e.cast(e.in(0), scale.dtype());
      if (e.has(2)) x = x - e.cast(e.in(2), scale.dtype());
      return e.cast(x * scale, e.dtype("dtype"));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("((x.to(torch.promote_types(scale.dtype, torch.float32)) - (0 if zero_point is None else "
                     "zero_point.to(torch.promote_types(scale.dtype, torch.float32)))) * scale).to(dtype)"),
    .samples =
        Samples{"T[3, 4], f32[] in 0.1..0.2, i64[] in 3..5", "T[3, 4], f32[3, 1] in 0.1..0.2, i64[3, 1] in -3..5",
                "T[2, 3, 2], f32[3, 1] in 0.1..0.2, none", "T[5], f32[1] in 0.1..0.2, f32[1] in 3..5; dtype=bf16",
                "T[40], f64[] in 0.1..0.2, i32[] in 3..5", "T[0, 2], f32[] in 0.1..0.2, i64[] in 3..5"},
};

}  // namespace

OpRefs quantization_ops() { return records(kQuantize, kDequantize); }

}  // namespace tenon::ops
