// What a tile machine runs as a whole: a contraction or a convolution with its epilogue.
#include "ops/common.h"
#include "support/checked.h"

namespace tenon::ops {
namespace {

enum Operand : uint8_t { kX, kWeights, kVectors, kResidual };
enum Image : uint8_t { kBatch, kHeight, kWidth, kChannels };

int64_t elements_of(const TensorType& type) {
  int64_t count = 1;
  for (const Expr& size : type.shape) {
    if (!size.is_constant()) fail("a tile machine needs sizes that are known, got {}", to_string(type));
    count = checked_mul(count, size.constant());
  }
  return count;
}

std::span<const int64_t> numbers(const OpView& c, std::string_view name, size_t count) {
  const std::span<const int64_t> all = c.ints(name);
  if (all.size() != count) fail("{} must have {} numbers, got {}", name, count, all.size());
  for (int64_t number : all) {
    if (number < (name == "padding" ? 0 : 1)) fail("{} has a number that is too small, {}", name, number);
  }
  return all;
}

int64_t positions(const OpView& c, size_t dim) {
  const int64_t reach = checked_mul(c.ints("dilation")[dim], c.ints("kernel")[dim] - 1) + 1;
  const int64_t padded = checked_add(c.ints("image")[kHeight + dim], checked_mul(2, c.ints("padding")[dim]));
  if (padded < reach) fail("a window of {} does not fit an image of {} with its padding", reach, padded);
  return (padded - reach) / c.ints("stride")[dim] + 1;
}

void check_elements(const OpView& c, size_t operand, int64_t wanted) {
  if (elements_of(c.type(operand)) != wanted)
    fail("{} must have {} elements, got {}", c.op().operands.get()[operand].name, wanted, to_string(c.type(operand)));
}

void check_weights(const OpView& c) {
  const TensorType& weights = c.type(kWeights);
  const std::span<const int64_t> image = c.ints("image"), kernel = c.ints("kernel");
  if (!c.flag("packed")) {
    if (kernel[0] != 1 || kernel[1] != 1 || c.integer("groups") != 1)
      fail("weights of a window or of groups must be packed");
    return check_elements(c, kWeights, checked_mul(checked_mul(image[kBatch], image[kChannels]), c.integer("outputs")));
  }
  const int64_t groups = c.integer("groups");
  if (groups < 1 || image[kChannels] % groups != 0 || c.integer("outputs") % groups != 0)
    fail("{} channels and {} outputs are not {} groups", image[kChannels], c.integer("outputs"), groups);
  if (weights.rank() != 6) fail("packed weights have 6 dimensions, got {}", to_string(weights));
  elements_of(weights);
  const auto size = [&](int64_t dim) { return weights.size(dim).constant(); };
  const bool has_runs = c.flag("runs");
  if (has_runs && (groups != 1 || c.ints("padding")[0] != 0 || c.ints("padding")[1] != 0 || c.ints("dilation")[1] != 1))
    fail("a window whose rows are runs has neither groups nor padding nor dilation in its rows");
  const int64_t width = has_runs ? 1 : kernel[1], run = has_runs ? kernel[1] : 1;
  const bool are_groups = size(0) % groups == 0 && size(0) / groups * size(5) >= c.integer("outputs") / groups &&
                          size(1) * size(4) >= run * image[kChannels] / groups;
  if (!are_groups || size(2) != kernel[0] || size(3) != width)
    fail("weights {} do not fit {} channels, {} outputs, {} groups and a window of {} x {}", to_string(weights),
         image[kChannels], c.integer("outputs"), groups, kernel[0], kernel[1]);
}

Types tile_layer_type(InferContext& c) {
  const std::span<const int64_t> image = numbers(c, "image", 4);
  for (std::string_view name : {"kernel", "stride", "padding", "dilation"}) numbers(c, name, 2);
  if (c.integer("outputs") < 1) fail("outputs must be at least 1, got {}", c.integer("outputs"));
  check_elements(c, kX, checked_mul(checked_mul(image[0], image[1]), checked_mul(image[2], image[3])));
  check_weights(c);
  const int64_t rows = checked_mul(checked_mul(image[kBatch], positions(c, 0)), positions(c, 1));
  const int64_t results = checked_mul(rows, c.integer("outputs"));
  if (c.has(kVectors) && (c.type(kVectors).rank() != 3 || !c.type(kVectors).size(1).is_constant(2) ||
                          elements_of(c.type(kVectors)) < 2 * c.integer("outputs")))
    fail("vectors are [tiles, 2, columns], got {}", to_string(c.type(kVectors)));
  if (c.has(kResidual)) check_elements(c, kResidual, results);
  TensorType type{c.dtype("dtype"), {}};
  for (int64_t size : c.ints("shape")) type.shape.emplace_back(size);
  if (elements_of(type) != results) fail("the result has {} elements, and the shape is {}", results, to_string(type));
  return {std::move(type)};
}

// f32 for floats, i32 for bytes.
Value operand(ExpandContext& e, size_t which) {
  return is_integral(e.in(which).dtype()) ? e.cast(e.in(which), DType::kI32) : e.in_wide(which);
}

// [tiles, k tiles, height, width, k, n] as a convolution has them.
Value unpacked(ExpandContext& e) {
  const Value tiles = e.permute(operand(e, kWeights), {0, 5, 1, 4, 2, 3});
  const Shape& s = tiles.shape();
  const Expr groups = e.integer("groups"), channels = floordiv(e.ints("image")[kChannels], groups);
  const Value whole = e.reshape(tiles, {groups, floordiv(s[0], groups) * s[1], s[2] * s[3], s[4], s[5]});
  const int64_t run = e.flag("runs") ? e.ints("kernel")[1] : 1;
  const Value own = e.slice(e.slice(whole, 1, 0, floordiv(e.integer("outputs"), groups)), 2, 0, run * channels);
  if (run > 1) return e.permute(e.reshape(own, {e.integer("outputs"), run, channels, s[4]}), {0, 2, 3, 1});
  return e.reshape(own, {e.integer("outputs"), channels, s[4], s[5]});
}

// Rows of channels: [batch, rows, outputs].
Value product(ExpandContext& e) {
  const std::span<const int64_t> image = e.ints("image");
  const Expr batch = image[kBatch], channels = image[kChannels], outputs = e.integer("outputs");
  if (!e.flag("packed")) {
    const bool transposed = e.flag("transposed");
    const Value x = e.reshape(operand(e, kX), {batch, image[kHeight] * image[kWidth], channels});
    const Shape shape = transposed ? Shape{batch, outputs, channels} : Shape{batch, channels, outputs};
    return e.contract(x, e.reshape(operand(e, kWeights), shape), transposed ? "bik,bjk->bij" : "bik,bkj->bij");
  }
  const Value x = e.reshape(operand(e, kX), {batch, image[kHeight], image[kWidth], channels});
  const auto ints = [&](std::string_view name) { return std::vector(e.ints(name).begin(), e.ints(name).end()); };
  const Expr above = e.ints("padding")[0], left = e.ints("padding")[1];
  const Value padded = e.pad(e.permute(x, {0, 3, 1, 2}), {0, 0, above, left}, {0, 0, above, left},
                             static_cast<double>(e.integer("pad")));
  const Value y = e.op("conv", {padded, unpacked(e), Value()},
                       {{"stride", ints("stride")}, {"dilation", ints("dilation")}, {"groups", e.integer("groups")}});
  return e.reshape(e.permute(y, {0, 2, 3, 1}), {batch, y.size(2) * y.size(3), outputs});
}

Value residual(ExpandContext& e, DType dtype) {
  const Value r = e.cast(e.in_wide(kResidual), dtype);
  const auto zero = static_cast<double>(e.integer("residual_zero_point"));
  return (r - e.scalar(zero, dtype)) * e.scalar(e.real("residual_scale"), dtype);
}

Value expand_tile_layer(ExpandContext& e) {
  Value y = product(e);
  if (e.has(kVectors)) {
    const Value vectors = e.in_wide(kVectors);
    const auto vector = [&](int64_t which) {
      const int64_t groups = e.integer("groups"), own = e.integer("outputs") / groups;
      const Value all = e.reshape(e.slice(vectors, 1, which, which + 1),
                                  {groups, floordiv(vectors.size(0), groups) * vectors.size(2)});
      return e.reshape(e.slice(all, 1, 0, own), {groups * own});
    };
    const bool counts = is_integral(y.dtype());
    const Value bias = counts ? e.op("bitcast", {vector(0)}, {{"dtype", DType::kI32}}) : vector(0);
    y = e.cast(y + bias, DType::kF32) * vector(1);
  }
  if (is_integral(y.dtype()) && e.dtype("dtype") != DType::kI32) y = e.cast(y, DType::kF32);
  if (e.has(kResidual)) y = y + e.reshape(residual(e, y.dtype()), y.shape());
  if (e.given("low")) y = e.maximum(y, e.scalar(e.real("low"), y.dtype()));
  if (e.given("high")) y = e.minimum(y, e.scalar(e.real("high"), y.dtype()));
  if (e.dtype("dtype") == DType::kI8) {
    const Value shifted = e.unary("rint", y) + static_cast<double>(e.integer("zero_point"));
    y = e.op("clamp", {shifted, e.scalar(-128, DType::kF32), e.scalar(127, DType::kF32)});
  }
  Shape shape;
  for (int64_t size : e.ints("shape")) shape.emplace_back(size);
  return e.reshape(e.cast(y, e.dtype("dtype")), shape);
}

const std::vector<int64_t> kOnes{1, 1};

const OpDef kTileLayer{
    .name = "tile_layer",
    .family = "tiles",
    .doc =
        "A layer of a tile machine: a convolution of `x` [batch, height, width, channels] with a window of weights, or "
        "a product of matrices. Vectors [tiles, 2, columns] have a bias and a scale for each output: (sum + bias) * "
        "scale; then (residual - residual_zero_point) * residual_scale is added, and the result is cut off at `low` "
        "and `high` and rounded once. Bytes are "
        "summed in i32, with biases that are bits of i32; a result in i8 is rounded, then `zero_point` is added. "
        "Packed weights are [tiles, channel tiles, height, width, k, n]; others are [batch, channels, outputs]. "
        "Operands and "
        "the result are row-major, in any shape. Compilation makes such nodes for devices that are tile machines.",
    .operands = std::vector<OperandDef>{{"x", kNumbers},
                                        {"weights", kNumbers},
                                        {"vectors", DTypeSet(DType::kF32), Arity::kOptional},
                                        {"residual", kNumbers, Arity::kOptional}},
    .attrs = {{"image", AttrKind::kInts, "batch, height, width and channels of x"},
              {"outputs", AttrKind::kInt, "the channels of the result"},
              {"shape", AttrKind::kInts, "of the result"},
              {"dtype", AttrKind::kDType, "of the result"},
              {"kernel", AttrKind::kInts, "height and width of the window", Attr(kOnes)},
              {"stride", AttrKind::kInts, "the step of the window", Attr(kOnes)},
              {"padding", AttrKind::kInts, "zeros on both sides of the image", Attr(std::vector<int64_t>{0, 0})},
              {"dilation", AttrKind::kInts, "the step inside the window", Attr(kOnes)},
              {"packed", AttrKind::kBool, "weights are tiles, the same ones for each image", Attr(true)},
              {"transposed", AttrKind::kBool, "weights that are not packed are [batch, outputs, channels]",
               Attr(false)},
              {"groups", AttrKind::kInt, "channels and outputs that belong together, with tiles of their own",
               Attr(int64_t{1})},
              {"runs", AttrKind::kBool,
               "the channels of a row of the window count as those of one pixel, in the weights", Attr(false)},
              {"pad", AttrKind::kInt, "what padding consists of, instead of zeros", Attr(int64_t{0})},
              {"zero_point", AttrKind::kInt, "of a result in i8", Attr(int64_t{0})},
              {"residual_scale", AttrKind::kReal, "what the residual is multiplied by", Attr(1.0)},
              {"residual_zero_point", AttrKind::kInt, "what is subtracted from the residual before", Attr(int64_t{0})},
              {"low", AttrKind::kReal, "the least result; none: any", Attr(None{})},
              {"high", AttrKind::kReal, "the greatest result; none: any", Attr(None{})}},
    .infer = tile_layer_type,
    .semantics = composite(expand_tile_layer),
    .gradient = NotDifferentiable{},
    .cost = Cost::kProduct,
    .peer = no_peer("it is a step of a machine"),
    .samples =
        Samples{"bf16[5, 6], bf16[2, 2, 1, 1, 4, 4], f32[2, 2, 4], none; image=[1, 5, 1, 6], outputs=7, shape=[5, 7], "
                "dtype=bf16, low=0.0",
                "bf16[2, 4, 5, 3], bf16[1, 1, 3, 3, 4, 8], none, bf16[2, 2, 3, 5]; image=[2, 4, 5, 3], outputs=5, "
                "shape=[2, 2, 3, 5], dtype=bf16, kernel=[3, 3], stride=[2, 2], padding=[1, 1], low=0.0, high=6.0",
                "bf16[2, 3, 4], bf16[2, 4, 5], none, none; image=[2, 3, 1, 4], outputs=5, shape=[2, 3, 5], dtype=f32, "
                "packed=false",
                "i8[1, 3, 3, 5], i8[1, 2, 3, 3, 4, 8], f32[1, 2, 8], none; image=[1, 3, 3, 5], outputs=6, "
                "shape=[1, 3, 3, 6], dtype=i8, kernel=[3, 3], padding=[1, 1], pad=3, zero_point=-7, low=0.0",
                "bf16[1, 3, 4, 10], bf16[4, 2, 1, 3, 4, 4], f32[4, 2, 4], none; image=[1, 3, 4, 10], outputs=12, "
                "shape=[1, 3, 2, 12], dtype=bf16, kernel=[1, 3], groups=2",
                "bf16[1, 5, 7, 3], bf16[2, 3, 2, 1, 4, 4], f32[2, 2, 4], none; image=[1, 5, 7, 3], outputs=6, "
                "shape=[1, 4, 3, 6], dtype=bf16, kernel=[2, 3], stride=[1, 2], runs=true",
                "i8[1, 3, 3, 5], i8[1, 2, 1, 1, 4, 8], f32[1, 2, 8], i8[9, 6]; image=[1, 9, 1, 5], outputs=6, "
                "shape=[1, 3, 3, 6], dtype=i8, zero_point=-7, residual_scale=0.75, residual_zero_point=-3, high=90.5",
                "i8[2, 3, 4], i8[2, 4, 5], none, none; image=[2, 3, 1, 4], outputs=5, shape=[2, 3, 5], dtype=i32, "
                "packed=false",
                "f32[2, 3, 4], f32[2, 5, 4], none, none; image=[2, 3, 1, 4], outputs=5, shape=[2, 3, 5], dtype=f32, "
                "packed=false, transposed=true"},
    .special_values = false,
};

}  // namespace

OpRefs tile_ops() { return {&kTileLayer}; }

}  // namespace tenon::ops
