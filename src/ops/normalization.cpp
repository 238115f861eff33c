// Normalizations. Each is `standardize` over some dimensions of some shape, then an affine map.
//
// Statistics come back in f32 for f16 and bf16 operands. PyTorch is not of one mind: on CPU native_layer_norm and its
// kin give the operand's dtype or that of the parameters, on CUDA f32, and rms_norm f32 everywhere. Rounded statistics
// cost a gradient its accuracy.
#include "graph/limits.h"
#include "ops/reduce.h"

namespace tenon::ops {
namespace {

const AttrDef kEps = {"eps", AttrKind::kReal, "added to the variance", Attr(1e-5)};
const std::vector<OperandDef> kAffineOperands = {
    {"x", kFloats}, {"weight", kFloats, Arity::kOptional}, {"bias", kFloats, Arity::kOptional}};

// PyTorch folds statistics and parameters into a scale and a shift for each channel, where infinities become NaN that
// are none here.
constexpr bool kSpecialsPerChannel = false;

// ---- shape rules ----------------------------------------------------------------------------------------------------

// A parameter beside a half-precision operand may be f32, as mixed-precision models have it.
void check_parameter(const OpView& view, size_t operand, const Shape& shape) {
  if (!view.has(operand)) return;
  const TensorType& type = view.type(operand);
  const DType dtype = view.type(0).dtype;
  const std::string_view name = view.op().operands.get()[operand].name;
  if (type.shape != shape) fail("{} must have shape {}, got {}", name, to_string(shape), to_string(type.shape));
  if (type.dtype != dtype && type.dtype != wide(dtype)) {
    fail("{} must have the operand's dtype {}, got {}", name, name_of(dtype), name_of(type.dtype));
  }
}

// The trailing dimensions that layer_norm and rms_norm normalize.
std::vector<int64_t> trailing_dims(const OpView& view) {
  const int64_t rank = view.type(0).rank();
  const int64_t count = view.integer("normalized_rank");
  if (count < 1 || count > rank)
    fail("normalized_rank must be in [1, {}] for {}, got {}", rank, to_string(view.type(0)), count);
  return dims_between(rank - count, rank);
}

Shape trailing_shape(const OpView& view) {
  const Shape& shape = view.type(0).shape;
  return {shape.end() - view.integer("normalized_rank"), shape.end()};
}

// Operands [N, C, ...] with parameters [C].
void check_channels(const OpView& view) {
  const TensorType& x = view.type(0);
  if (x.rank() < 2) fail("the operand must have a batch and a channel dimension, got {}", to_string(x));
  for (size_t operand = 1; operand < view.operand_count(); ++operand) check_parameter(view, operand, {x.size(1)});
}

// ---- expansion ------------------------------------------------------------------------------------------------------

struct Standardized {
  Value out;
  Value mean;
  Value rstd;
};

Standardized standardize(Builder& b, Value x, std::vector<int64_t> dims, double eps) {
  const std::vector<Value> results = b.results("standardize", {x}, {{"dims", std::move(dims)}, {"eps", eps}});
  return {results[0], results[1], results[2]};
}

// x * weight + bias, where they are present, in the operand's dtype. `aligned` is the shape in which they broadcast.
Value affine(ExpandContext& e, Value x, size_t weight, size_t bias, const Shape& aligned) {
  if (e.has(weight)) x = x * e.reshape(e.in_wide(weight), aligned);
  if (e.has(bias)) x = x + e.reshape(e.in_wide(bias), aligned);
  return e.cast(x, e.in().dtype());
}

// [C] against [N, C, ...].
Shape channel_shape(const Shape& x) {
  Shape shape(x.size() - 1, 1);
  shape[0] = x[1];
  return shape;
}

Value per_channel(ExpandContext& e, Value x, size_t weight, size_t bias) {
  return affine(e, x, weight, bias, channel_shape(e.in().shape()));
}

// ---- records --------------------------------------------------------------------------------------------------------

const OpDef kStandardize{
    .name = "standardize",
    .family = "normalization",
    .doc =
        "(x - mean) / sqrt(var + eps) over dimensions, with the mean and the reciprocal of the root beside it. The "
        "variance is the biased one. The statistics keep the dimensions with size 1.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {{"dims", AttrKind::kInts, "the dimensions to normalize over; none given means all",
               Attr(std::vector<int64_t>{})},
              kEps},
    .results = {"out", "mean", "rstd"},
    .infer = [](InferContext& c) -> Types {
      const TensorType statistic = {wide(c.type(0).dtype), without_dims(c.type(0).shape, c.dims("dims"), true)};
      return {c.type(0), statistic, statistic};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value x = e.in_wide();
      const std::vector<int64_t> dims = e.dims("dims");
      const Value mean = e.mean(x, dims, true);
      const Value deviation = x - mean;
      const Value rstd = e.rsqrt(e.mean(deviation * deviation, dims, true) + e.real("eps"));
      return {e.cast(deviation * rstd, e.in().dtype()), mean, rstd};
    }),
    // Through the mean and the variance, each element takes part in all results.
    .gradient = gradient([](GradContext& g) {
      const std::vector<int64_t> dims = g.dims("dims");
      const Value x = widen(g, g.in());
      const Value rstd = g.out(2);
      const Value out = (x - g.out(1)) * rstd;
      const Value dout = widen(g, g.dout());
      Value dx = rstd * (dout - g.mean(dout, dims, true) - out * g.mean(dout * out, dims, true));
      const Value n = reduced_count(g, x.shape(), dims, x.dtype());
      if (g.has_dout(1)) dx = dx + g.dout(1) / n;
      if (g.has_dout(2)) dx = dx - g.dout(2) * rstd * rstd * out / n;
      return dx;
    }),
    .role = Role::kRows,
    .peer = torch_is("(lambda m, v: [((wide(x) - m) * (v + eps).rsqrt()).to(x.dtype), m, (v + eps).rsqrt()])"
                     "(torch.mean(wide(x), dim=dims or None, keepdim=True), torch.var(wide(x), dim=dims or None, "
                     "correction=0, keepdim=True))"),
    .samples = Samples{"T[3, 4]", "T[3, 4]; dims=[1]", "T[3, 4]; dims=[-2], eps=0.1", "T[2, 3, 4]; dims=[0, 2]", "T[]",
                       "T[2, 1]; dims=[1]", "T[0, 3]; dims=[1]"},
};

