// Sliding windows as a view, and columns of an image.
#include <algorithm>
#include <numeric>

#include "loops/lower.h"
#include "ops/accumulate.h"
#include "ops/common.h"
#include "ops/spatial.h"

namespace tenon::ops {
namespace {

// ---- windows and fold: a view and its adjoint -----------------------------------------------------------------------

const AttrDef kStep = {"step", AttrKind::kInt, "the distance of windows, at least 1", Attr(int64_t{1})};
const AttrDef kDilation = {"dilation", AttrKind::kInt, "the distance of elements in a window, at least 1",
                           Attr(int64_t{1})};

void check_positive(const OpView& c, std::string_view attr) {
  if (c.integer(attr) < 1) fail("{} must be at least 1, got {}", attr, c.integer(attr));
}

// How many windows of `size` elements lie in `length`, by the attributes.
Expr count_windows(InferContext& c, const Expr& length, const Expr& size) {
  check_positive(c, "step");
  check_positive(c, "dilation");
  const Expr span = span_of(size, c.integer("dilation"));
  if (c.facts().less_equal(length, span - 1)) fail("a window that spans {} does not fit into {}", span, length);
  return window_count(length, span, c.integer("step"));
}

Value windows(Builder& b, Value x, int64_t dim, int64_t size, int64_t step, int64_t dilation) {
  return b.op("windows", {x}, {{"dim", dim}, {"size", size}, {"step", step}, {"dilation", dilation}});
}

Value fold(Builder& b, Value x, int64_t dim, const Expr& length, int64_t step, int64_t dilation) {
  return b.op("fold", {x}, {{"dim", dim}, {"length", length}, {"step", step}, {"dilation", dilation}});
}

const OpDef kWindows{
    .name = "windows",
    .family = "pooling",
    .doc =
        "The windows that slide along a dimension: it becomes the number of windows, and a last dimension holds the "
        "elements of each. Element k of window i is element step*i + dilation*k of x.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"dim", AttrKind::kInt, "the dimension to slide along"},
              {"size", AttrKind::kInt, "the number of elements in a window, at least 1"},
              kStep,
              kDilation},
    .infer = [](InferContext& c) -> Types {
      TensorType type = c.type(0);
      if (type.rank() == 0) fail("a scalar has no dimension to slide along");
      check_positive(c, "size");
      Expr& length = type.shape[static_cast<size_t>(c.dim("dim"))];
      length = count_windows(c, length, c.integer("size"));
      type.shape.push_back(c.integer("size"));
      return {std::move(type)};
    },
    .semantics = reference([](ReferenceContext& c) {
      const auto dim = static_cast<size_t>(c.dim("dim"));
      int64_t position = 0;
      for_each_index(c.out().shape(), [&](const Sizes& index) {
        Sizes from(index.begin(), index.end() - 1);
        from[dim] = from[dim] * c.integer("step") + index.back() * c.integer("dilation");
        copy_element(c.out(), position++, c.in(), c.in().offset(from));
      });
    }),
    .gradient = gradient([](GradContext& g) {
      const int64_t dim = g.dim("dim");
      return fold(g, g.dout(), dim, g.in().size(dim), g.integer("step"), g.integer("dilation"));
    }),
    .loops =
        [](LoopContext& l) {
          const auto dim = static_cast<size_t>(l.dim("dim"));
          LoopPiece piece = l.whole(l.in(), l.type(0).shape);
          LoopDims dims = l.in().dims;
          dims[dim] = l.var(l.result().shape[dim]);
          dims.push_back(l.var(l.integer("size")));
          piece.index[dim] = l.integer("step") * l.at(dims[dim]) + l.integer("dilation") * l.at(dims.back());
          l.out(l.view(dims, piece));
        },
    .role = Role::kView,
    .takes_border = true,
    .peer = torch_is("x.unfold(dim, dilation * (size - 1) + 1, step)[..., ::dilation]"),
    .samples = Samples{"T[5]; dim=0, size=2", "T[7, 2]; dim=0, size=3, step=2", "T[2, 6]; dim=-1, size=2, dilation=3",
                       "T[2, 8, 2]; dim=1, size=2, step=5, dilation=2", "T[1]; dim=0, size=1",
                       "T[4]; dim=0, size=1, step=3", "T[0, 3]; dim=1, size=3", "T[2, 3]; dim=-2, size=2, step=4"},
};

// Each element gathers from the windows that hold it, one element of a window after the other.
void lower_fold(LoopContext& l) {
  const int64_t step = l.integer("step");
  const auto dim = static_cast<size_t>(normalize_dim(l.integer("dim"), l.result().rank()));
  LoopPiece piece = l.whole(l.in(), l.type(0).shape);
  LoopDims dims = l.in().dims;
  dims[dim] = l.var(l.expr("length"));
  dims.back() = l.var(piece.shape.back());
  const Expr distance = l.at(dims[dim]) - l.integer("dilation") * l.at(dims.back());
  piece.index[dim] = floordiv(distance, step);
  piece.index.back() = l.at(dims.back());
  if (step > 1) piece.where.push_back({mod(distance, step), 1});
  Shape shape = l.result().shape;
  shape.push_back(piece.shape.back());
  const LoopValue sum = l.fold("add", l.wide(l.view(dims, piece)), shape, {l.result().rank()});
  l.out(l.cast(sum, l.result().dtype));
}

const OpDef kFold{
    .name = "fold",
    .family = "pooling",
    .doc =
        "Adds windows back to where they came from: the adjoint of `windows`. The last dimension of x holds the "
        "elements of each window.",
    .operands = std::vector<OperandDef>{{"x", kNumbers}},
    .attrs = {{"dim", AttrKind::kInt, "the result's dimension that the windows slide along"},
              {"length", AttrKind::kExpr, "its size"},
              kStep,
              kDilation},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = c.type(0);
      if (x.rank() < 2) fail("x must have a dimension of windows and one of their elements, got {}", to_string(x));
      if (!x.shape.back().is_constant()) fail("the size {} of the windows must be a constant", x.shape.back());
      if (x.shape.back().is_constant(0)) fail("windows must have an element, got {}", to_string(x));
      TensorType type{x.dtype, {x.shape.begin(), x.shape.end() - 1}};
      Expr& size = type.shape[static_cast<size_t>(normalize_dim(c.integer("dim"), type.rank()))];
      const Expr count = count_windows(c, c.expr("length"), x.shape.back());
      if (!c.facts().equal(size, count)) {
        fail("{} windows are given where length {} has {}", size, c.expr("length"), count);
      }
      size = c.expr("length");
      return {std::move(type)};
    },
    .semantics = reference([](ReferenceContext& c) {
      const Tensor& x = c.in();
      const auto dim = static_cast<size_t>(normalize_dim(c.integer("dim"), x.rank() - 1));
      const int64_t step = c.integer("step");
      for_each_index(c.out().shape(), [&](const Sizes& index) {
        Accumulator sum(x.dtype());
        Sizes from = index;
        from.push_back(0);
        for (int64_t k = 0; k < x.shape().back(); ++k) {
          const int64_t start = index[dim] - k * c.integer("dilation");
          if (start < 0 || start % step != 0 || start / step >= x.shape()[dim]) continue;
          from[dim] = start / step;
          from.back() = k;
          sum.add(x, x.offset(from));
        }
        sum.store(c.out(), c.out().offset(index));
      });
    }),
    .gradient = gradient([](GradContext& g) {
      const int64_t dim = normalize_dim(g.integer("dim"), g.in().rank() - 1);
      const int64_t size = g.in().shape().back().constant();
      return windows(g, g.dout(), dim, size, g.integer("step"), g.integer("dilation"));
    }),
    .loops = lower_fold,
    .peer = torch_is("(lambda d: torch.zeros([*x.shape[:d], length, *x.shape[d + 1:-1]], dtype=x.dtype).index_add("
                     "d, (torch.arange(x.shape[d])[:, None] * step + torch.arange(x.shape[-1]) * dilation).flatten(), "
                     "x.movedim(-1, d + 1).flatten(d, d + 1)))(dim % (x.ndim - 1))"),
    .samples = Samples{"T[4, 2]; dim=0, length=5", "T[3, 2, 3]; dim=0, length=7, step=2",
                       "T[2, 3, 2]; dim=-1, length=6, dilation=3", "T[2, 2, 2, 2]; dim=1, length=8, step=5, dilation=2",
                       "T[1, 1]; dim=0, length=1", "T[2, 1]; dim=0, length=4, step=3", "T[0, 1, 3]; dim=1, length=3",
                       "T[1, 3, 2]; dim=-2, length=3, step=4"},
};

