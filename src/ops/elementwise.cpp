#include "ops/elementwise.h"

namespace tenon::ops {

Semantics wide_composite(WideFn body) {
  return composite(
      [body](ExpandContext& e) -> std::vector<Value> { return {e.cast(body(e, e.in_wide()), e.in().dtype())}; });
}

Types promoted_type(InferContext& c) { return {{result_dtype(c.present_types()), elementwise_bool(c)[0].shape}}; }

Gradient from_operand(SlopeFn rule) {
  return gradient(
      [rule](GradContext& g) -> std::vector<Value> { return {rule(g, widen(g, g.dout()), widen(g, g.in()))}; });
}

Gradient from_result(SlopeFn rule) {
  return gradient(
      [rule](GradContext& g) -> std::vector<Value> { return {rule(g, widen(g, g.dout()), widen(g, g.out()))}; });
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

}  // namespace tenon::ops