const OpDef kLayerNorm{
    .name = "layer_norm",
    .family = "normalization",
    .doc =
        "Standardizes over the last dimensions, then scales and shifts each of their elements. The statistics have "
        "size 1 in the normalized dimensions.",
    .operands = kAffineOperands,
    .attrs = {{"normalized_rank", AttrKind::kInt, "how many of the last dimensions"}, kEps},
    .results = {"out", "mean", "rstd"},
    .infer = [](InferContext& c) -> Types {
      const std::vector<int64_t> dims = trailing_dims(c);
      for (size_t parameter : {1, 2}) check_parameter(c, parameter, trailing_shape(c));
      const TensorType statistic = {wide(c.type(0).dtype), without_dims(c.type(0).shape, dims, true)};
      return {c.type(0), statistic, statistic};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const auto [out, mean, rstd] = standardize(e, e.in_wide(), trailing_dims(e), e.real("eps"));
      return {affine(e, out, 1, 2, trailing_shape(e)), mean, rstd};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("(lambda d: [F.layer_norm(wide(x), x.shape[d[0]:], wide(weight), wide(bias), eps).to(x.dtype), "
                     "wide(x).mean(d, True), (wide(x).var(d, correction=0, keepdim=True) + eps).rsqrt()])"
                     "(list(range(-normalized_rank, 0)))"),
    .samples = Samples{"T[3, 4], T[4], T[4]; normalized_rank=1", "T[3, 4], none, none; normalized_rank=1, eps=0.1",
                       "T[2, 3, 4], T[3, 4], none; normalized_rank=2", "T[2, 3], none, T[2, 3]; normalized_rank=2",
                       "T[0, 3], T[3], T[3]; normalized_rank=1", "T[5], T[5], T[5]; normalized_rank=1",
                       "T[2, 1], T[1], T[1]; normalized_rank=1", "f16[2, 4], f32[4], f32[4]; normalized_rank=1",
                       "bf16[2, 4], f32[4], none; normalized_rank=1"},
};

const OpDef kRmsNorm{
    .name = "rms_norm",
    .family = "normalization",
    .doc = "Divides by the root mean square over the last dimensions, then scales each of their elements.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"weight", kFloats, Arity::kOptional}},
    .attrs = {{"normalized_rank", AttrKind::kInt, "how many of the last dimensions"},
              {"eps", AttrKind::kReal, "added to the mean square"}},
    .results = {"out", "rstd"},
    .infer = [](InferContext& c) -> Types {
      const std::vector<int64_t> dims = trailing_dims(c);
      check_parameter(c, 1, trailing_shape(c));
      return {c.type(0), {wide(c.type(0).dtype), without_dims(c.type(0).shape, dims, true)}};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value x = e.in_wide();
      const Value rstd = e.rsqrt(e.mean(x * x, trailing_dims(e), true) + e.real("eps"));
      const Value out = x * rstd;
      return {e.cast(e.has(1) ? out * e.in_wide(1) : out, e.in().dtype()), rstd};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("(lambda d: [F.rms_norm(wide(x), x.shape[d[0]:], wide(weight), eps).to(x.dtype), "
                     "(wide(x).square().mean(d, True) + eps).rsqrt()])(list(range(-normalized_rank, 0)))"),
    .samples = Samples{"T[3, 4], T[4]; normalized_rank=1, eps=1e-5", "T[3, 4], none; normalized_rank=1, eps=0.1",
                       "T[2, 3, 4], T[3, 4]; normalized_rank=2, eps=1e-6", "T[0, 3], T[3]; normalized_rank=1, eps=1e-5",
                       "T[5], none; normalized_rank=1, eps=1e-5", "bf16[2, 4], f32[4]; normalized_rank=1, eps=1e-5"},
};

// [N, C, ...] as [N, groups, elements of a group].
Shape grouped_shape(const OpView& view) {
  const TensorType& x = view.type(0);
  const Expr groups = view.integer("groups");
  const Expr spatial = element_count(std::span(x.shape).subspan(2));
  return {x.size(0), groups, floordiv(x.size(1), groups) * spatial};
}

const OpDef kGroupNorm{
    .name = "group_norm",
    .family = "normalization",
    .doc =
        "Standardizes groups of channels of [N, C, ...] for each of N, then scales and shifts each channel. The "
        "statistics are [N, groups].",
    .operands = kAffineOperands,
    .attrs = {{"groups", AttrKind::kInt, "how many groups the channels form; it divides their number"}, kEps},
    .results = {"out", "mean", "rstd"},
    .infer = [](InferContext& c) -> Types {
      check_channels(c);
      const Expr& channels = c.type(0).size(1);
      const int64_t groups = c.integer("groups");
      if (groups < 1) fail("groups must be at least 1, got {}", groups);
      if (!mod(channels, groups).is_constant(0))
        fail("{} channels are not known to divide into {} groups", to_string(channels), groups);
      const TensorType statistic = {wide(c.type(0).dtype), {c.type(0).size(0), groups}};
      return {c.type(0), statistic, statistic};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value x = e.in_wide();
      const auto [out, mean, rstd] = standardize(e, e.reshape(x, grouped_shape(e)), {2}, e.real("eps"));
      return {per_channel(e, e.reshape(out, x.shape()), 1, 2), e.squeeze(mean, 2), e.squeeze(rstd, 2)};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("(lambda v: [F.group_norm(wide(x), groups, wide(weight), wide(bias), eps).to(x.dtype), v.mean(2), "
                     "(v.var(2, correction=0) + eps).rsqrt()])"
                     "(wide(x).reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups))"),
    .samples = Samples{"T[2, 4, 3], T[4], T[4]; groups=2", "T[2, 4, 2, 2], none, none; groups=4, eps=0.1",
                       "T[3, 2], T[2], none; groups=1", "T[1, 6, 2], T[6], T[6]; groups=3",
                       "T[0, 4, 2], T[4], T[4]; groups=2", "bf16[2, 4, 3], f32[4], f32[4]; groups=2"},
    .special_values = kSpecialsPerChannel,
};

const OpDef kInstanceNorm{
    .name = "instance_norm",
    .family = "normalization",
    .doc = "Standardizes each channel of each of N in [N, C, ...], then scales and shifts the channel.",
    .operands = kAffineOperands,
    .attrs = {kEps},
    .infer = [](InferContext& c) -> Types {
      check_channels(c);
      if (c.type(0).rank() < 3) fail("{} has nothing to normalize beside batch and channels", to_string(c.type(0)));
      return {c.type(0)};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value out = standardize(e, e.in_wide(), dims_between(2, e.in().rank()), e.real("eps")).out;
      return per_channel(e, out, 1, 2);
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.instance_norm(wide(x), None, None, wide(weight), wide(bias), True, 0.1, eps).to(x.dtype)"),
    .samples = Samples{"T[2, 3, 4], T[3], T[3]", "T[2, 3, 2, 2], none, none; eps=0.1", "T[1, 2, 3], none, T[2]",
                       "f16[2, 3, 4], f32[3], f32[3]"},
    .special_values = kSpecialsPerChannel,
};

const OpDef kBatchNorm{
    .name = "batch_norm",
    .family = "normalization",
    .doc =
        "Standardizes each channel of [N, C, ...] over everything else, as in training, then scales and shifts it. The "
        "statistics are [C]; `var` is the unbiased variance, which running statistics are updated with.",
    .operands = kAffineOperands,
    .attrs = {kEps},
    .results = {"out", "mean", "rstd", "var"},
    .infer = [](InferContext& c) -> Types {
      check_channels(c);
      const TensorType statistic = {wide(c.type(0).dtype), {c.type(0).size(1)}};
      return {c.type(0), statistic, statistic, statistic};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const Value x = e.in_wide();
      std::vector<int64_t> dims = dims_between(1, x.rank());
      dims[0] = 0;
      const auto [out, mean, rstd] = standardize(e, x, dims, e.real("eps"));
      const Shape statistic = {x.size(1)};
      return {per_channel(e, out, 1, 2), e.reshape(mean, statistic), e.reshape(rstd, statistic),
              e.op("var", {x}, {{"dims", dims}})};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("(lambda d: [F.batch_norm(wide(x), None, None, wide(weight), wide(bias), True, 0.1, "
                     "eps).to(x.dtype), wide(x).mean(d), (wide(x).var(d, correction=0) + eps).rsqrt(), wide(x).var(d)])"
                     "([0, *range(2, x.dim())])"),
    .samples = Samples{"T[3, 2], T[2], T[2]; eps=0.01", "T[2, 3, 4], none, none; eps=0.1", "T[2, 3, 2, 2], T[3], none",
                       "T[2, 1, 3], none, T[1]", "f16[2, 3, 4], f32[3], f32[3]"},
    .special_values = kSpecialsPerChannel,
};

const OpDef kBatchNormInference{
    .name = "batch_norm_inference",
    .family = "normalization",
    .doc = "Normalizes each channel of [N, C, ...] with statistics that are given, then scales and shifts it.",
    .operands = std::vector<OperandDef>{{"x", kFloats},
                                        {"weight", kFloats, Arity::kOptional},
                                        {"bias", kFloats, Arity::kOptional},
                                        {"running_mean", kFloats},
                                        {"running_var", kFloats}},
    .attrs = {kEps},
    .infer = [](InferContext& c) -> Types {
      check_channels(c);
      return {c.type(0)};
    },
    .semantics = composite([](ExpandContext& e) {
      const Shape aligned = channel_shape(e.in().shape());
      const Value rstd = e.rsqrt(e.in_wide(4) + e.real("eps"));
      const Value out = (e.in_wide() - e.reshape(e.in_wide(3), aligned)) * e.reshape(rstd, aligned);
      return per_channel(e, out, 1, 2);
    }),
    .gradient = ByExpansion{},
    // F.batch_norm refuses to differentiate by the statistics.
    .peer =
        torch_is("F.batch_norm(wide(x), wide(running_mean), wide(running_var), wide(weight), wide(bias), False, 0.1, "
                 "eps).to(x.dtype) if not x.requires_grad else (lambda c: (x - c(running_mean)) * (c(running_var) + "
                 "eps).rsqrt() * (1 if weight is None else c(weight)) + (0 if bias is None else c(bias)))"
                 "(lambda p: p.reshape([-1] + [1] * (x.dim() - 2)))"),
    .samples =
        Samples{"T[3, 2], T[2], T[2], T[2], T[2] in 0..2", "T[2, 3, 4], none, none, T[3], T[3] in 0.1..2; eps=0.1",
                "T[2, 3, 2, 2], T[3], none, T[3], T[3] in 0.1..2", "T[0, 3], none, T[3], T[3], T[3] in 0.1..2",
                "f16[2, 3, 4], f32[3], f32[3], f32[3], f32[3] in 0.1..2"},
    .special_values = kSpecialsPerChannel,
};

const OpDef kLocalResponseNorm{
    .name = "local_response_norm",
    .family = "normalization",
    .doc =
        "Divides by (k + alpha * mean of the squares of `size` neighbouring channels)^beta; what is beyond the "
        "channels is zero.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {{"size", AttrKind::kInt, "how many channels form a neighbourhood"},
              {"alpha", AttrKind::kReal, "the factor of the mean", Attr(1e-4)},
              {"beta", AttrKind::kReal, "the exponent", Attr(0.75)},
              {"k", AttrKind::kReal, "added to the mean", Attr(1.0)}},
    .infer = [](InferContext& c) -> Types {
      check_channels(c);
      if (c.integer("size") < 1) fail("size must be at least 1, got {}", c.integer("size"));
      check_part_count(c.integer("size"), "neighbouring channels");
      return {c.type(0)};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value x = e.in_wide();
      const int64_t size = e.integer("size");
      std::vector<Expr> low(x.shape().size(), 0);
      std::vector<Expr> high = low;
      low[1] = size / 2, high[1] = (size - 1) / 2;
      const Value squares = e.pad(x * x, low, high);
      Value sum = e.slice(squares, 1, 0, x.size(1));
      for (int64_t i = 1; i < size; ++i) sum = sum + e.slice(squares, 1, i, x.size(1) + i);
      const Value base = sum * (e.real("alpha") / static_cast<double>(size)) + e.real("k");
      return e.cast(x / e.pow(base, e.scalar(e.real("beta"), x.dtype())), e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.local_response_norm(wide(x), size, alpha, beta, k).to(x.dtype)"),
    .samples = Samples{"T[2, 4, 3]; size=3", "T[1, 5, 2, 2]; size=2, alpha=0.5, beta=0.5, k=2.0", "T[2, 3, 2]; size=1",
                       "T[2, 2, 2]; size=5", "T[0, 3, 2]; size=2"},
};

}  // namespace

OpRefs normalization_ops() {
  return {&kStandardize, &kLayerNorm,          &kRmsNorm,          &kGroupNorm, &kInstanceNorm,
          &kBatchNorm,   &kBatchNormInference, &kLocalResponseNorm};
}

}  // namespace tenon::ops