// ---- windows over all spatial dimensions ----------------------------------------------------------------------------

// With ceil_mode a window may reach past the padding, but it must start inside the input or the padding before it.
Expr pooled_length(const Sliding& s, bool ceil_mode) {
  const Expr padded = s.length + 2 * Expr(s.padding);
  if (!ceil_mode) return window_count(padded, s.span(), s.stride);
  const Expr count = ceildiv(padded - s.span(), s.stride) + 1;
  return count - simplify(ge((count - 1) * s.stride, s.length + s.padding), {});  // most often 0, whatever the length
}

// Pads the spatial dimensions, or crops the padding off again with sign -1.
Value pad_spatial(Builder& b, Value x, const std::vector<Sliding>& sliding, int64_t sign, Attr fill) {
  std::vector<Expr> low(x.shape().size(), 0);
  std::vector<Expr> high(x.shape().size(), 0);
  for (const Sliding& s : sliding) {
    low[static_cast<size_t>(s.dim)] = sign * Expr(s.padding);
    high[static_cast<size_t>(s.dim)] = sign * s.high();
  }
  return b.op("pad", {x}, {{"low", low}, {"high", high}, {"value", std::move(fill)}});
}

}  // namespace

std::vector<Sliding> slide(std::span<const Expr> shape, Ints kernel, Ints stride, Ints padding, Ints dilation,
                           bool ceil_mode) {
  const size_t n = kernel.size();
  if (n < 1 || n > 3) fail("kernel must have one to three sizes, got {}", n);
  if (shape.size() < n) fail("x {} has fewer dimensions than the kernel", to_string(shape));
  const auto kernels = per_dimension(kernel, n, "kernel", 1);
  const auto strides = per_dimension(stride.empty() ? kernel : stride, n, "stride", 1);
  const auto paddings = per_dimension(padding, n, "padding", 0);
  const auto dilations = per_dimension(dilation, n, "dilation", 1);
  std::vector<Sliding> result;
  for (size_t i = 0; i < n; ++i) {
    const size_t dim = shape.size() - n + i;
    Sliding s{static_cast<int64_t>(dim), kernels[i], strides[i], paddings[i], dilations[i], shape[dim]};
    s.count = pooled_length(s, ceil_mode);
    if (s.count.is_constant() && s.count.constant() < 1) {
      fail("dimension {} of size {} with padding {} is too small for a window that spans {}", dim, s.length, s.padding,
           s.span());
    }
    result.push_back(std::move(s));
  }
  return result;
}

