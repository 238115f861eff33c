// Scans: each result is a reduction of the elements up to its own, along one dimension.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const std::vector<AttrDef> kScanAttrs = {{"dim", AttrKind::kInt, "the dimension to walk along"}};
const Samples kScanSamples = {"T[3, 4]; dim=0",    "T[3, 4]; dim=-1",   "T[]; dim=0",     "T[]; dim=-1",      "T[0]; dim=0",
                              "T[2, 0, 3]; dim=1", "T[2, 0, 3]; dim=2", "T[1]; dim=0",    "T[2, 1, 3]; dim=1", "T[2, 3, 2]; dim=-2",
                              "T[20]; dim=0",      "T[N, 2]; dim=0"};

// Calls start() for each line along the dimension, then step(in, out, position) for its elements in order.
void for_each_line(ReferenceContext& c, const std::function<void()>& start,
                   const std::function<void(int64_t in, int64_t out, int64_t position)>& step) {
  const Tensor& x = c.in();
  const auto dim = static_cast<size_t>(c.dim("dim"));
  Sizes lines = x.shape();
  const int64_t length = x.rank() == 0 ? 1 : std::exchange(lines[dim], 1);
  for_each_index(lines, [&](const Sizes& line) {
    start();
    Sizes index = line;
    for (int64_t position = 0; position < length; ++position) {
      if (!index.empty()) index[dim] = position;
      step(x.offset(index), c.out().offset(index), position);
    }
  });
}

// As in a reduction, integers and bool accumulate in i64.
Types accumulated(InferContext& c) {
  c.dim("dim");
  const DType dtype = c.type(0).dtype;
  return {{is_integral(dtype) ? DType::kI64 : dtype, c.type(0).shape}};
}

template <class RealStep, class IntegerStep>
Semantics accumulate(double real_start, RealStep real_step, int64_t integer_start, IntegerStep integer_step) {
  return reference([=](ReferenceContext& c) {
    double real = 0;
    int64_t integer = 0;
    const auto start = [&] { real = real_start, integer = integer_start; };
    for_each_line(c, start, [&](int64_t in, int64_t out, int64_t) {
      if (is_float(c.in().dtype())) {
        c.out().set_real(out, real = real_step(real, c.in().real(in)));
      } else {
        c.out().set_integer(out, integer = integer_step(integer, c.in().integer(in)));
      }
    });
  });
}

Value scan(GradContext& g, std::string_view name, Value x) { return g.op(name, {x}, {{"dim", g.integer("dim")}}); }

// The same scan from the end.
Value reverse_scan(GradContext& g, std::string_view name, Value x) {
  if (x.rank() == 0) return scan(g, name, x);
  const auto reversed = [&](Value v) { return g.op("flip", {v}, {{"dims", std::vector<int64_t>{g.integer("dim")}}}); };
  return reversed(scan(g, name, reversed(x)));
}

const OpDef kCumsum{
    .name = "cumsum",
    .family = "scan",
    .doc = "The sum of the elements up to each one, along a dimension. Integers and bool add up in i64.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = kScanAttrs,
    .infer = accumulated,
    .semantics = accumulate(0.0, std::plus<double>(), 0, wrap_add),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {reverse_scan(g, "cumsum", g.dout())}; }),
    .peer = torch_is("torch.cumsum(x, dim)"),
    .samples = kScanSamples};

// An element's derivative sums dout * product / element over the products that contain it. Before the first zero of its
// line that is a division; every product from there on has that zero, so only the zero itself has another derivative: of
// the products up to the second zero, without itself. After it all derivatives are zero.
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

const OpDef kCumprod{
    .name = "cumprod",
    .family = "scan",
    .doc = "The product of the elements up to each one, along a dimension. Integers and bool multiply in i64.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = kScanAttrs,
    .infer = accumulated,
    .semantics = accumulate(1.0, std::multiplies<double>(), 1, wrap_mul),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {cumprod_gradient(g)}; }),
    .peer = torch_is("torch.cumprod(x, dim)"),
    .samples = kScanSamples};

