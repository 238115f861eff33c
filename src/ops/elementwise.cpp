#include "ops/elementwise.h"

namespace tenon::ops {
namespace {

Peer peer_of(std::string_view name, std::string_view operands, const Unusual& unusual) {
  return unusual.torch.empty() ? torch_is_text("torch.{}({})", name, operands) : torch_is(unusual.torch);
}

}  // namespace

Semantics wide_composite(WideFn body) {
  return composite([body](ExpandContext& e) { return e.cast(body(e, e.in_wide()), e.in().dtype()); });
}

Gradient from_operand(SlopeFn rule) {
  return gradient([rule](GradContext& g) { return rule(g, widen(g, g.dout()), widen(g, g.in())); });
}

Gradient from_result(SlopeFn rule) {
  return gradient([rule](GradContext& g) { return rule(g, widen(g, g.dout()), widen(g, g.out())); });
}

Gradient from_operands(TwoSlopesFn rule) {
  return gradient([rule](GradContext& g) -> std::vector<Value> {
    return rule(g, widen(g, g.dout()), widen(g, g.in(0)), widen(g, g.in(1)));
  });
}

Gradient zero_gradient() {
  return gradient([](GradContext& g) -> std::vector<Value> { return std::vector<Value>(g.operand_count()); });
}

Value keep_where(GradContext& g, Value condition, Value d) { return g.where(condition, d, g.scalar(0, d.dtype())); }
Value drop_where(GradContext& g, Value condition, Value d) { return g.where(condition, g.scalar(0, d.dtype()), d); }

OpDef unary_op(std::string_view name, std::string_view doc, DTypeSet dtypes, Semantics semantics, Gradient gradient,
               const Unusual& unusual) {
  return {.name = name,
          .family = unusual.family.empty() ? "unary" : unusual.family,
          .doc = doc,
          .operands = one_operand(dtypes),
          .infer = elementwise_type,
          .semantics = std::move(semantics),
          .gradient = std::move(gradient),
          .peer = peer_of(name, "x", unusual),
          .samples = unary_samples(),
          .domain = unusual.domain,
          .special_values = unusual.special_values};
}

OpDef predicate(std::string_view name, std::string_view doc, Value (*holds)(ExpandContext& e),
                std::string_view family) {
  return {.name = name,
          .family = family,
          .doc = doc,
          .operands = one_operand(),
          .infer = same_shape(0, DType::kBool),
          .semantics = composite(holds),
          .gradient = NotDifferentiable{},
          .peer = torch_is_text("torch.{}(x)", name),
          .samples = unary_samples()};
}

OpDef binary_op(std::string_view name, std::string_view doc, DTypeSet dtypes, Semantics semantics, Gradient gradient,
                const Samples& samples, const Unusual& unusual) {
  return {.name = name,
          .family = unusual.family.empty() ? "binary" : unusual.family,
          .doc = doc,
          .operands = two_operands(dtypes),
          .infer = elementwise_type,
          .semantics = std::move(semantics),
          .gradient = std::move(gradient),
          .peer = peer_of(name, "x, y", unusual),
          .samples = samples,
          .domain = unusual.domain,
          .special_values = unusual.special_values};
}

}  // namespace tenon::ops