Shape shape_of_output_size(const InferContext& c) {
  const auto sizes = c.exprs("output_size");
  Shape shape = c.type(0).shape;
  if (sizes.empty() || sizes.size() > 3) fail("output_size must have one to three sizes, got {}", sizes.size());
  if (shape.size() < sizes.size()) fail("x {} has fewer dimensions than output_size", to_string(c.type(0)));
  for (size_t i = 0; i < sizes.size(); ++i) {
    Expr& size = shape[shape.size() - sizes.size() + i];
    if (size.is_constant(0)) fail("cannot resize the empty dimensions of {}", to_string(c.type(0)));
    if (c.facts().less_equal(sizes[i], 0)) fail("output_size must be positive, got {}", sizes[i]);
    size = sizes[i];
  }
  return shape;
}

Shape slid_shape(Shape shape, const std::vector<Sliding>& sliding) {
  for (const Sliding& s : sliding) shape[static_cast<size_t>(s.dim)] = s.count;
  return shape;
}

Value unfold_spatial(Builder& b, Value x, const std::vector<Sliding>& sliding, Attr fill) {
  x = pad_spatial(b, x, sliding, 1, std::move(fill));
  for (const Sliding& s : sliding) x = windows(b, x, s.dim, s.kernel, s.stride, s.dilation);
  return x;
}

Value fold_spatial(Builder& b, Value x, const std::vector<Sliding>& sliding) {
  for (size_t i = sliding.size(); i-- > 0;) {
    const Sliding& s = sliding[i];
    x = fold(b, x, s.dim, s.padding + s.length + s.high(), s.stride, s.dilation);
  }
  return pad_spatial(b, x, sliding, -1, Expr(0));
}

