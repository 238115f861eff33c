// Pooling: one value of each window, or of each bin.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/common.h"
#include "ops/spatial.h"
#include "support/checked.h"

namespace tenon::ops {
namespace {

std::vector<int64_t> last_dims(size_t count) { return dims_between(-static_cast<int64_t>(count), 0); }

Shape with_ones(Shape shape, size_t count) {
  shape.insert(shape.end(), count, 1);
  return shape;
}

// ---- maxima ---------------------------------------------------------------------------------------------------------

// The dtype of index arithmetic: more i32 than i64 fit into a vector register.
DType index_dtype(const Expr& count) {
  const bool is_narrow = count.is_constant() && count.constant() <= std::numeric_limits<int32_t>::max();
  return is_narrow ? DType::kI32 : DType::kI64;
}

// The flat index of each element in the last `n` dimensions of a shape.
Value flat_indices(Builder& b, const Shape& shape, size_t n) {
  const Shape spatial(shape.end() - static_cast<int64_t>(n), shape.end());
  const Expr count = element_count(spatial);
  return b.reshape(b.iota(count, index_dtype(count)), spatial);
}

Attr lowest(DType dtype) {
  if (is_float(dtype)) return -kInfinity;
  return Expr(dtype == DType::kU8 ? 0 : kInt64Min >> (64 - 8 * size_of(dtype)));
}

// The maximum over the last `n` dimensions, and the flat index of the element that it comes from: the first, or the
// last NaN, as in PyTorch. An element whose index is negative is padding and never wins.
std::vector<Value> max_and_index(Builder& b, Value elements, Value indices, const Expr& index_count, size_t n) {
  const Value best = b.amax(elements, last_dims(n), true);
  const Value is_nan = b.unary("isnan", elements);
  const Value ties = b.op("logical_or", {b.compare("eq", elements, best), is_nan});
  const Value candidates = b.op("logical_and", {ties, b.compare("ge", indices, 0)});
  const DType dtype = indices.dtype();
  const Value last = b.full(index_count - 1, {}, dtype);
  const Value preference = b.where(is_nan, indices, last - indices);  // the largest wins
  const Value winner = b.amax(b.where(candidates, preference, b.integer(-1, dtype)), last_dims(n), true);
  const Value index = b.where(b.unary("isnan", best), winner, last - winner);
  const Shape shape(best.shape().begin(), best.shape().end() - static_cast<int64_t>(n));
  return {b.reshape(best, shape), b.cast(b.reshape(index, shape), DType::kI64)};
}

const Attr kOne = std::vector<int64_t>{1};
const Attr kZero = std::vector<int64_t>{0};
const AttrDef kPoolKernel = {"kernel", AttrKind::kInts, "the window's size, one for each spatial dimension"};
const AttrDef kPoolStride = {"stride", AttrKind::kInts, "the distance of windows; as the kernel when empty",
                             Attr(std::vector<int64_t>{})};
const AttrDef kPoolPadding = {"padding", AttrKind::kInts, "on both sides, at most half of a window", kZero};
const AttrDef kPoolDilation = {"dilation", AttrKind::kInts, "the distance of elements in a window", kOne};
const AttrDef kCeilMode = {"ceil_mode", AttrKind::kBool, "the last window may reach past the padding", Attr(false)};

// With more padding, a window could hold padding alone.
void check_padding(const std::vector<Sliding>& sliding) {
  for (const Sliding& s : sliding) {
    if (s.padding > s.span().constant() / 2) {
      fail("padding {} is more than half of a window that spans {}", s.padding, s.span());
    }
  }
}

// Without the elements that lie past the end of x in every window: some models pool what is left of an image with a
// kernel of a thousand rows.
std::vector<Sliding> trimmed(std::vector<Sliding> sliding) {
  for (Sliding& s : sliding) {
    if (!s.length.is_constant()) continue;
    const Expr reached = ceildiv(s.length + s.padding, s.dilation);
    s.kernel = std::clamp<int64_t>(reached.constant(), 1, s.kernel);
  }
  return sliding;
}

std::vector<Sliding> max_pool_windows(const OpView& c) {
  return slide(c.type(0).shape, c.ints("kernel"), c.ints("stride"), c.ints("padding"), c.ints("dilation"),
               c.flag("ceil_mode"));
}

Value window_indices(Builder& b, const Shape& shape, std::vector<Sliding> sliding) {
  for (size_t i = 0; i < sliding.size(); ++i) sliding[i].dim = static_cast<int64_t>(i);
  return unfold_spatial(b, flat_indices(b, shape, sliding.size()), sliding, Expr(-1));
}

Expr spatial_count(const Shape& shape, size_t n) { return element_count(std::span(shape).last(n)); }

const OpDef kMaxPool{
    .name = "max_pool",
    .family = "pooling",
    .doc =
        "The maximum of each window, and its flat index in the spatial dimensions. The first maximum wins, the last "
        "NaN, and padding never. The spatial dimensions are the last ones, as many as the kernel has sizes.",
    .operands = std::vector<OperandDef>{{"x", kNumbers}},
    .attrs = {kPoolKernel, kPoolStride, kPoolPadding, kPoolDilation, kCeilMode},
    .results = {"values", "indices"},
    .infer = [](InferContext& c) -> Types {
      const std::vector<Sliding> sliding = max_pool_windows(c);
      check_padding(sliding);
      const Shape shape = slid_shape(c.type(0).shape, sliding);
      return {{c.type(0).dtype, shape}, {DType::kI64, shape}};
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const std::vector<Sliding> sliding = trimmed(max_pool_windows(e));
      const Value elements = unfold_spatial(e, e.in(), sliding, lowest(e.in().dtype()));
      const Value indices = window_indices(e, e.in().shape(), sliding);
      return max_and_index(e, elements, indices, spatial_count(e.in().shape(), sliding.size()), sliding.size());
    }),
    // The element of each window whose index won gets the gradient; no scatter is needed.
    .gradient = gradient([](GradContext& g) {
      const std::vector<Sliding> sliding = trimmed(max_pool_windows(g));
      const Shape aligned = with_ones(g.dout().shape(), sliding.size());
      const Value indices = window_indices(g, g.in().shape(), sliding);
      const Value won = g.compare("eq", indices, g.cast(g.reshape(g.out(1), aligned), indices.dtype()));
      const Value dout = g.reshape(g.cast(g.dout(), wide(g.dout().dtype())), aligned);
      return fold_spatial(g, g.where(won, dout, g.scalar(0, dout.dtype())), sliding);
    }),
    .peer = torch_is("[F.max_pool1d, F.max_pool2d, F.max_pool3d][len(kernel) - 1]("
                     "x, kernel, stride or kernel, padding, dilation, ceil_mode, return_indices=True)"),
    .samples =
        Samples{"T[2, 6]; kernel=[2]", "T[1, 2, 5]; kernel=[3], stride=[1], padding=[1]",
                "T[2, 7]; kernel=[2], stride=[3], ceil_mode=true", "T[1, 1, 7]; kernel=[2], dilation=[3], stride=[2]",
                "T[1, 6]; kernel=[3], stride=[4], padding=[1], ceil_mode=true", "T[0, 2, 4]; kernel=[2]",
                "T[1, 1]; kernel=[1]", "T[2, 4, 5]; kernel=[2, 3]",
                "T[1, 2, 4, 4]; kernel=[2, 2], stride=[1], padding=[1]",
                "T[1, 5, 4]; kernel=[3, 2], stride=[2, 3], padding=[1, 0], ceil_mode=true",
                "T[1, 1, 5, 5]; kernel=[2, 2], dilation=[2, 3], stride=[1, 1], padding=[1, 1]",
                "T[1, 1, 2, 4, 3]; kernel=[2, 2, 2], stride=[1, 2, 1]", "f32[1, 5] in 1..1; kernel=[3], stride=[1]",
                "f32[1, 4, 4] in 0..1; kernel=[3, 3], stride=[1]",
                "T[2, 2, 3]; kernel=[9, 7], padding=[2, 3], ceil_mode=true",
                "T[1, 4]; kernel=[6], dilation=[2], padding=[3], stride=[5], ceil_mode=true"},
};

// ---- averages -------------------------------------------------------------------------------------------------------

// The number of elements that PyTorch counts for each window along one dimension.
Value window_sizes(Builder& b, const Sliding& s, bool count_padding) {
  const Value start = b.iota(s.count) * static_cast<double>(s.stride) - static_cast<double>(s.padding);
  const Value padded_end =
      b.minimum(start + static_cast<double>(s.kernel), b.full(s.length + s.padding, {}, DType::kI64));
  if (count_padding) return padded_end - start;
  return b.minimum(padded_end, b.full(s.length, {}, DType::kI64)) - b.maximum(start, b.integer(0));
}

std::vector<Sliding> avg_pool_windows(const OpView& c) {
  static const std::vector<int64_t> dense = {1};
  return slide(c.type(0).shape, c.ints("kernel"), c.ints("stride"), c.ints("padding"), dense, c.flag("ceil_mode"));
}

// The divisors of the windows' sums: one number if all windows have the same count.
Value divisors(ExpandContext& e, const std::vector<Sliding>& sliding, DType dtype) {
  if (e.given("divisor_override")) return e.integer(e.integer("divisor_override"), dtype);
  const bool count_padding = e.flag("count_include_pad");
  const bool alike = count_padding && !e.flag("ceil_mode");
  Value product = e.integer(1, dtype);
  for (const Sliding& s : sliding) {
    const Value sizes = alike ? e.integer(s.kernel) : along(e, window_sizes(e, s, count_padding), s.dim, e.in().rank());
    product = product * e.cast(sizes, dtype);
  }
  return product;
}

const OpDef kAvgPool{
    .name = "avg_pool",
    .family = "pooling",
    .doc =
        "The average of each window, of integers rounded towards 0. The spatial dimensions are the last ones, as many "
        "as the kernel has sizes.",
    .operands = std::vector<OperandDef>{{"x", kFloats | DType::kI64}},
    .attrs = {kPoolKernel,
              kPoolStride,
              kPoolPadding,
              kCeilMode,
              {"count_include_pad", AttrKind::kBool, "padding counts as zeros", Attr(true)},
              {"divisor_override", AttrKind::kInt, "divide by this, not by the number of elements", Attr(None{})}},
    .infer = [](InferContext& c) -> Types {
      const std::vector<Sliding> sliding = avg_pool_windows(c);
      check_padding(sliding);
      if (c.given("divisor_override") && c.integer("divisor_override") == 0) fail("divisor_override must not be 0");
      return {{c.type(0).dtype, slid_shape(c.type(0).shape, sliding)}};
    },
    .semantics = composite([](ExpandContext& e) {
      const std::vector<Sliding> sliding = avg_pool_windows(e);
      const Value sums = e.sum(unfold_spatial(e, e.in_wide(), trimmed(sliding), 0.0), last_dims(sliding.size()));
      const std::string_view divide = is_float(sums.dtype()) ? "div" : "trunc_div";
      return e.cast(e.op(divide, {sums, divisors(e, sliding, sums.dtype())}), e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.avg_pool1d(x, kernel, stride or kernel, padding, ceil_mode, count_include_pad) if len(kernel) "
                     "== 1 else [F.avg_pool2d, F.avg_pool3d][len(kernel) - 2]("
                     "x, kernel, stride or kernel, padding, ceil_mode, count_include_pad, divisor_override)"),
    .samples =
        Samples{"T[2, 6]; kernel=[2]", "T[1, 2, 5]; kernel=[3], stride=[1], padding=[1]",
                "T[1, 2, 5]; kernel=[3], stride=[1], padding=[1], count_include_pad=false",
                "T[2, 7]; kernel=[2], stride=[3], ceil_mode=true", "T[0, 2, 4]; kernel=[2]", "T[1, 1]; kernel=[1]",
                "T[1, 6]; kernel=[3], stride=[4], padding=[1], ceil_mode=true", "T[1, 4, 5]; kernel=[2, 3]",
                "T[1, 2, 4, 3]; kernel=[2, 2], stride=[1], padding=[1], divisor_override=3",
                "T[1, 5, 4]; kernel=[3, 2], stride=[2, 3], padding=[1, 0], ceil_mode=true, count_include_pad=false",
                "T[1, 5, 4]; kernel=[3, 2], stride=[2, 3], padding=[1, 1], ceil_mode=true",
                "T[1, 1, 3, 4, 3]; kernel=[2, 2, 2], stride=[1, 2, 1], padding=[1]",
                "T[2, 2, 3]; kernel=[9, 7], padding=[2, 3], ceil_mode=true",
                "T[2, 3]; kernel=[7], ceil_mode=true, count_include_pad=false"},
};

// ---- adaptive pools -------------------------------------------------------------------------------------------------

const AttrDef kOutputSize = {"output_size", AttrKind::kExprs, "one for each spatial dimension"};

Types adaptive_types(InferContext& c, const std::vector<DType>& dtypes) {
  const Shape shape = shape_of_output_size(c);
  Types types;
  for (DType dtype : dtypes) types.push_back({dtype, shape});
  return types;
}

// The bins of one dimension: bin i of n has the elements from floor(i*length/n) to ceil((i+1)*length/n). They overlap,
// and differ in size, unless n divides the length.
struct Bins {
  Expr length;
  Expr count;

  bool divide_evenly() const { return mod(length, count).is_constant(0); }
  Expr largest() const { return divide_evenly() ? floordiv(length, count) : ceildiv(length, count) + 1; }
  Value starts(Builder& b) const { return b.op("floor_div", {b.iota(count) * size(b, length), size(b, count)}); }
  Value ends(Builder& b) const {
    return b.op("floor_div", {(b.iota(count) + 1) * size(b, length) + size(b, count - 1), size(b, count)});
  }
  Value sizes(Builder& b) const { return ends(b) - starts(b); }

 private:
  static Value size(Builder& b, const Expr& number) { return b.full(number, {}, DType::kI64); }
};

std::vector<Bins> bins_of(const OpView& c) {
  const auto counts = c.exprs("output_size");
  std::vector<Bins> bins;
  for (size_t i = 0; i < counts.size(); ++i) {
    bins.push_back({c.type(0).shape[c.type(0).shape.size() - counts.size() + i], counts[i]});
  }
  return bins;
}

// Moves the elements of each bin of dimension `dim` to a last dimension, filled up to the largest bin.
Value unfold_bins(Builder& b, Value x, int64_t dim, const Bins& bins, Attr fill) {
  const Expr largest = bins.largest();
  Value kept;
  if (!bins.divide_evenly()) {
    const Value positions = b.unsqueeze(bins.starts(b), 1) + b.iota(largest);
    const Value last = b.full(bins.length - 1, {}, DType::kI64);
    kept = b.compare("lt", positions, b.unsqueeze(bins.ends(b), 1));
    x = b.op("index_select", {x, b.reshape(b.minimum(positions, last), {bins.count * largest})}, {{"dim", dim}});
  }
  Shape split = x.shape();
  split[static_cast<size_t>(dim)] = bins.count;
  split.insert(split.begin() + dim + 1, largest);
  std::vector<int64_t> order = dims_between(0, std::ssize(split));
  std::rotate(order.begin() + dim + 1, order.begin() + dim + 2, order.end());
  const Value unfolded = b.permute(b.reshape(x, split), order);
  if (!kept) return unfolded;
  Shape aligned(split.size(), 1);
  aligned[static_cast<size_t>(dim)] = bins.count;
  aligned.back() = largest;
  return b.where(b.reshape(kept, aligned), unfolded, b.full(std::move(fill), {}, x.dtype()));
}

Value unfold_all_bins(Builder& b, Value x, const std::vector<Bins>& bins, const Attr& fill) {
  const int64_t first = x.rank() - std::ssize(bins);
  for (size_t i = 0; i < bins.size(); ++i) x = unfold_bins(b, x, first + static_cast<int64_t>(i), bins[i], fill);
  return x;
}

const OpDef kAdaptiveAvgPool{
    .name = "adaptive_avg_pool",
    .family = "pooling",
    .doc = "The average of each of `output_size` bins that cover the spatial dimensions. These are the last ones.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {kOutputSize},
    .infer = [](InferContext& c) -> Types { return adaptive_types(c, {c.type(0).dtype}); },
    .semantics = composite([](ExpandContext& e) {
      const std::vector<Bins> bins = bins_of(e);
      Value result = e.sum(unfold_all_bins(e, e.in_wide(), bins, 0.0), last_dims(bins.size()));
      for (size_t i = 0; i < bins.size(); ++i) {
        const int64_t dim = result.rank() - std::ssize(bins) + static_cast<int64_t>(i);
        const Value sizes = bins[i].divide_evenly() ? e.full(bins[i].largest(), {}, result.dtype())
                                                    : along(e, bins[i].sizes(e), dim, result.rank());
        result = result / e.cast(sizes, result.dtype());
      }
      return e.cast(result, e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is(
        "[F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d][len(output_size) - 1](x, output_size)"),
    .samples = Samples{"T[2, 6]; output_size=[3]", "T[1, 2, 5]; output_size=[3]", "T[2, 3]; output_size=[5]",
                       "T[1, 4]; output_size=[1]", "T[0, 2, 5]; output_size=[2]", "T[1, 1]; output_size=[1]",
                       "T[2, 4, 5]; output_size=[2, 3]", "T[1, 2, 3, 4]; output_size=[1, 1]",
                       "T[1, 5, 3]; output_size=[3, 4]", "T[1, 1, 2, 3, 5]; output_size=[1, 2, 3]"},
};

const OpDef kAdaptiveMaxPool{
    .name = "adaptive_max_pool",
    .family = "pooling",
    .doc = "The maximum of each of `output_size` bins that cover the spatial dimensions, and its flat index in them.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {kOutputSize},
    .results = {"values", "indices"},
    .infer = [](InferContext& c) -> Types { return adaptive_types(c, {c.type(0).dtype, DType::kI64}); },
    // The values are gathered by their indices, which is how the gradient finds the way back.
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      const std::vector<Bins> bins = bins_of(e);
      const Shape& shape = e.in().shape();
      const Expr count = spatial_count(shape, bins.size());
      const Value elements = unfold_all_bins(e, e.in(), bins, lowest(e.in().dtype()));
      const Value indices = unfold_all_bins(e, flat_indices(e, shape, bins.size()), bins, Expr(-1));
      const Value index = max_and_index(e, elements, indices, count, bins.size())[1];
      Shape flat(shape.begin(), shape.end() - std::ssize(bins));
      flat.push_back(count);
      Shape flat_index = flat;
      flat_index.back() = spatial_count(index.shape(), bins.size());
      const Value values =
          e.op("gather", {e.reshape(e.in(), flat), e.reshape(index, flat_index)}, {{"dim", int64_t{-1}}});
      return {e.reshape(values, index.shape()), index};
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("[F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d][len(output_size) - 1]("
                     "x, output_size, return_indices=True)"),
    .samples =
        Samples{"T[2, 6]; output_size=[3]", "T[1, 2, 5]; output_size=[3]", "T[2, 3]; output_size=[5]",
                "T[0, 2, 5]; output_size=[2]", "T[2, 4, 5]; output_size=[2, 3]", "T[1, 2, 3, 4]; output_size=[1, 1]",
                "T[1, 1, 2, 3, 5]; output_size=[1, 2, 3]", "f32[1, 7] in 1..1; output_size=[3]"},
};

}  // namespace

OpRefs pooling_ops() { return {&kMaxPool, &kAvgPool, &kAdaptiveAvgPool, &kAdaptiveMaxPool}; }

}  // namespace tenon::ops
