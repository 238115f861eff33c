// Scans: each result is a reduction of the elements up to its own, along one dimension.
#include <algorithm>
#include <cmath>
#include <functional>

#include "loops/lower.h"
#include "ops/common.h"
#include "ops/lines.h"
#include "runtime/scalar_functions.h"

namespace tenon::ops {
namespace {

const std::vector<AttrDef> kScanAttrs = {{"dim", AttrKind::kInt, "the dimension to walk along"}};
const Samples kScanSamples = {"T[3, 4]; dim=0",    "T[3, 4]; dim=-1",    "T[]; dim=0",        "T[]; dim=-1",
                              "T[0]; dim=0",       "T[2, 0, 3]; dim=1",  "T[2, 0, 3]; dim=2", "T[1]; dim=0",
                              "T[2, 1, 3]; dim=1", "T[2, 3, 2]; dim=-2", "T[20]; dim=0"};

// As in a reduction, integers and bool accumulate in i64.
Types accumulated(InferContext& c) {
  c.dim("dim");
  const DType dtype = c.type(0).dtype;
  return {{is_integral(dtype) ? DType::kI64 : dtype, c.type(0).shape}};
}

template <class RealStep, class IntegerStep>
Semantics accumulate(double real_start, RealStep real_step, int64_t integer_start, IntegerStep integer_step) {
  return reference([=](ReferenceContext& c) {
    const Tensor& x = c.in();
    Tensor& out = c.out();
    for_each_line(x.shape(), c.dim("dim"), [&](const std::vector<Sizes>& line) {
      double real = real_start;
      int64_t integer = integer_start;
      for (const Sizes& at : line) {
        if (is_float(x.dtype())) {
          out.set_real(out.offset(at), real = real_step(real, x.real(x.offset(at))));
        } else {
          out.set_integer(out.offset(at), integer = integer_step(integer, x.integer(x.offset(at))));
        }
      }
    });
  });
}

Value scan(GradContext& g, std::string_view name, Value x) { return g.op(name, {x}, {{"dim", g.integer("dim")}}); }

// The same scan from the end.
Value reverse_scan(GradContext& g, std::string_view name, Value x) {
  const auto reversed = [&](Value v) { return g.op("flip", {v}, {{"dims", std::vector<int64_t>{g.integer("dim")}}}); };
  return reversed(scan(g, name, reversed(x)));
}

LoopsFn scan_loops(std::string_view op) {
  return [op](LoopContext& l) {
    const LoopValue x = l.wide(l.cast(l.in(), l.result().dtype));
    l.out(l.cast(l.scan(op, x, l.type(0).shape, l.dim("dim")), l.result().dtype));
  };
}

OpDef scan_op(std::string_view name, std::string_view doc, DTypeSet dtypes, Semantics semantics, Gradient gradient,
              std::string_view elementwise) {
  return {.name = name,
          .family = "scan",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x", dtypes}},
          .attrs = kScanAttrs,
          .infer = accumulated,
          .semantics = std::move(semantics),
          .gradient = std::move(gradient),
          .loops = scan_loops(elementwise),
          .peer = torch_is_text("torch.{}(x, dim)", name),
          .samples = kScanSamples};
}

const OpDef kCumsum =
    scan_op("cumsum", "The sum of the elements up to each one, along a dimension. Integers and bool add up in i64.",
            kAny, accumulate(0.0, std::plus<double>(), 0, wrap_add),
            gradient([](GradContext& g) { return reverse_scan(g, "cumsum", g.dout()); }), "add");

// An element's derivative sums dout * product / element over the products that contain it. Before the first zero of its
// line that is a division; every product from there on has that zero, so only the zero itself has another derivative:
// of the products up to the second zero, without itself. After it all derivatives are zero.
Value cumprod_gradient(GradContext& g) {
  const Value x = widen(g, g.in());
  const Value is_zero = g.compare("eq", x, 0.0);
  const Value zeros = scan(g, "cumsum", is_zero);
  const Value before_first = g.compare("eq", zeros, 0.0);
  const Value before_second = g.compare("eq", zeros, 1.0);
  const Value is_first = g.op("logical_and", {is_zero, before_second});
  const Value zero = g.scalar(0, x.dtype());
  const Value one = g.scalar(1, x.dtype());
  const Value terms = g.dout() * scan(g, "cumprod", g.where(is_first, one, x));
  const Value at_others = reverse_scan(g, "cumsum", g.where(before_first, terms, zero)) / g.where(is_zero, one, x);
  const Value at_first = reverse_scan(g, "cumsum", g.where(before_second, terms, zero));
  return g.where(before_first, at_others, g.where(is_first, at_first, zero));
}

const OpDef kCumprod =
    scan_op("cumprod",
            "The product of the elements up to each one, along a dimension. Integers and bool multiply in i64. The "
            "gradient is right everywhere; the gradient of the gradient only along lines without a zero.",
            kAny, accumulate(1.0, std::multiplies<double>(), 1, wrap_mul), gradient(cumprod_gradient), "mul");

// dx = exp(x) * (the sum from the end of dout / exp(out)), as logarithms: positive and negative dout apart.
Value logcumsumexp_gradient(GradContext& g) {
  const Value x = widen(g, g.in());
  const Value dout = widen(g, g.dout());
  const Value log_size = g.log(g.abs(dout));
  const Value nothing = g.scalar(-HUGE_VAL, x.dtype());
  const auto part = [&](std::string_view sign) {
    const Value logs = g.where(g.compare(sign, dout, 0.0), log_size, nothing);
    return g.exp(reverse_scan(g, "logcumsumexp", logs - widen(g, g.out())) + x);
  };
  return part("gt") - part("lt");
}

const OpDef kLogcumsumexp = scan_op("logcumsumexp", "log(cumsum(exp(x))) along a dimension, without overflow.", kFloats,
                                    accumulate(-HUGE_VAL, log_add_exp, 0, [](int64_t a, int64_t) { return a; }),
                                    gradient(logcumsumexp_gradient), "logaddexp");

// ---- running extremes -----------------------------------------------------------------------------------------------

Types extreme_type(InferContext& c) {
  c.dim("dim");
  return {c.type(0), {DType::kI64, c.type(0).shape}};
}

// The latest of equals is the one that the index names, and the latest NaN once there is one, as in PyTorch.
template <class AtLeast>
Semantics running_extreme(AtLeast at_least) {
  return reference([at_least](ReferenceContext& c) {
    const Tensor& x = c.in();
    const auto replaces = [&](int64_t at, int64_t best) {
      if (!is_float(x.dtype())) return at_least(x.integer(at), x.integer(best));
      return std::isnan(x.real(at)) || (!std::isnan(x.real(best)) && at_least(x.real(at), x.real(best)));
    };
    for_each_line(x.shape(), c.dim("dim"), [&](const std::vector<Sizes>& line) {
      size_t best = 0;
      for (size_t i = 0; i < line.size(); ++i) {
        if (replaces(x.offset(line[i]), x.offset(line[best]))) best = i;
        copy_element(c.out(0), c.out(0).offset(line[i]), x, x.offset(line[best]));
        c.out(1).set_integer(c.out(1).offset(line[i]), static_cast<int64_t>(best));
      }
    });
  });
}

// Each gradient goes to the element that its index names; several may go to one.
std::vector<Value> gradient_at_indices(GradContext& g) {
  if (g.in().rank() == 0) return {g.dout()};
  return {g.op("scatter", {g.full_like(g.in(), 0), g.out(1), g.dout()},
               {{"dim", g.integer("dim")}, {"reduce", std::string("add")}})};
}

// An element that is the extreme so far, or NaN, is the one that the index names from there on.
LoopsFn running_extreme_loops(std::string_view op) {
  return [op](LoopContext& l) {
    const Shape& shape = l.type(0).shape;
    const int64_t dim = l.dim("dim");
    const LoopValue x = shape.empty() ? l.wide(l.in()) : l.stretched(l.wide(l.in()), shape, {dim});
    const LoopValue extreme = l.scan(op, x, shape, dim);
    const LoopValue replaces = l.equals_or_is_nan(x, extreme);
    const Expr place = shape.empty() ? Expr(0) : l.at(x.dims[static_cast<size_t>(dim)]);
    const LoopValue none = l.constant(DType::kI64, int64_t{0});
    l.out(l.cast(extreme, l.result().dtype));
    l.out(l.scan("maximum", l.compute("where", {replaces, l.number(place, x.dims), none}), shape, dim), 1);
  };
}

OpDef running_extreme_op(std::string_view name, std::string_view doc, Semantics semantics,
                         std::string_view elementwise) {
  return {.name = name,
          .family = "scan",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}},
          .attrs = kScanAttrs,
          .results = {"values", "indices"},
          .infer = extreme_type,
          .semantics = std::move(semantics),
          .gradient = gradient(gradient_at_indices),
          .loops = running_extreme_loops(elementwise),
          .peer = torch_is_text("torch.{}(x, dim)", name),
          .samples = kScanSamples};
}

const OpDef kExtremes[] = {
    running_extreme_op(
        "cummax",
        "The largest of the elements up to each one along a dimension, and its index: the latest of equal elements.",
        running_extreme([](auto a, auto b) { return a >= b; }), "maximum"),
    running_extreme_op(
        "cummin",
        "The smallest of the elements up to each one along a dimension, and its index: the latest of equal elements.",
        running_extreme([](auto a, auto b) { return a <= b; }), "minimum"),
};

}  // namespace

OpRefs scan_ops() { return records(kCumsum, kCumprod, kLogcumsumexp, kExtremes); }

}  // namespace tenon::ops
