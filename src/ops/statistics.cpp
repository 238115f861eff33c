// The part of the reduction family that averages and measures: moments, norms and the sum of exponentials.
#include <cmath>

#include "ops/reduce.h"

namespace tenon::ops {
namespace {

const std::vector<OperandDef> kFloatOperand = {{"x", kFloats}};
const Samples kMomentSamples = reduction_samples() + empty_reduction_samples();

Types float_reduced(InferContext& c) { return reduced_to(c, c.type(0).dtype); }

const OpDef kMean{
    .name = "mean",
    .family = "reduction",
    .doc = "The mean over dimensions; NaN over no elements.",
    .operands = kFloatOperand,
    .attrs = reduction_attrs(),
    .infer = float_reduced,
    .semantics = composite([](ExpandContext& e) {
      const Value x = e.in_wide();
      const Value sum = e.sum(x, e.dims("dims"), e.flag("keepdim"));
      return e.cast(sum / reduced_count(e, x.shape(), e.dims("dims"), x.dtype()), e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.mean(x, dim=dims or None, keepdim=keepdim)"),
    .samples = kMomentSamples,
};

// ---- second moments -------------------------------------------------------------------------------------------------

const std::vector<AttrDef> kVarianceAttrs = {
    reduction_attrs()[0],
    {"correction", AttrKind::kReal, "subtracted from the count in the divisor", Attr(1.0)},
    reduction_attrs()[1]};
const Samples kVarianceSamples = kMomentSamples + Samples{"T[3, 4]; dims=[1], correction=0.0", "T[5]; correction=0.5",
                                                          "T[3, 3]; dims=[0], correction=2.0", "T[1, 3]; dims=[0]",
                                                          "T[2, 3, 4]; dims=[0, -1], correction=2.0, keepdim=true"};

// The divisor of a sum of squared deviations. Never negative, as in PyTorch.
Value variance_divisor(Builder& b, const OpView& view, DType dtype) {
  const Value count = reduced_count(b, view.type(0).shape, view.dims("dims"), dtype);
  return b.maximum(count - view.real("correction"), b.scalar(0, dtype));
}

Value deviations(Builder& b, Value x, const std::vector<int64_t>& dims) { return x - b.mean(x, dims, true); }

Value variance(ExpandContext& e) {
  const Value x = e.in_wide();
  const Value deviation = deviations(e, x, e.dims("dims"));
  return e.sum(deviation * deviation, e.dims("dims"), e.flag("keepdim")) / variance_divisor(e, e, x.dtype());
}

// The mean depends on the elements too, but its share is zero: the deviations from the mean sum to zero.
Value variance_gradient(GradContext& g, Value dvariance) {
  const Value x = widen(g, g.in());
  return kept(g, dvariance) * deviations(g, x, g.dims("dims")) * (2.0 / variance_divisor(g, g, x.dtype()));
}

const OpDef kVar{
    .name = "var",
    .family = "reduction",
    .doc =
        "The variance over dimensions, computed from the deviations from the mean. With `correction` 1 it is the "
        "unbiased estimate.",
    .operands = kFloatOperand,
    .attrs = kVarianceAttrs,
    .infer = float_reduced,
    .semantics = composite([](ExpandContext& e) { return e.cast(variance(e), e.in().dtype()); }),
    .gradient = gradient([](GradContext& g) { return variance_gradient(g, widen(g, g.dout())); }),
    .peer = torch_is("torch.var(x, dim=dims or None, correction=correction, keepdim=keepdim)"),
    .samples = kVarianceSamples,
};

const OpDef kStd{
    .name = "std",
    .family = "reduction",
    .doc = "The standard deviation over dimensions: the square root of `var`.",
    .operands = kFloatOperand,
    .attrs = kVarianceAttrs,
    .infer = float_reduced,
    .semantics = composite([](ExpandContext& e) { return e.cast(e.sqrt(variance(e)), e.in().dtype()); }),
    // With zero deviation the derivative is unbounded; PyTorch gives zero.
    .gradient = gradient([](GradContext& g) {
      const Value out = widen(g, g.out());
      const Value dvariance = widen(g, g.dout()) / (2 * out);
      return variance_gradient(g, g.where(g.compare("eq", out, 0.0), g.scalar(0, out.dtype()), dvariance));
    }),
    .peer = torch_is("torch.std(x, dim=dims or None, correction=correction, keepdim=keepdim)"),
    .samples = kVarianceSamples,
    // PyTorch's dtypes differ in which squares overflow.
    .special_values = false,
};

const OpDef kVarMean{
    .name = "var_mean",
    .family = "reduction",
    .doc = "`var` and `mean` together.",
    .operands = kFloatOperand,
    .attrs = kVarianceAttrs,
    .results = {"var", "mean"},
    .infer = [](InferContext& c) -> Types { return {float_reduced(c)[0], float_reduced(c)[0]}; },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value var =
          e.op("var", {e.in()},
               {{"dims", e.attr("dims")}, {"correction", e.attr("correction")}, {"keepdim", e.attr("keepdim")}});
      return {var, e.mean(e.in(), e.dims("dims"), e.flag("keepdim"))};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.var_mean(x, dim=dims or None, correction=correction, keepdim=keepdim)"),
    .samples = kVarianceSamples,
    // PyTorch's running mean makes NaN of an infinity.
    .special_values = false,
};

// ---- exponentials and norms -----------------------------------------------------------------------------------------

const OpDef kLogsumexp{
    .name = "logsumexp",
    .family = "reduction",
    .doc = "log(sum(exp(x))) over dimensions, without overflow; -inf over no elements.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = reduction_attrs(),
    .infer = [](InferContext& c) { return reduced_to(c, is_float(c.type(0).dtype) ? c.type(0).dtype : DType::kF32); },
    .semantics = composite([](ExpandContext& e) {
      const DType dtype = is_float(e.in().dtype()) ? e.in().dtype() : DType::kF32;
      const Value x = e.cast(e.in(), wide(dtype));
      const std::vector<int64_t> dims = e.dims("dims");
      const Value largest = e.op("amax", {x}, {{"dims", dims}, {"keepdim", true}, {"allow_empty", true}});
      // inf - inf is NaN, so an infinite maximum is not subtracted: log(exp(x)) is the infinity again.
      const Value shift = e.where(e.compare("eq", e.abs(largest), HUGE_VAL), e.scalar(0, x.dtype()), largest);
      const Value log_sum = e.log(e.sum(e.exp(x - shift), dims, e.flag("keepdim")));
      return e.cast(log_sum + e.reshape(shift, log_sum.shape()), dtype);
    }),
    .gradient = gradient([](GradContext& g) { return kept(g, g.dout()) * g.exp(widen(g, g.in()) - kept(g, g.out())); }),
    .peer = torch_is("torch.logsumexp(x, dim=dims or list(range(x.dim())), keepdim=keepdim)"),
    .samples = kMomentSamples,
};

Value norm(ExpandContext& e) {
  const Value x = e.in_wide();
  const double p = e.real("p");
  const auto reduce = [&](std::string_view name, Value v) {
    return e.op(name, {v}, {{"dims", e.attr("dims")}, {"keepdim", e.attr("keepdim")}});
  };
  if (p == 0) return reduce("count_nonzero", x);
  if (p == 2) return e.sqrt(reduce("sum", x * x));
  const Value size = e.abs(x);
  if (p == 1) return reduce("sum", size);
  if (std::isinf(p)) return reduce(p > 0 ? "amax" : "amin", size);
  return e.pow(reduce("sum", e.pow(size, e.scalar(p, x.dtype()))), e.scalar(1 / p, x.dtype()));
}

// The derivative is not bounded or not unique at zero; PyTorch's choice there is zero.
Value zero_where(Builder& b, Value is_zero, Value v) { return b.where(is_zero, b.scalar(0, v.dtype()), v); }

Value norm_gradient(GradContext& g) {
  const double p = g.real("p");
  if (p == 0) return {};
  const Value x = widen(g, g.in());
  const Value norm = kept(g, widen(g, g.out()));
  const Value dout = kept(g, widen(g, g.dout()));
  const Value is_zero = g.compare("eq", norm, 0.0);
  if (p == 1) return dout * g.sign(x);
  if (p == 2) return dout * zero_where(g, is_zero, x / norm);
  if (std::isinf(p)) {
    const Value is_extreme = g.compare("eq", g.abs(x), norm);
    return g.sign(x) * (dout / g.sum(is_extreme, g.dims("dims"), true)) * is_extreme;
  }
  const Value of_element =
      g.sign(x) * zero_where(g, g.compare("eq", x, 0.0), g.pow(g.abs(x), g.scalar(p - 1, x.dtype())));
  return dout * of_element * zero_where(g, is_zero, g.pow(norm, g.scalar(1 - p, x.dtype())));
}

const OpDef kNorm{
    .name = "norm",
    .family = "reduction",
    .doc =
        "The vector norm over dimensions: sum(|x|^p)^(1/p). p = 0 counts what is not zero, p = inf and -inf are the "
        "largest and the smallest |x|. Negative and infinite p have no value over no elements.",
    .operands = kFloatOperand,
    .attrs = {{"p", AttrKind::kReal, "the order", Attr(2.0)}, reduction_attrs()[0], reduction_attrs()[1]},
    .infer = [](InferContext& c) -> Types {
      const double p = c.real("p");
      if (std::isnan(p)) fail("the order of the norm is NaN");
      if (p < 0 || std::isinf(p)) require_elements(c, c.dims("dims"));
      return float_reduced(c);
    },
    .semantics = composite([](ExpandContext& e) { return e.cast(norm(e), e.in().dtype()); }),
    .gradient = gradient([](GradContext& g) { return norm_gradient(g); }),
    .peer = torch_is("torch.linalg.vector_norm(x, ord=p, dim=dims or None, keepdim=keepdim)"),
    .samples =
        kMomentSamples + Samples{"T[3, 4]; p=0.0, dims=[1]", "T[3, 4]; p=1.0, dims=[0]", "T[3, 4]; p=inf, dims=[1]",
                                 "T[3, 4]; p=-inf, dims=[0]", "T[3, 4]; p=3.0",
                                 "T[3, 4]; p=0.5, dims=[-1], keepdim=true", "T[2, 3]; p=1.5, dims=[0]", "T[4]; p=-2.0",
                                 "T[2, 0]; p=inf, dims=[0]", "T[0]; p=0.0", "T[0]; p=1.0", "T[]; p=3.0"},
    // PyTorch gives |x| for one element, though its square overflows.
    .special_values = false,
};

}  // namespace

Value reduced_count(Builder& b, const Shape& shape, const std::vector<int64_t>& dims, DType dtype) {
  Expr count = 1;
  for (int64_t dim : dims) count *= shape[static_cast<size_t>(dim)];
  return b.full(count, {}, dtype);
}

OpRefs statistics_ops() { return {&kMean, &kVar, &kStd, &kVarMean, &kLogsumexp, &kNorm}; }

}  // namespace tenon::ops
