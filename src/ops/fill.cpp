// Tensors without operands: fills and index sequences.
#include <cmath>

#include "loops/lower.h"
#include "ops/common.h"

namespace tenon::ops {
namespace {

// Fails for a size that is known to be negative.
Shape checked_shape(InferContext& c, std::span<const Expr> shape) {
  for (const Expr& size : shape) {
    if (c.facts().less_equal(size, -1)) fail("{} has the negative size {}", to_string(shape), to_string(size));
  }
  return {shape.begin(), shape.end()};
}

const OpDef kFull{
    .name = "full",
    .family = "fill",
    .doc = "A tensor of one value. The value may be symbolic: that is how a size becomes data.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"value", AttrKind::kScalar, "an integer expression or a real"},
              {"shape", AttrKind::kExprs, "the result's shape"},
              {"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), checked_shape(c, c.exprs("shape"))}}; },
    .semantics = reference([](ReferenceContext& c) {
      const auto* real = std::get_if<double>(&c.attr("value"));
      for (int64_t i = 0; i < c.out().numel(); ++i) {
        real ? c.out().set_real(i, *real) : c.out().set_integer(i, c.size("value"));
      }
    }),
    .gradient = NotDifferentiable{},
    .loops =
        [](LoopContext& l) {
          const auto* expr = std::get_if<Expr>(&l.attr("value"));
          const bool symbolic = expr && !expr->is_constant();
          const DType dtype = l.dtype("dtype");
          const LoopValue value =
              symbolic ? l.cast(l.number(*expr), dtype) : l.constant(dtype, scalar_in(dtype, l.attr("value")));
          l.out({value.node, LoopDims(l.result().shape.size())});
        },
    .role = Role::kFill,
    .is_plumbing = true,
    .peer = torch_is("torch.full(shape, value, dtype=dtype)"),
    .samples = Samples{"; value=2.5, shape=[2, 3], dtype=f32", "; value=7, shape=[], dtype=i64",
                       "; value=-1, shape=[0, 2], dtype=i8", "; value=1, shape=[3], dtype=bool",
                       "; value=0.1, shape=[2], dtype=bf16"},
};

const OpDef kIota{
    .name = "iota",
    .family = "fill",
    .doc = "The integers 0, 1, ... size-1 as a vector.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"size", AttrKind::kExpr, "how many"},
              {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kI64)}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), checked_shape(c, {&c.expr("size"), 1})}}; },
    .semantics = reference([](ReferenceContext& c) {
      for (int64_t i = 0; i < c.out().numel(); ++i) c.out().set_integer(i, i);
    }),
    .gradient = NotDifferentiable{},
    .loops =
        [](LoopContext& l) {
          const LoopDims dims = {l.var(l.expr("size"))};
          l.out(l.cast(l.number(l.at(dims[0]), dims), l.dtype("dtype")));
        },
    .role = Role::kFill,
    .peer = torch_is("torch.arange(size, dtype=dtype)"),
    .samples = Samples{"; size=5", "; size=0", "; size=1, dtype=f32", "; size=100, dtype=i8"},
};

// ---- sequences ------------------------------------------------------------------------------------------------------

// The bounds of an arange: all expressions, or all reals. For an integer dtype reals are truncated, as in PyTorch.
struct Bounds {
  Expr start, end, step;
};
struct RealBounds {
  double start, end, step;
};

bool is_real(const OpView& v, std::string_view attr) { return std::holds_alternative<double>(v.attr(attr)); }

Expr as_expr(const OpView& v, std::string_view attr) {
  return is_real(v, attr) ? Expr(truncate_to_integer(v.real(attr))) : v.expr(attr);
}

double as_real(const OpView& v, std::string_view attr) {
  if (is_real(v, attr)) return v.real(attr);
  if (v.expr(attr).is_constant()) return static_cast<double>(v.expr(attr).constant());
  fail("{} is symbolic, {}: it cannot go together with a real", attr, to_string(v.expr(attr)));
}

std::variant<Bounds, RealBounds> arange_bounds(const OpView& v) {
  const bool any_real = is_real(v, "start") || is_real(v, "end") || is_real(v, "step");
  if (any_real && is_float(v.dtype("dtype")))
    return RealBounds{as_real(v, "start"), as_real(v, "end"), as_real(v, "step")};
  return Bounds{as_expr(v, "start"), as_expr(v, "end"), as_expr(v, "step")};
}

Expr count_of(const Facts& facts, const Bounds& b) {
  if (b.step.is_constant(0)) fail("step is zero");
  if (!facts.less_equal(1, b.step) && !facts.less_equal(b.step, -1))
    fail("the sign of step {} is unknown", to_string(b.step));
  return facts.max(ceildiv(b.end - b.start, b.step), 0);
}

