// Resampling: values between the elements of a grid.
#include <cmath>

#include "ops/common.h"
#include "ops/spatial.h"

namespace tenon::ops {
namespace {

Value number(Builder& b, const Expr& value, DType dtype) { return b.full(value, {}, dtype); }

Value clamp_index(Builder& b, Value index, const Expr& size) {
  return b.minimum(b.maximum(index, b.integer(0)), number(b, size - 1, DType::kI64));
}

// ---- interpolation weights ------------------------------------------------------------------------------------------

// One of the elements that an interpolated value is made of. No weight means 1.
struct Tap {
  Value position;  // of the element
  Value weight;
};

// The weights of the four elements around a position, `t` past the second: cubic convolution with a = -0.75.
std::vector<Value> cubic_weights(Value t) {
  constexpr double a = -0.75;
  const auto near = [](Value x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](Value x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

// ---- upsampling: one dimension after the other ----------------------------------------------------------------------

const AttrDef kOutputSize = {"output_size", AttrKind::kExprs, "one for each spatial dimension"};
const AttrDef kScales = {"scales", AttrKind::kReals, "result size / size for each, where it is not exactly that",
                         Attr(None{})};
const AttrDef kAlignCorners = {"align_corners", AttrKind::kBool, "the centers of the corners coincide, not their edges",
                               Attr(false)};

Types upsampled(InferContext& c) {
  const auto sizes = c.exprs("output_size");
  if (c.given("scales")) {
    if (c.reals("scales").size() != sizes.size()) {
      fail("output_size and scales have {} and {} numbers", sizes.size(), c.reals("scales").size());
    }
    for (double scale : c.reals("scales")) {
      if (!(scale > 0)) fail("scales must be positive, got {}", scale);
    }
  }
  return {{c.type(0).dtype, shape_of_output_size(c)}};
}

// One dimension that is resampled.
struct Resize {
  Expr size;
  Expr result;
  std::optional<double> scale;
  bool copies_same_size;  // whatever the scale; symbolic sizes may turn out to be the same

  // The distance of two results in x.
  Value step(Builder& b, DType dtype) const {
    if (!scale) return number(b, size, dtype) / number(b, result, dtype);
    const Value given = b.scalar(1 / *scale, dtype);
    if (!copies_same_size) return given;
    return b.where(number(b, eq(size, result), DType::kBool), b.scalar(1, dtype), given);
  }

  // Where the results lie in x.
  Value positions(Builder& b, bool align_corners, DType dtype) const {
    const Value i = b.iota(result, dtype);
    if (align_corners) return i * (number(b, size - 1, dtype) / number(b, max(result - 1, 1), dtype));
    return (i + 0.5) * step(b, dtype) - 0.5;
  }
};

std::vector<Tap> nearest_taps(Builder& b, const Resize& r) {
  return {{b.cast(b.iota(r.result, DType::kF32) * r.step(b, DType::kF32), DType::kI64), {}}};
}

std::vector<Tap> linear_taps(Builder& b, const Resize& r, bool align_corners, DType dtype) {
  const Value position = b.maximum(r.positions(b, align_corners, dtype), b.scalar(0, dtype));
  const Value low = b.cast(position, DType::kI64);
  const Value past = position - b.cast(low, dtype);
  return {{low, 1 - past}, {low + 1, past}};
}

std::vector<Tap> cubic_taps(Builder& b, const Resize& r, bool align_corners, DType dtype) {
  const Value position = r.positions(b, align_corners, dtype);
  const Value low = b.unary("floor", position);
  const Value index = b.cast(low, DType::kI64);
  const std::vector<Value> weights = cubic_weights(position - low);
  return {{index - 1, weights[0]}, {index, weights[1]}, {index + 1, weights[2]}, {index + 2, weights[3]}};
}

// The weighted sum of the taps along a dimension. Positions outside stand for the nearest element.
Value interpolate(Builder& b, Value x, int64_t dim, const std::vector<Tap>& taps) {
  Value sum;
  for (const Tap& tap : taps) {
    Value part = b.op("index_select", {x, clamp_index(b, tap.position, x.size(dim))}, {{"dim", dim}});
    if (tap.weight) part = part * along(b, tap.weight, dim, x.rank());
    sum = sum ? sum + part : part;
  }
  return sum;
}

// Resamples the last dimensions of x, with taps(Resize) for each. Except for cubic interpolation, PyTorch copies a
// dimension that keeps its size whatever its scale. (Its one-dimensional nearest kernel does not; that one is alone.)
template <class Taps>
Value upsample(ExpandContext& e, Value x, bool copies_same_size, Taps taps) {
  const auto sizes = e.exprs("output_size");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t dim = x.rank() - std::ssize(sizes) + static_cast<int64_t>(i);
    Resize resize{x.size(dim), sizes[i], {}, copies_same_size};
    if (e.given("scales")) resize.scale = e.reals("scales")[i];
    if (x.size(dim) == sizes[i] && (copies_same_size || !resize.scale)) continue;
    x = interpolate(e, x, dim, taps(resize));
  }
  return x;
}

// An upsampling that computes wide, and rounds once.
Semantics interpolating(std::vector<Tap> (*taps_of)(Builder&, const Resize&, bool, DType), bool copies_same_size) {
  return composite([=](ExpandContext& e) {
    const Value x = e.in_wide();
    const auto taps = [&](const Resize& r) { return taps_of(e, r, e.flag("align_corners"), x.dtype()); };
    return e.cast(upsample(e, x, copies_same_size, taps), e.in().dtype());
  });
}

// Upsampling by a whole factor, by a fraction, and a reduction.
Samples upsample_samples(const std::string& more) {
  const Samples common = {"T[1, 2, 3]; output_size=[6]{}",
                          "T[1, 1, 5]; output_size=[3]{}",
                          "T[1, 1, 4]; output_size=[1]{}",
                          "T[2, 1, 1]; output_size=[3]{}",
                          "T[0, 2, 3]; output_size=[4]{}",
                          "T[1, 1, 5]; output_size=[7], scales=[1.5]{}",
                          "T[1, 2, 3, 2]; output_size=[4, 5]{}",
                          "T[1, 1, 2, 3]; output_size=[5, 3], scales=[2.5, 1.3]{}",
                          "T[1, 1, 2, 2, 2]; output_size=[3, 2, 4]{}"};
  Samples samples;
  for (std::string line : common) samples.push_back(line.replace(line.find("{}"), 2, more));
  return samples;
}

const OpDef kUpsampleNearest{
    .name = "upsample_nearest",
    .family = "resample",
    .doc = "Resizes the last one to three dimensions; each result is the element at floor(i * size / result size).",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kOutputSize, kScales},
    .infer = upsampled,
    .semantics = composite([](ExpandContext& e) {
      return upsample(e, e.in(), true, [&](const Resize& r) { return nearest_taps(e, r); });
    }),
    .gradient = ByExpansion{},
    .peer = torch_is(
        "[torch.ops.aten.upsample_nearest1d, torch.ops.aten.upsample_nearest2d, torch.ops.aten.upsample_nearest3d]"
        "[len(output_size) - 1].default(x, output_size, *(scales or []))"),
    .samples = upsample_samples(""),
    .special_values = false,  // PyTorch lacks most integers, and no float holds their extremes,
};

const OpDef kUpsampleLinear{
    .name = "upsample_linear",
    .family = "resample",
    .doc = "Resizes the last one to three dimensions by linear interpolation: linear, bilinear, trilinear.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {kOutputSize, kScales, kAlignCorners},
    .infer = upsampled,
    .semantics = interpolating(linear_taps, true),
    .gradient = ByExpansion{},
    .peer = torch_is(
        "[torch.ops.aten.upsample_linear1d, torch.ops.aten.upsample_bilinear2d, torch.ops.aten.upsample_trilinear3d]"
        "[len(output_size) - 1].default(x, output_size, align_corners, *(scales or []))"),
    .samples = upsample_samples("") + upsample_samples(", align_corners=true"),
    // PyTorch multiplies the neighbours of an infinity by a weight of 0 also where a size stays the same.
    .special_values = false,
};

const OpDef kUpsampleBicubic{
    .name = "upsample_bicubic",
    .family = "resample",
    .doc = "Resizes the last two dimensions by cubic convolution with a = -0.75.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {kOutputSize, kScales, kAlignCorners},
    .infer = [](InferContext& c) -> Types {
      if (c.exprs("output_size").size() != 2) {
        fail("output_size must have two sizes, got {}", c.exprs("output_size").size());
      }
      return upsampled(c);
    },
    .semantics = interpolating(cubic_taps, false),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.ops.aten.upsample_bicubic2d.default(x, output_size, align_corners, *(scales or []))"),
    .samples = Samples{"T[1, 2, 3, 2]; output_size=[4, 5]", "T[1, 1, 5, 4]; output_size=[2, 3], align_corners=true",
                       "T[1, 1, 4, 3]; output_size=[6, 7], scales=[1.5, 2.5]", "T[1, 1, 1, 3]; output_size=[2, 3]",
                       "T[1, 1, 3, 3]; output_size=[4, 3], scales=[1.4, 1.2]",
                       "T[1, 1, 3, 3]; output_size=[1, 1], align_corners=true", "T[0, 1, 2, 2]; output_size=[3, 3]"},
    .special_values = false,  // as upsample_linear,
};

// ---- grid_sample ----------------------------------------------------------------------------------------------------

// The coordinates of a grid along one dimension, and the rules to read there.
struct Sampling {
  Value grid;  // -1 and 1 are the ends of the dimension
  Expr size;
  std::string padding;
  bool align_corners;