const OpDef kLogcumsumexp{
    .name = "logcumsumexp",
    .family = "scan",
    .doc = "log(cumsum(exp(x))) along a dimension, without overflow.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = kScanAttrs,
    .infer = accumulated,
    .semantics = accumulate(
        -HUGE_VAL,
        [](double a, double b) {
          if (std::isnan(a) || std::isnan(b)) return a + b;
          const double large = std::max(a, b);
          return std::isinf(large) ? large : large + std::log1p(std::exp(std::min(a, b) - large));
        },
        0, [](int64_t a, int64_t) { return a; }),
    // dx = exp(x) * (the sum from the end of dout / exp(out)), as logarithms: positive and negative dout apart.
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Value x = widen(g, g.in());
      const Value dout = widen(g, g.dout());
      const Value log_size = g.log(g.abs(dout));
      const Value nothing = g.scalar(-HUGE_VAL, x.dtype());
      const auto part = [&](std::string_view sign) {
        const Value logs = g.where(g.compare(sign, dout, 0.0), log_size, nothing);
        return g.exp(reverse_scan(g, "logcumsumexp", logs - widen(g, g.out())) + x);
      };
      return {part("gt") - part("lt")};
    }),
    .peer = torch_is("torch.logcumsumexp(x, dim)"),
    .samples = kScanSamples};

// ---- running extremes ----------------------------------------------------------------------------------------------------

Types extreme_type(InferContext& c) {
  c.dim("dim");
  return {c.type(0), {DType::kI64, c.type(0).shape}};
}

// The latest of equals is the one that the index names, and the latest NaN once there is one, as in PyTorch.
template <class AtLeast>
Semantics running_extreme(AtLeast at_least) {
  return reference([at_least](ReferenceContext& c) {
    const Tensor& x = c.in();
    int64_t best = 0;
    int64_t best_position = 0;
    const auto replaces = [&](int64_t at) {
      if (!is_float(x.dtype())) return at_least(x.integer(at), x.integer(best));
      return std::isnan(x.real(at)) || (!std::isnan(x.real(best)) && at_least(x.real(at), x.real(best)));
    };
    for_each_line(c, [] {}, [&](int64_t in, int64_t out, int64_t position) {
      if (position == 0 || replaces(in)) best = in, best_position = position;
      is_float(x.dtype()) ? c.out(0).set_real(out, x.real(best)) : c.out(0).set_integer(out, x.integer(best));
      c.out(1).set_integer(out, best_position);
    });
  });
}

// Each gradient goes to the element that its index names; several may go to one.
std::vector<Value> gradient_at_indices(GradContext& g) {
  if (g.in().rank() == 0) return {g.dout()};
  return {g.op("scatter", {g.full_like(g.in(), 0), g.out(1), g.dout()}, {{"dim", g.integer("dim")}, {"reduce", std::string("sum")}})};
}

const OpDef kCummax{
    .name = "cummax",
    .family = "scan",
    .doc = "The largest of the elements up to each one along a dimension, and its index: the latest of equals.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = kScanAttrs,
    .results = {"values", "indices"},
    .infer = extreme_type,
    .semantics = running_extreme([](auto a, auto b) { return a >= b; }),
    .gradient = gradient(gradient_at_indices),
    .peer = torch_is("torch.cummax(x, dim)"),
    .samples = kScanSamples};

const OpDef kCummin{
    .name = "cummin",
    .family = "scan",
    .doc = "The smallest of the elements up to each one along a dimension, and its index: the latest of equals.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = kScanAttrs,
    .results = {"values", "indices"},
    .infer = extreme_type,
    .semantics = running_extreme([](auto a, auto b) { return a <= b; }),
    .gradient = gradient(gradient_at_indices),
    .peer = torch_is("torch.cummin(x, dim)"),
    .samples = kScanSamples};

}  // namespace

OpFamily scan_ops() {
  static const OpDef* const ops[] = {&kCumsum, &kCumprod, &kLogcumsumexp, &kCummax, &kCummin};
  return ops;
}

}  // namespace tenon