Expr count_of(const Facts&, const RealBounds& b) {
  if (b.step == 0) fail("step is zero");
  const double count = std::ceil((b.end - b.start) / b.step);
  if (!std::isfinite(count)) fail("start {}, end {} and step {} do not go together", b.start, b.end, b.step);
  return truncate_to_integer(std::max(count, 0.0));
}

const OpDef kArange{
    .name = "arange",
    .family = "fill",
    .doc = "start, start + step, ... as long as that is before end (after it, when step is negative).",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"start", AttrKind::kScalar, "the first number", Attr(Expr(0))},
              {"end", AttrKind::kScalar, "where it stops"},
              {"step", AttrKind::kScalar, "from one number to the next", Attr(Expr(1))},
              {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kI64)}},
    .infer = [](InferContext& c) -> Types {
      const auto count = [&](const auto& bounds) { return count_of(c.facts(), bounds); };
      return {{c.dtype("dtype"), {std::visit(count, arange_bounds(c))}}};
    },
    .semantics = composite([](ExpandContext& e) {
      const auto sequence = [&](const auto& bounds) {
        const DType dtype = std::is_same_v<decltype(bounds), const Bounds&> ? DType::kI64 : DType::kF64;
        const Value i = e.iota(count_of(e.facts(), bounds), dtype);
        return i * e.full(bounds.step, {}, dtype) + e.full(bounds.start, {}, dtype);
      };
      return e.cast(std::visit(sequence, arange_bounds(e)), e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.arange(start, end, step, dtype=dtype)"),
    .samples = Samples{"; end=5", "; start=2, end=11, step=3", "; start=5, end=-2, step=-2", "; start=3, end=3",
                       "; end=4, dtype=f32", "; start=0.5, end=4, step=1.25, dtype=f32",
                       "; start=1.0, end=0.0, step=-0.3, dtype=f64", "; end=3.5, dtype=i64", "; end=2.5, dtype=bf16",
                       "; start=-2, end=3, dtype=i8"},
};

const OpDef kLinspace{
    .name = "linspace",
    .family = "fill",
    .doc = "Numbers from start to end, both included, at equal distances.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"start", AttrKind::kReal, "the first number"},
              {"end", AttrKind::kReal, "the last number"},
              {"steps", AttrKind::kExpr, "how many"},
              {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kF32)}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), checked_shape(c, {&c.expr("steps"), 1})}}; },
    // Each half counts from its own end, so that both are exact.
    .semantics = composite([](ExpandContext& e) {
      const Expr steps = e.expr("steps");
      const auto number = [&](Attr value) { return e.full(std::move(value), {}, DType::kF64); };
      const Value i = e.iota(steps, DType::kF64);
      const Value step = number(e.real("end") - e.real("start")) / number(e.facts().max(steps - 1, 1));
      const Value from_end = number(e.real("end")) - step * (number(steps - 1) - i);
      const Value in_first_half = e.compare("lt", e.iota(steps), e.full(floordiv(steps + 1, 2), {}, DType::kI64));
      return e.cast(e.where(in_first_half, number(e.real("start")) + step * i, from_end), e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.linspace(start, end, steps, dtype=dtype)"),
    .samples = Samples{"; start=0, end=1, steps=5", "; start=3, end=-2, steps=4, dtype=f64",
                       "; start=1, end=2, steps=1", "; start=1, end=2, steps=0",
                       "; start=-1, end=1, steps=2, dtype=f16", "; start=0, end=7, steps=4, dtype=i32"},
};

const OpDef kEye{
    .name = "eye",
    .family = "fill",
    .doc = "A matrix with ones on the main diagonal and zeros elsewhere.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"rows", AttrKind::kExpr, "how many rows"},
              {"columns", AttrKind::kExpr, "how many columns"},
              {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kF32)}},
    .infer = [](InferContext& c) -> Types {
      return {{c.dtype("dtype"), checked_shape(c, Shape{c.expr("rows"), c.expr("columns")})}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value is_one = e.compare("eq", e.unsqueeze(e.iota(e.expr("rows")), 1), e.iota(e.expr("columns")));
      return e.cast(is_one, e.dtype("dtype"));
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.eye(rows, columns, dtype=dtype)"),
    .samples = Samples{"; rows=3, columns=3", "; rows=2, columns=4, dtype=i64", "; rows=0, columns=2",
                       "; rows=1, columns=1, dtype=bool"},
};

}  // namespace

OpRefs fill_ops() { return {&kFull, &kIota, &kArange, &kLinspace, &kEye}; }

}  // namespace tenon::ops
