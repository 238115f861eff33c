// Choosing between values: where, clamp, interpolation and scaled updates.
#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

const OpDef kWhere{
    .name = "where",
    .family = "select",
    .doc = "x where the condition holds, else y.",
    .operands = std::vector<OperandDef>{{"condition", kBools}, {"x"}, {"y"}},
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kSelect, Primitive::kWhere, Primitive::kWhere),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      return {Value(), keep_where(g, g.in(0), g.dout()), drop_where(g, g.in(0), g.dout())};
    }),
    .peer = torch_is("torch.where(condition, x, y)"),
    .samples = Samples{"bool[3, 4], T[3, 4], T[3, 4]", "bool[], T[], T[]", "bool[4, 1], T[2, 1, 3], T[3]",
                       "bool[2, 3], T[], T[3]", "bool[1], T[0, 3], T[1]", "bool[20], T[20], T[]",
                       "bool[], T[2, 3], T[1]", "bool[3], f32[3], i64[]", "bool[3], i64[3], f32[]",
                       "bool[2], f16[2], bf16[2]", "bool[3], bool[3], i8[3]", "bool[3], f32[], f64[]"},
};

// clamp and its gradient compute in the promoted dtype of the operands.
std::vector<Value> promoted_operands(NodeContext& c) {
  const DType dtype = result_dtype(c.present_types());
  std::vector<Value> promoted;
  for (const Value& operand : c.operands()) promoted.push_back(operand ? c.cast(operand, dtype) : Value());
  return promoted;
}

std::vector<Value> clamp_gradient(GradContext& g) {
  const std::vector<Value> operands = promoted_operands(g);
  const Value& x = operands[0];
  const Value& lo = operands[1];
  const Value& hi = operands[2];
  const auto both = [&](Value a, Value b) { return g.op("bitwise_and", {a, b}); };
  const auto either = [&](Value a, Value b) { return g.op("bitwise_or", {a, b}); };
  // Where the bounds cross, the result is hi: lo gets no gradient there.
  Value below = lo ? g.compare("lt", x, lo) : Value();
  Value above = hi ? g.compare("gt", x, hi) : Value();
  Value inside = lo ? g.compare("ge", x, lo) : g.compare("le", x, hi);
  if (lo && hi) {
    below = both(below, g.compare("lt", lo, hi));
    above = either(above, g.compare("lt", hi, lo));
    inside = both(inside, g.compare("le", x, hi));
  }
  return {keep_where(g, inside, g.dout()), lo ? keep_where(g, below, g.dout()) : Value(),
          hi ? keep_where(g, above, g.dout()) : Value()};
}

const OpDef kClamp{
    .name = "clamp",
    .family = "select",
    .doc =
        "minimum(maximum(x, lo), hi), where one bound may be absent. NaN of any operand propagates. Where x equals a "
        "bound it takes the whole gradient.",
    .operands = std::vector<OperandDef>{{"x"}, {"lo", kAny, Arity::kOptional}, {"hi", kAny, Arity::kOptional}},
    .infer = [](InferContext& c) -> Types {
      if (!c.has(1) && !c.has(2)) fail("one of 'lo' and 'hi' must be given");
      return elementwise_type(c);
    },
    .semantics = composite([](ExpandContext& e) {
      const std::vector<Value> operands = promoted_operands(e);
      Value y = operands[0];
      if (operands[1]) y = e.maximum(y, operands[1]);
      if (operands[2]) y = e.minimum(y, operands[2]);
      return y;
    }),
    .gradient = gradient(clamp_gradient),
    // PyTorch's gradient fails where x is broadcast.
    .peer = torch_is(
        "torch.clamp(x.expand(torch.broadcast_shapes(*(t.shape for t in (x, lo, hi) if t is not None))), lo, hi)"),
    .samples = ternary_samples() + Samples{"T[5], T[], none", "T[5], none, T[]", "T[2, 3], none, T[3]",
                                           "T[1, 3], T[2, 1], none", "T[], T[], none", "T[0], none, T[1]",
                                           "T[40], T[] in 2..3, T[] in 0..1", "i64[3], f32[], f64[]",
                                           "f16[3], f32[3], none", "f32[3], none, i64[3]", "u8[3], i8[3], i64[]"},
};