  Value position(Builder& b) const {
    const DType dtype = grid.dtype();
    if (align_corners) return (grid + 1) / 2 * number(b, size - 1, dtype);
    return ((grid + 1) * number(b, size, dtype) - 1) / 2;
  }

  // Brings a position inside, where the padding does that.
  Value inside(Builder& b, Value position) const {
    if (padding == "zeros") return position;
    const DType dtype = grid.dtype();
    if (padding == "reflection") position = reflected(b, position);
    return b.minimum(b.maximum(position, b.scalar(0, dtype)), number(b, size - 1, dtype));
  }

 private:
  // A triangle wave between the centers of the outer elements, or between their edges.
  Value reflected(Builder& b, Value position) const {
    const DType dtype = grid.dtype();
    const double low = align_corners ? 0 : -0.5;
    const Expr span = align_corners ? size - 1 : size;
    const Value distance = b.abs(position - low);
    const Value phase =
        b.op("remainder", {distance, number(b, max(2 * span, 1), dtype)});  // one element alone has no span
    return number(b, span, dtype) - b.abs(phase - number(b, span, dtype)) + low;
  }
};

std::vector<Tap> taps_of(Builder& b, const Sampling& s, const std::string& mode) {
  if (mode == "nearest") return {{b.unary("rint", s.inside(b, s.position(b))), {}}};
  if (mode == "bilinear") {
    const Value position = s.inside(b, s.position(b));
    const Value low = b.unary("floor", position);
    return {{low, 1 - (position - low)}, {low + 1, position - low}};
  }
  const Value position = s.position(b);
  const Value low = b.unary("floor", position);
  const std::vector<Value> weights = cubic_weights(position - low);
  std::vector<Tap> taps;
  for (size_t i = 0; i < weights.size(); ++i)
    taps.push_back({s.inside(b, low + (static_cast<double>(i) - 1)), weights[i]});
  return taps;
}

Value is_within(Builder& b, Value position, const Expr& size) {
  return b.op("logical_and",
              {b.compare("ge", position, 0), b.compare("lt", position, number(b, size, position.dtype()))});
}

// One tap for each spatial dimension.
using Corner = std::vector<Tap>;

// The elements of x [N, C, spatial...] at positions [N, points...]; zero outside.
Value elements_at(Builder& b, Value x, const Corner& corner) {
  Value index, known;
  for (size_t i = 0; i < corner.size(); ++i) {
    const Expr& size = x.shape()[i + 2];
    const Value at = clamp_index(b, b.cast(corner[i].position, DType::kI64), size);
    const Value within = is_within(b, corner[i].position, size);
    index = index ? index * number(b, size, DType::kI64) + at : at;
    known = known ? b.op("logical_and", {known, within}) : within;
  }
  const Expr count = element_count(std::span(index.shape()).subspan(1));
  const Expr places = element_count(std::span(x.shape()).subspan(2));
  const Value spread = b.expand(b.reshape(index, {x.size(0), 1, count}), {x.size(0), x.size(1), count});
  const Value elements = b.op("gather", {b.reshape(x, {x.size(0), x.size(1), places}), spread}, {{"dim", int64_t{2}}});
  Shape shape = index.shape();
  shape.insert(shape.begin() + 1, x.size(1));
  return b.where(b.unsqueeze(known, 1), b.reshape(elements, shape), b.scalar(0, x.dtype()));
}

// All choices of one tap for each dimension; the last dimension changes first.
std::vector<Corner> corners_of(const std::vector<std::vector<Tap>>& taps) {
  std::vector<Corner> corners(1);
  for (const std::vector<Tap>& of_dim : taps) {
    std::vector<Corner> longer;
    for (const Corner& corner : corners) {
      for (const Tap& tap : of_dim) longer.emplace_back(corner).push_back(tap);
    }
    corners = std::move(longer);
  }
  return corners;
}

Value sample_grid(Builder& b, Value x, const std::vector<std::vector<Tap>>& taps) {
  Value sum;
  for (const Corner& corner : corners_of(taps)) {
    Value part = elements_at(b, x, corner), weight = corner[0].weight;
    for (size_t i = 1; weight && i < corner.size(); ++i) weight = weight * corner[i].weight;
    if (weight) part = part * b.unsqueeze(weight, 1);
    sum = sum ? sum + part : part;
  }
  return sum;
}

void check_choice(const OpView& c, std::string_view attr, std::initializer_list<std::string_view> choices) {
  std::string known;
  for (std::string_view choice : choices) {
    if (c.string(attr) == choice) return;
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  fail("{} \"{}\" is not one of {}", attr, c.string(attr), known);
}

Types grid_sampled(InferContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& grid = c.type(1);
  if (x.rank() != 4 && x.rank() != 5) fail("x must be [N, C, H, W] or [N, C, D, H, W], got {}", to_string(x));
  if (grid.rank() != x.rank() || !grid.shape.back().is_constant(x.rank() - 2)) {
    fail("the grid must be [N, points..., {}] for {}, got {}", x.rank() - 2, to_string(x), to_string(grid));
  }
  if (x.dtype != grid.dtype) fail("x and grid must have one dtype, got {} and {}", to_string(x), to_string(grid));
  if (!c.facts().equal(x.size(0), grid.size(0))) {
    fail("x {} and grid {} differ in batch size", to_string(x), to_string(grid));
  }
  if (element_count(std::span(x.shape).subspan(2)).is_constant(0)) {
    fail("cannot sample the empty dimensions of {}", to_string(x));
  }
  if (x.rank() == 5 && c.string("mode") == "bicubic") fail("volumes have no mode \"bicubic\"");
  check_choice(c, "mode", {"bilinear", "nearest", "bicubic"});
  check_choice(c, "padding", {"zeros", "border", "reflection"});
  Shape shape(grid.shape.begin(), grid.shape.end() - 1);
  shape.insert(shape.begin() + 1, x.size(1));
  return {{x.dtype, std::move(shape)}};
}

Value grid_coordinate(Builder& b, Value grid, int64_t which) {
  return b.squeeze(b.slice(grid, -1, which, which + 1), grid.rank() - 1);
}

const OpDef kGridSample{
    .name = "grid_sample",
    .family = "resample",
    .doc =
        "The values of images x [N, C, H, W] at the places of a grid [N, rows, columns, 2] of (x, y) coordinates, or "
        "of volumes [N, C, D, H, W] at the places of a grid [N, d, h, w, 3] of (x, y, z). -1 and 1 are the ends of a "
        "dimension.",
    .operands = std::vector<OperandDef>{{"x", kFloats}, {"grid", kFloats}},
    .attrs = {{"mode", AttrKind::kString, "bilinear, nearest or bicubic", Attr(std::string("bilinear"))},
              {"padding", AttrKind::kString, "what is outside: zeros, border or reflection",
               Attr(std::string("zeros"))},
              kAlignCorners},
    .infer = grid_sampled,
    .semantics = composite([](ExpandContext& e) {
      const Value x = e.in_wide(0);
      const int64_t rank = x.rank() - 2;
      std::vector<std::vector<Tap>> taps;
      for (int64_t dim = 0; dim < rank; ++dim) {  // the grid has the last dimension first
        const Value coordinate = grid_coordinate(e, e.in_wide(1), rank - 1 - dim);
        const Sampling s{coordinate, x.size(dim + 2), e.string("padding"), e.flag("align_corners")};
        taps.push_back(taps_of(e, s, e.string("mode")));
      }
      return e.cast(sample_grid(e, x, taps), e.in(0).dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.grid_sample(x, grid, mode, padding, align_corners)"),
    .samples =
        Samples{"T[1, 2, 3, 4], T[1, 2, 2, 2] in -1.4..1.4",
                "T[2, 1, 3, 2], T[2, 3, 1, 2] in -1.4..1.4; align_corners=true",
                "T[1, 1, 3, 4], T[1, 2, 3, 2] in -2.6..2.6; padding=\"border\"",
                "T[1, 1, 3, 4], T[1, 3, 3, 2] in -4.1..4.1; padding=\"reflection\"",
                "T[1, 1, 3, 4], T[1, 3, 3, 2] in -4.1..4.1; padding=\"reflection\", align_corners=true",
                "T[1, 1, 1, 1], T[1, 2, 1, 2] in -2..2; padding=\"reflection\", align_corners=true",
                "T[1, 2, 3, 4], T[1, 2, 3, 2] in -1.4..1.4; mode=\"nearest\"",
                "T[1, 2, 3, 4], T[1, 2, 3, 2] in -3..3; mode=\"nearest\", padding=\"reflection\"",
                "T[1, 1, 3, 4], T[1, 2, 3, 2] in -1.4..1.4; mode=\"bicubic\"",
                "T[1, 1, 3, 4], T[1, 2, 3, 2] in -3..3; mode=\"bicubic\", padding=\"reflection\", align_corners=true",
                "T[1, 1, 3, 4], T[1, 2, 3, 2] in -2..2; mode=\"bicubic\", padding=\"border\"",
                "T[0, 1, 2, 2], T[0, 1, 1, 2]", "T[1, 2, 2, 3, 2], T[1, 1, 2, 2, 3] in -1.4..1.4",
                "T[1, 1, 2, 2, 3], T[1, 2, 1, 2, 3] in -3..3; mode=\"nearest\", padding=\"reflection\""},
    // PyTorch's kernels differ for NaN and huge coordinates.
    .special_values = false,
};

// ---- pixel_shuffle --------------------------------------------------------------------------------------------------

int64_t checked_factor(const OpView& c) {
  if (c.integer("factor") < 1) fail("factor must be at least 1, got {}", c.integer("factor"));
  if (c.type(0).rank() < 3) fail("x must be [..., C, H, W], got {}", to_string(c.type(0)));
  return c.integer("factor");
}

// A size divided by a factor of it.
Expr divided(const Facts& facts, const Expr& size, int64_t factor) {
  const Expr quotient = floordiv(size, factor);
  if (!facts.equal(quotient * factor, size)) fail("size {} is no multiple of {}", size, factor);
  return quotient;
}

// [..., C, H, W] with the last three dimensions split into `parts`, in another order, and merged to `sizes`.
Value regrouped(ExpandContext& e, const Shape& parts, const std::vector<int64_t>& order, const Shape& sizes) {
  const Shape batch(e.in().shape().begin(), e.in().shape().end() - 3);
  Shape split = batch, shape = batch;
  split.insert(split.end(), parts.begin(), parts.end());
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  std::vector<int64_t> dims = dims_between(0, std::ssize(batch));
  for (int64_t dim : order) dims.push_back(std::ssize(batch) + dim);
  return e.reshape(e.permute(e.reshape(e.in(), split), dims), shape);
}

const AttrDef kFactor = {"factor", AttrKind::kInt, "how many pixels a side"};

const OpDef kPixelShuffle{
    .name = "pixel_shuffle",
    .family = "resample",
    .doc = "Turns channels into pixels: [..., C * factor^2, H, W] becomes [..., C, H * factor, W * factor].",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kFactor},
    .infer = [](InferContext& c) -> Types {
      const int64_t r = checked_factor(c);
      TensorType type = c.type(0);
      auto size = type.shape.end() - 3;
      size[0] = divided(c.facts(), size[0], checked_mul(r, r));
      size[1] *= r;
      size[2] *= r;
      return {std::move(type)};
    },
    .semantics = composite([](ExpandContext& e) {
      const Expr r = checked_factor(e);
      const auto size = e.in().shape().end() - 3;
      const Expr channels = floordiv(size[0], r * r);
      return regrouped(e, {channels, r, r, size[1], size[2]}, {0, 3, 1, 4, 2}, {channels, size[1] * r, size[2] * r});
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.pixel_shuffle(x, factor)"),
    .samples = Samples{"T[1, 4, 2, 3]; factor=2", "T[9, 1, 2]; factor=3", "T[2, 3, 1, 1]; factor=1"},
};

const OpDef kPixelUnshuffle{
    .name = "pixel_unshuffle",
    .family = "resample",
    .doc = "Turns pixels into channels: [..., C, H * factor, W * factor] becomes [..., C * factor^2, H, W].",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kFactor},
    .infer = [](InferContext& c) -> Types {
      const int64_t r = checked_factor(c);
      TensorType type = c.type(0);
      auto size = type.shape.end() - 3;
      size[0] *= checked_mul(r, r);
      size[1] = divided(c.facts(), size[1], r);
      size[2] = divided(c.facts(), size[2], r);
      return {std::move(type)};
    },
    .semantics = composite([](ExpandContext& e) {
      const Expr r = checked_factor(e);
      const auto size = e.in().shape().end() - 3;
      const Expr height = floordiv(size[1], r), width = floordiv(size[2], r);
      return regrouped(e, {size[0], height, r, width, r}, {0, 2, 4, 1, 3}, {size[0] * r * r, height, width});
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.pixel_unshuffle(x, factor)"),
    .samples = Samples{"T[1, 1, 4, 6]; factor=2", "T[1, 3, 6]; factor=3", "T[2, 3, 1, 1]; factor=1"},
};

}  // namespace

OpRefs resample_ops() {
  return {&kUpsampleNearest, &kUpsampleLinear, &kUpsampleBicubic, &kGridSample, &kPixelShuffle, &kPixelUnshuffle};
}

}  // namespace tenon::ops
