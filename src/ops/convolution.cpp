// Convolutions.
#include "loops/lower.h"
#include "ops/accumulate.h"
#include "ops/common.h"
#include "ops/spatial.h"

namespace tenon::ops {
namespace {

// The attributes, with one number for each spatial dimension.
struct Geometry {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  std::vector<Expr> output_padding;
  int64_t groups;
  bool transposed;

  size_t dimensions() const { return stride.size(); }
};

Geometry geometry_of(const OpView& c) {
  const auto dimensions = static_cast<size_t>(c.type(0).rank() - 2);
  return {.stride = per_dimension(c.ints("stride"), dimensions, "stride", 1),
          .padding = per_dimension(c.ints("padding"), dimensions, "padding", 0),
          .dilation = per_dimension(c.ints("dilation"), dimensions, "dilation", 1),
          .output_padding = per_dimension(c.exprs("output_padding"), dimensions, "output_padding", 0),
          .groups = c.integer("groups"),
          .transposed = c.flag("transposed")};
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

void check_operands(InferContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& weight = c.type(1);
  if (x.rank() < 3 || x.rank() > 5) {
    fail("x must be [N, C, spatial...] with one to three spatial dimensions, got {}", to_string(x));
  }
  if (weight.rank() != x.rank()) fail("x {} and weight {} must have the same rank", to_string(x), to_string(weight));
  for (const TensorType& type : c.present_types()) {
    if (type.dtype != x.dtype) fail("operands must have one dtype, got {} and {}", to_string(x), to_string(type));
  }
  if (c.integer("groups") < 1) fail("groups must be at least 1, got {}", c.integer("groups"));
  for (int64_t dim = 2; dim < weight.rank(); ++dim) {
    if (weight.size(dim).is_constant(0)) fail("the weight {} has an empty kernel", to_string(weight));
  }
}

// The result's channels. The weight is [out, in/groups, ...], or [in, out/groups, ...] of a transposed convolution.
Expr out_channels(InferContext& c) {
  const TensorType& weight = c.type(1);
  const int64_t groups = c.integer("groups");
  const bool transposed = c.flag("transposed");
  const Expr in = transposed ? weight.size(0) : weight.size(1) * groups;
  if (!c.facts().equal(c.type(0).size(1), in)) {
    fail("x {} has {} channels, but the weight {} with {} groups takes {}", to_string(c.type(0)), c.type(0).size(1),
         to_string(weight), groups, in);
  }
  if (!mod(weight.size(0), groups).is_constant(0)) {
    fail("{} channels do not divide into {} groups", weight.size(0), groups);
  }
  const Expr out = transposed ? weight.size(1) * groups : weight.size(0);
  if (c.has(2) && c.type(2).shape != Shape{out}) fail("the bias must be [{}], got {}", out, to_string(c.type(2)));
  return out;
}

Expr out_length(const Geometry& geometry, size_t i, const Expr& length, const Expr& kernel) {
  const Expr span = span_of(kernel, geometry.dilation[i]);
  const Expr padding = 2 * Expr(geometry.padding[i]);
  const Expr result = geometry.transposed
                          ? (length - 1) * geometry.stride[i] - padding + span + geometry.output_padding[i]
                          : window_count(length + padding, span, geometry.stride[i]);
  if (result.is_constant() && result.constant() < 1) {
    fail("spatial dimension {} of size {} with padding {} is too small for a kernel that spans {}", i, length,
         geometry.padding[i], span);
  }
  return result;
}

Types conv_type(InferContext& c) {
  check_operands(c);
  const Geometry geometry = geometry_of(c);
  Shape shape = {c.type(0).size(0), out_channels(c)};
  for (size_t i = 0; i < geometry.dimensions(); ++i) {
    shape.push_back(out_length(geometry, i, c.type(0).shape[i + 2], c.type(1).shape[i + 2]));
  }
  return {{c.type(0).dtype, std::move(shape)}};
}

// ---- reference ------------------------------------------------------------------------------------------------------

// Sets the spatial part of `source` to where the kernel's element `tap` reads for the result at `out`; false when that
// is padding, or between the elements of a transposed convolution.
bool locate(const Geometry& geometry, const Sizes& out, const Sizes& tap, const Sizes& shape, Sizes& source) {
  for (size_t i = 0; i < geometry.dimensions(); ++i) {
    const int64_t step = geometry.stride[i];
    const int64_t reach = geometry.dilation[i] * tap[i + 1] - geometry.padding[i];
    int64_t position = out[i + 2] * step + reach;
    if (geometry.transposed) {
      if ((out[i + 2] - reach) % step != 0) return false;
      position = (out[i + 2] - reach) / step;
    }
    if (position < 0 || position >= shape[i + 2]) return false;
    source[i + 2] = position;
  }
  return true;
}

// One element of the result: visit(x offset, weight offset) for each product that it sums.
template <class Visit>
void for_each_product(ReferenceContext& c, const Geometry& geometry, const Sizes& out, Visit visit) {
  const Tensor& x = c.in(0);
  const Tensor& weight = c.in(1);
  const int64_t group_inputs = x.size(1) / geometry.groups;
  const int64_t group_outputs = c.out().size(1) / geometry.groups;
  const int64_t first_input = out[1] / group_outputs * group_inputs;
  Sizes source = out;
  Sizes weight_index(out.size());
  Sizes taps = weight.shape();  // [channel in the group, kernel...]
  taps.erase(taps.begin());
  taps[0] = group_inputs;
  for_each_index(taps, [&](const Sizes& tap) {
    if (!locate(geometry, out, tap, x.shape(), source)) return;
    source[1] = first_input + tap[0];
    std::copy(tap.begin(), tap.end(), weight_index.begin() + 1);
    weight_index[0] = geometry.transposed ? source[1] : out[1];
    if (geometry.transposed) weight_index[1] = out[1] % group_outputs;
    visit(x.offset(source), weight.offset(weight_index));
  });
}

void run_conv(ReferenceContext& c) {
  const Geometry geometry = geometry_of(c);
  for_each_index(c.out().shape(), [&](const Sizes& out) {
    Accumulator sum(c.out().dtype());
    if (c.has(2)) sum.add(c.in(2), c.in(2).offset(Sizes{out[1]}));
    for_each_product(c, geometry, out,
                     [&](int64_t x, int64_t weight) { sum.add_product(c.in(0), x, c.in(1), weight); });
    sum.store(c.out(), c.out().offset(out));
  });
}

// ---- loops ----------------------------------------------------------------------------------------------------------

// One variable for each index that a product depends on. Channels are split into groups and channels of a group.
struct ConvVars {
  loops::VarRef batch, group, out, in;
  LoopDims places;  // in the result, one for each spatial dimension
  LoopDims taps;    // in the kernel, likewise

  LoopDims all() const {
    LoopDims dims = {batch, group, out};
    dims.insert(dims.end(), places.begin(), places.end());
    dims.push_back(in);
    dims.insert(dims.end(), taps.begin(), taps.end());
    return dims;
  }
};

// Where the products read x: the windows of a convolution; of a transposed one, what reaches the place.
LoopValue conv_image(LoopContext& l, const Geometry& geometry, const ConvVars& vars, const Expr& group_inputs) {
  LoopPiece piece{l.in(0), l.type(0).shape, {l.at(vars.batch), l.at(vars.group) * group_inputs + l.at(vars.in)}};
  for (size_t i = 0; i < geometry.dimensions(); ++i) {
    const Expr reach = geometry.dilation[i] * l.at(vars.taps[i]) - geometry.padding[i];
    const Expr distance = l.at(vars.places[i]) - reach;
    const int64_t stride = geometry.stride[i];
    piece.index.push_back(geometry.transposed ? floordiv(distance, stride) : l.at(vars.places[i]) * stride + reach);
    if (geometry.transposed && stride > 1) piece.where.push_back({mod(distance, stride), 1});
  }
  return l.wide(l.view(vars.all(), piece));
}

LoopValue conv_weight(LoopContext& l, const Geometry& geometry, const ConvVars& vars, const Expr& group_outputs,
                      const Expr& group_inputs) {
  LoopPiece piece{l.in(1), l.type(1).shape, {l.at(vars.group) * group_outputs + l.at(vars.out), l.at(vars.in)}};
  if (geometry.transposed) piece.index = {l.at(vars.group) * group_inputs + l.at(vars.in), l.at(vars.out)};
  for (loops::VarRef tap : vars.taps) piece.index.push_back(l.at(tap));
  return l.wide(l.view(vars.all(), piece));
}

// [N, groups, channels, ...] -> [N, groups * channels, ...]
LoopValue join_groups(LoopContext& l, const LoopValue& x, const Shape& shape, const Expr& group_outputs) {
  LoopDims dims = x.dims;
  dims.erase(dims.begin() + 1);
  LoopPiece piece = l.whole(x, shape);
  if (group_outputs.is_constant(1)) dims[1] = x.dims[1];
  if (!shape[1].is_constant(1) && !group_outputs.is_constant(1)) {
    dims[1] = l.var(l.result().size(1));
    piece.index[1] = floordiv(l.at(dims[1]), group_outputs);
    piece.index[2] = mod(l.at(dims[1]), group_outputs);
  }
  return l.view(dims, piece);
}

void lower_conv(LoopContext& l) {
  const Geometry geometry = geometry_of(l);
  const Expr group_outputs = floordiv(l.result().size(1), geometry.groups);
  const Expr group_inputs = floordiv(l.type(0).size(1), geometry.groups);
  Shape shape = {l.result().size(0), geometry.groups, group_outputs};
  shape.insert(shape.end(), l.result().shape.begin() + 2, l.result().shape.end());
  const auto kept = std::ssize(shape);
  shape.push_back(group_inputs);
  shape.insert(shape.end(), l.type(1).shape.begin() + 2, l.type(1).shape.end());
  ConvVars vars{l.var(shape[0]), l.var(geometry.groups), l.var(group_outputs), l.var(group_inputs), {}, {}};
  for (size_t i = 2; i < l.result().shape.size(); ++i) {
    vars.places.push_back(l.var(l.result().shape[i]));
    vars.taps.push_back(l.var(l.type(1).shape[i]));
  }
  const LoopValue products = l.compute("mul", {conv_image(l, geometry, vars, group_inputs),
                                               conv_weight(l, geometry, vars, group_outputs, group_inputs)});
  std::vector<int64_t> summed;
  for (int64_t dim = kept; dim < std::ssize(shape); ++dim) summed.push_back(dim);
  const LoopValue sums = l.fold("add", products, shape, summed);
  shape.resize(static_cast<size_t>(kept));
  LoopValue result = join_groups(l, sums, shape, group_outputs);
  if (l.has(2)) {
    LoopValue bias = l.wide(l.in(2));
    bias.dims.resize(geometry.dimensions() + 1);
    result = l.compute("add", {result, bias});
  }
  l.out(l.cast(result, l.result().dtype));
}

// ---- gradients: all of them are convolutions ------------------------------------------------------------------------

Value conv(Builder& b, Value x, Value weight, const Geometry& geometry) {
  return b.op("conv", {x, weight, Value()},
              {{"stride", geometry.stride},
               {"padding", geometry.padding},
               {"dilation", geometry.dilation},
               {"groups", geometry.groups},
               {"transposed", geometry.transposed},
               {"output_padding", geometry.output_padding}});
}

// Drops the positions past the spatial sizes of `shape`, where stride or output_padding left some.
Value crop(Builder& b, Value x, const Shape& shape) {
  std::vector<Expr> past(shape.size(), 0);
  for (size_t dim = 2; dim < shape.size(); ++dim) past[dim] = shape[dim] - x.shape()[dim];
  const std::vector<Expr> none(shape.size(), 0);
  return past == none ? x : b.pad(x, none, past);
}

// Each element goes back to the window that it came from: the same windows with `transposed` flipped. What the stride
// left over at the end comes back as output_padding.
Value input_gradient(GradContext& g, Geometry geometry) {
  geometry.transposed = !geometry.transposed;
  for (size_t i = 0; i < geometry.dimensions(); ++i) {
    const Expr span = span_of(g.in(1).shape()[i + 2], geometry.dilation[i]);
    const Expr rest = mod(g.in(0).shape()[i + 2] + 2 * Expr(geometry.padding[i]) - span, geometry.stride[i]);
    geometry.output_padding[i] = geometry.transposed ? rest : Expr(0);
  }
  return crop(g, conv(g, g.dout(), g.in(1), geometry), g.in(0).shape());
}

// [N, groups*C, ...] -> [C, groups*N, ...]
Value exchange_batch_and_channels(Builder& b, Value x, int64_t groups) {
  Shape split = x.shape();
  split[1] = floordiv(split[1], groups);
  split.insert(split.begin() + 1, groups);
  Value y = b.transpose(b.reshape(x, split), 0, 2);
  Shape joined = y.shape();
  joined.erase(joined.begin() + 1);
  joined[1] = joined[1] * groups;
  return b.reshape(y, joined);
}

// Of what each element of the kernel meets, no more than it does meet: the padding is written out, without the rest
// that a stride leaves at the end. As it is where there is no rest.
Value without_rest(GradContext& g, Value wide, const Value& narrow, Geometry& geometry) {
  std::vector<Expr> low(wide.shape().size(), 0), high = low;
  bool is_whole = true;
  for (size_t i = 0; i < geometry.dimensions(); ++i) {
    const size_t dim = i + 2;
    const Expr met =
        (narrow.shape()[dim] - 1) * geometry.stride[i] + span_of(g.in(1).shape()[dim], geometry.dilation[i]);
    const Expr rest = wide.shape()[dim] + 2 * Expr(geometry.padding[i]) - met;
    low[dim] = geometry.padding[i];
    high[dim] = geometry.padding[i] - rest;
    is_whole = is_whole && rest.is_constant(0);
  }
  if (is_whole) return wide;
  geometry.padding.assign(geometry.dimensions(), 0);
  return g.pad(wide, low, high);
}

// The element k of the kernel meets position stride*i + dilation*k - padding of one side (`wide`: the operand of a
// plain convolution, the result of a transposed one) at position i of the other: a convolution over k, with the batch
// summed as channels are, and stride and dilation exchanged.
Value weight_gradient(GradContext& g, Geometry geometry) {
  const Value narrow = geometry.transposed ? g.in(0) : g.dout();
  const Value wide = without_rest(g, geometry.transposed ? g.dout() : g.in(0), narrow, geometry);
  std::swap(geometry.stride, geometry.dilation);
  geometry.transposed = false;
  geometry.output_padding.assign(geometry.dimensions(), 0);
  return g.transpose(
      conv(g, exchange_batch_and_channels(g, wide, geometry.groups), g.transpose(narrow, 0, 1), geometry), 0, 1);
}

Value bias_gradient(GradContext& g) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < g.dout().rank(); ++dim) dims.push_back(dim);
  return g.sum(g.dout(), dims);
}

// Each element of the result, or of what a transposed one spreads, meets the weights of one channel.
double conv_flops(const OpView& view, const TensorType& result) {
  const double channels = std::max(1.0, static_cast<double>(view.type(1).size(0).constant()));
  return 2 * known_count(view.type(1)) / channels * known_count(view.flag("transposed") ? view.type(0) : result);
}

const OpDef kConv{
    .name = "conv",
    .family = "convolution",
    .doc =
        "Convolution over one to three spatial dimensions of `x` [N, C, ...]. The weight is [out, C/groups, "
        "kernel...]; of a transposed convolution, [C, out/groups, kernel...].",
    .operands = std::vector<OperandDef>{{"x", kNumbers}, {"weight", kNumbers}, {"bias", kNumbers, Arity::kOptional}},
    .attrs = {{"stride", AttrKind::kInts, "the step of the window; one for each spatial dimension or one for all",
               Attr(std::vector<int64_t>{1})},
              {"padding", AttrKind::kInts, "zeros on both sides of x; of a transposed one, cut off the result",
               Attr(std::vector<int64_t>{0})},
              {"dilation", AttrKind::kInts, "the step inside the window", Attr(std::vector<int64_t>{1})},
              {"groups", AttrKind::kInt, "channels are divided into that many independent groups", Attr(int64_t{1})},
              {"transposed", AttrKind::kBool, "each element is spread over its window, instead of read from it",
               Attr(false)},
              {"output_padding", AttrKind::kExprs, "more positions at the end of a transposed result", Attr(Shape{0})}},
    .infer = conv_type,
    .semantics = reference(run_conv),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const Geometry geometry = geometry_of(g);
      return {input_gradient(g, geometry), weight_gradient(g, geometry), bias_gradient(g)};
    }),
    .loops = lower_conv,
    .role = Role::kContraction,
    .flops = conv_flops,
    .takes_border = true,
    .peer =
        torch_is("torch.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)"),
    .samples =
        Samples{
            "T[2, 3, 5], T[4, 3, 3], T[4]", "T[1, 1, 1], T[1, 1, 1], none", "T[0, 2, 5], T[3, 2, 3], T[3]",
            "T[2, 2, 8], T[4, 2, 3], none; stride=[3], padding=[1]",
            "T[1, 2, 9], T[2, 2, 3], T[2]; stride=[2], dilation=[3], padding=[2]",
            "T[1, 4, 7], T[6, 2, 2], T[6]; stride=[4], groups=2", "T[1, 3, 6], T[6, 1, 3], none; groups=3, padding=[1]",
            "T[1, 2, 5, 4], T[3, 2, 3, 2], T[3]; padding=[1, 0], stride=[2, 1]",
            "T[2, 2, 4, 4], T[2, 1, 2, 2], none; groups=2, stride=[2], dilation=[2], padding=[1]",
            "T[1, 1, 3, 4, 3], T[2, 1, 2, 2, 2], T[2]; stride=[1, 2, 1], padding=[0, 1, 1]",
            "T[2, 3, 4], T[3, 2, 3], T[2]; transposed=true",
            "T[2, 2, 4], T[2, 2, 3], none; transposed=true, stride=[2], padding=[1], output_padding=[1]",
            "T[1, 4, 3], T[4, 3, 2], T[6]; transposed=true, groups=2, stride=[3], dilation=[2], output_padding=[2]",
            "T[1, 2, 4], T[2, 1, 3], none; transposed=true, dilation=[3], padding=[2], output_padding=[2]",
            "T[1, 2, 3, 2], T[2, 2, 3, 2], T[2]; transposed=true, stride=[2, 1], padding=[1, 0], output_padding=[1, 0]",
            "T[1, 1, 2, 2, 2], T[1, 2, 2, 1, 2], none; transposed=true, stride=[2], output_padding=[0, 1, 0]"},
    // PyTorch multiplies padding by infinite weights in some of its kernels, and skips it in others.
    .special_values = false,
};

}  // namespace

OpRefs convolution_ops() { return {&kConv}; }

}  // namespace tenon::ops