const OpDef kMaskedFill{
    .name = "masked_fill",
    .family = "select",
    .doc = "x, with a value put where the mask holds. The value is cast to the dtype of x.",
    .operands = std::vector<OperandDef>{{"x"}, {"mask", kBools}, {"value"}},
    .infer = [](InferContext& c) -> Types {
      if (c.type(2).rank() != 0) fail("the value must have rank 0, got {}", to_string(c.type(2)));
      return {{c.type(0).dtype, broadcast(c.type(0).shape, c.type(1).shape)}};
    },
    .semantics =
        composite([](ExpandContext& e) { return e.where(e.in(1), e.cast(e.in(2), e.in(0).dtype()), e.in(0)); }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.masked_fill(x, mask, value)"),
    .samples =
        Samples{"T[3, 4], bool[3, 4], T[]", "T[], bool[], T[]", "T[2, 1, 3], bool[4, 1], T[]", "T[3], bool[2, 3], T[]",
                "T[0, 3], bool[1], T[]", "T[20], bool[], T[]", "f32[3], bool[3], i64[]", "f16[4], bool[4], f32[]"},
};

// ---- interpolation and scaled updates -------------------------------------------------------------------------------

// A composite of three operands that computes wide, and rounds once.
Semantics wide_ternary(Value (*body)(ExpandContext& e, Value x, Value y, Value z)) {
  return composite([body](ExpandContext& e) {
    return e.cast(body(e, e.in_wide(0), e.in_wide(1), e.in_wide(2)), result_dtype(e.present_types()));
  });
}

const OpDef kLerp{
    .name = "lerp",
    .family = "select",
    .doc = "x + weight * (end - x), computed from the nearer end so that weights 0 and 1 are exact.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"end", kFloats}, {"weight", kFloats}},
    .infer = elementwise_type,
    .semantics = wide_ternary([](ExpandContext& e, Value x, Value end, Value weight) {
      const Value is_near_x = e.compare("lt", e.abs(weight), 0.5);
      return e.where(is_near_x, x + weight * (end - x), end - (end - x) * (1 - weight));
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value d = widen(g, g.dout());
      const Value weight = widen(g, g.in(2));
      return {d * (1 - weight), d * weight, d * (widen(g, g.in(1)) - widen(g, g.in(0)))};
    }),
    .peer = torch_is("torch.lerp(x, end, weight)"),
    .samples = ternary_samples() + Samples{"T[5], T[5], T[]", "T[5], T[5], T[5] in 0..1"},
};

OpDef scaled_update(std::string_view name, std::string_view doc, Semantics semantics, Domain domain = {}) {
  return {.name = name,
          .family = "select",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x", kFloats}, {"tensor1", kFloats}, {"tensor2", kFloats}},
          .attrs = {{"value", AttrKind::kReal, "the factor", Attr(1.0)}},
          .infer = elementwise_type,
          .semantics = std::move(semantics),
          .gradient = ByExpansion{},
          .peer = torch_is_text("torch.{}(x, tensor1, tensor2, value=value)", name),
          .samples = ternary_samples() + Samples{"T[3, 4], T[4], T[3, 1]; value=-0.5", "f32[3], f32[3], f64[]; value=2",
                                                 "f16[3], f32[3], f16[3]"},
          .domain = domain};
}

const OpDef kScaledUpdates[] = {
    scaled_update(
        "addcmul", "x + value * tensor1 * tensor2.",
        wide_ternary([](ExpandContext& e, Value x, Value a, Value b) { return x + e.real("value") * a * b; })),
    scaled_update("addcdiv", "x + value * tensor1 / tensor2.",
                  wide_ternary([](ExpandContext& e, Value x, Value a, Value b) { return x + e.real("value") * a / b; }),
                  {0.5, 3}),
};

}  // namespace

OpRefs select_ops() { return records(kWhere, kClamp, kMaskedFill, kLerp, kScaledUpdates); }

}  // namespace tenon::ops