namespace {

// ---- im2col and col2im ----------------------------------------------------------------------------------------------

const std::vector<AttrDef> kColumnAttrs = {
    {"kernel", AttrKind::kInts, "the window's size, one for each spatial dimension"},
    {"dilation", AttrKind::kInts, "the distance of elements in a window", Attr(std::vector<int64_t>{1})},
    {"padding", AttrKind::kInts, "zeros on both sides", Attr(std::vector<int64_t>{0})},
    {"stride", AttrKind::kInts, "the distance of windows", Attr(std::vector<int64_t>{1})}};

std::vector<Sliding> column_windows(const OpView& c, const Shape& image) {
  return slide(image, c.ints("kernel"), c.ints("stride"), c.ints("padding"), c.ints("dilation"), false);
}

// [..., C, windows, elements] -> [..., C, elements, windows] and back: both are halves of 2*n dimensions.
Value swap_halves(Builder& b, Value x, size_t n) {
  std::vector<int64_t> order = dims_between(0, x.rank());
  std::rotate(order.end() - 2 * static_cast<int64_t>(n), order.end() - static_cast<int64_t>(n), order.end());
  return b.permute(x, order);
}

Expr kernel_count(const OpView& c) {
  Expr count = 1;
  for (int64_t size : c.ints("kernel")) count *= size;
  return count;
}

Expr total_windows(const std::vector<Sliding>& sliding) {
  Expr count = 1;
  for (const Sliding& s : sliding) count *= s.count;
  return count;
}

Shape column_shape(const OpView& c, const std::vector<Sliding>& sliding) {
  const Shape& image = c.type(0).shape;
  if (image.size() == sliding.size()) fail("x {} has no channels", to_string(c.type(0)));
  Shape columns(image.begin(), image.end() - std::ssize(sliding));
  columns.back() *= kernel_count(c);
  columns.push_back(total_windows(sliding));
  return columns;
}

const OpDef kIm2col{
    .name = "im2col",
    .family = "pooling",
    .doc = "The windows of an image as columns: [..., C, spatial...] becomes [..., C * elements of a window, windows].",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = kColumnAttrs,
    .infer = [](InferContext& c) -> Types {
      return {{c.type(0).dtype, column_shape(c, column_windows(c, c.type(0).shape))}};
    },
    .semantics = composite([](ExpandContext& e) {
      const std::vector<Sliding> sliding = column_windows(e, e.in().shape());
      const Value unfolded = swap_halves(e, unfold_spatial(e, e.in(), sliding, 0.0), sliding.size());
      return e.reshape(unfolded, column_shape(e, sliding));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.unfold(x, kernel, *(n * (2 // len(n)) for n in (dilation, padding, stride)))"),
    .samples = Samples{"T[1, 2, 3, 4]; kernel=[2, 2]", "T[2, 4, 5]; kernel=[3, 2], padding=[1, 2], stride=[2, 1]",
                       "T[1, 1, 5, 4]; kernel=[2, 2], dilation=[3, 1], stride=[1, 2]", "T[0, 2, 3, 3]; kernel=[2, 2]",
                       "T[1, 1, 1]; kernel=[1, 1]"},
};

Shape image_shape(const OpView& c) {
  const auto size = c.exprs("output_size");
  Shape shape = c.type(0).shape;
  if (shape.size() < 2) fail("x must be [..., C * elements of a window, windows], got {}", to_string(c.type(0)));
  if (size.size() != c.ints("kernel").size()) {
    fail("output_size and kernel have {} and {} sizes", size.size(), c.ints("kernel").size());
  }
  shape.pop_back();
  const Expr rows = shape.back();
  shape.back() = floordiv(rows, kernel_count(c));
  if (!mod(rows, kernel_count(c)).is_constant(0)) {
    fail("{} rows are no multiple of {}, the elements of a window", rows, kernel_count(c));
  }
  shape.insert(shape.end(), size.begin(), size.end());
  return shape;
}

const OpDef kCol2im{
    .name = "col2im",
    .family = "pooling",
    .doc = "Sums columns back into an image of `output_size`: the adjoint of `im2col`.",
    .operands = std::vector<OperandDef>{{"x", kFloats}},
    .attrs = {{"output_size", AttrKind::kExprs, "the image's size, one for each spatial dimension"},
              kColumnAttrs[0],
              kColumnAttrs[1],
              kColumnAttrs[2],
              kColumnAttrs[3]},
    .infer = [](InferContext& c) -> Types {
      const Shape image = image_shape(c);
      const Expr count = total_windows(column_windows(c, image));
      const Expr& given = c.type(0).shape.back();
      if (!c.facts().equal(given, count)) {
        fail("{} windows are given where the image {} has {}", given, to_string(image), count);
      }
      return {{c.type(0).dtype, image}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Shape image = image_shape(e);
      const std::vector<Sliding> sliding = column_windows(e, image);
      Shape split(image.begin(), image.end() - std::ssize(sliding));
      for (const Sliding& s : sliding) split.push_back(s.kernel);
      for (const Sliding& s : sliding) split.push_back(s.count);
      const Value unfolded = swap_halves(e, e.reshape(e.in_wide(), split), sliding.size());
      return e.cast(fold_spatial(e, unfolded, sliding), e.in().dtype());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("F.fold(x, output_size, kernel, *(n * (2 // len(n)) for n in (dilation, padding, stride)))"),
    .samples = Samples{"T[1, 8, 6]; output_size=[3, 4], kernel=[2, 2]",
                       "T[12, 16]; output_size=[4, 5], kernel=[3, 2], padding=[1, 2], stride=[2, 1]",
                       "T[1, 4, 4]; output_size=[5, 4], kernel=[2, 2], dilation=[3, 1], stride=[1, 2]",
                       "T[1, 1]; output_size=[1, 1], kernel=[1, 1]"},
};

}  // namespace

OpRefs window_ops() { return {&kWindows, &kFold, &kIm2col, &kCol2im}; }

}  // namespace tenon::ops
