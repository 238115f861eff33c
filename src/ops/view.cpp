// Views: the same elements under other indices.
#include "ops/view.h"

#include <algorithm>
#include <numeric>

#include "loops/lower.h"
#include "support/checked.h"

namespace tenon::ops {
namespace {

// Fills the result with elements of the operand: source(index) is the operand's offset of the element at `index`.
template <class Source>
void gather_elements(ReferenceContext& c, Source source) {
  int64_t position = 0;
  for_each_index(c.out().shape(),
                 [&](const Sizes& index) { copy_element(c.out(), position++, c.in(), source(index)); });
}

// ---- reshape --------------------------------------------------------------------------------------------------------

// The size that -1 stands for: the number of elements divided by the other sizes.
Expr inferred_size(const Facts& facts, const Shape& from, const Shape& to, size_t unknown) {
  Expr known = 1;
  for (size_t dim = 0; dim < to.size(); ++dim) {
    if (dim != unknown) known *= to[dim];
  }
  const Expr count = element_count(from);
  if (known.is_constant(0)) fail("cannot infer -1 in {}: the other sizes are zero", to_string(to));
  const Expr size = floordiv(count, known);
  if (facts.equal(size * known, count)) return size;
  fail("cannot infer -1 in {}: {} does not divide the {} elements of {}", to_string(to), to_string(known),
       to_string(count), to_string(from));
}

// Dimensions of x and of the result that hold the same elements among themselves.
struct Run {
  std::vector<size_t> from;
  std::vector<size_t> to;
};

std::vector<size_t> dims_with_elements(const Shape& shape) {
  std::vector<size_t> dims;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!shape[dim].is_constant(1)) dims.push_back(dim);
  }
  return dims;
}

// The shortest runs: they end where as many elements are left on both sides.
std::vector<Run> runs_of(const Shape& from, const Shape& to) {
  const std::vector<size_t> to_dims = dims_with_elements(to);
  std::vector<Run> runs(1);
  size_t taken = 0;
  Expr from_count = 1, to_count = 1;
  for (size_t dim : dims_with_elements(from)) {
    runs.back().from.push_back(dim);
    from_count *= from[dim];
    Expr count = to_count;
    for (size_t end = taken; end < to_dims.size(); ++end) {
      count *= to[to_dims[end]];
      if (count != from_count) continue;
      runs.back().to.assign(to_dims.begin() + static_cast<int64_t>(taken),
                            to_dims.begin() + static_cast<int64_t>(end) + 1);
      runs.emplace_back();
      taken = end + 1;
      to_count = count;
      break;
    }
  }
  runs.back().to.assign(to_dims.begin() + static_cast<int64_t>(taken), to_dims.end());
  return runs;
}

// A dimension that stays keeps its variable; else the elements of a run are counted with those of the result, and the
// count taken apart again.
void lower_reshape(LoopContext& l) {
  const Shape &from = l.type(0).shape, &to = l.result().shape;
  LoopPiece piece = l.whole(l.in(), from);
  LoopDims dims(to.size());
  if (element_count(to).is_constant(0))
    return l.out({l.constant(l.result().dtype, scalar_in(l.result().dtype, Expr(0))).node, dims});
  for (const Run& run : runs_of(from, to)) {
    const bool stays = run.from.size() == 1 && run.to.size() == 1 && from[run.from[0]] == to[run.to[0]];
    if (stays) dims[run.to[0]] = l.in().dims[run.from[0]];
    const auto has_var = [&](size_t dim) { return static_cast<bool>(l.in().dims[dim]); };
    if (stays || std::ranges::none_of(run.from, has_var)) continue;
    Expr position = 0;
    for (size_t dim : run.to) {
      dims[dim] = l.var(to[dim]);
      position = position * to[dim] + l.at(dims[dim]);
    }
    Expr stride = 1;
    for (size_t i = run.from.size(); i-- > 0;) {
      const Expr& size = from[run.from[i]];
      const Expr quotient = floordiv(position, stride);
      piece.index[run.from[i]] = l.simplified(i == 0 ? quotient : mod(quotient, size));
      stride *= size;
    }
  }
  l.out(l.view(dims, piece));
}

const OpDef kReshape{
    .name = "reshape",
    .family = "view",
    .doc = "The elements in row-major order under another shape. One size may be -1: it is inferred.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"shape", AttrKind::kExprs, "the result's shape"}},
    .infer = [](InferContext& c) -> Types {
      return {{c.type(0).dtype, reshaped(c.facts(), c.type(0).shape, c.exprs("shape"))}};
    },
    .semantics = reference([](ReferenceContext& c) {
      for (int64_t i = 0; i < c.out().numel(); ++i) copy_element(c.out(), i, c.in(), c.in().offset(i));
    }),
    .gradient = gradient([](GradContext& g) { return g.reshape(g.dout(), g.in().shape()); }),
    .loops = lower_reshape,
    .role = Role::kReshape,
    .is_plumbing = true,
    .peer = torch_is("torch.reshape(x, shape)"),
    .samples = Samples{"T[3, 4]; shape=[4, 3]", "T[3, 4]; shape=[-1]", "T[2, 3, 2]; shape=[2, -1]", "T[1]; shape=[]",
                       "T[]; shape=[1, 1]", "T[0, 3]; shape=[0]", "T[0, 3]; shape=[-1, 3]", "T[2, 0]; shape=[4, 0, 7]",
                       "T[6]; shape=[1, -1, 2, 1]"},
};

// ---- permute --------------------------------------------------------------------------------------------------------

std::vector<int64_t> permutation(const OpView& v) {
  std::vector<int64_t> order;
  for (int64_t dim : v.ints("dims")) order.push_back(normalize_dim(dim, v.type(0).rank()));
  if (std::ssize(order) != v.type(0).rank()) {
    fail("{} dimensions are given for {}", order.size(), to_string(v.type(0)));
  }
  if (!order.empty()) normalize_dims(order, v.type(0).rank());  // refuses a repeated one
  return order;
}

const OpDef kPermute{
    .name = "permute",
    .family = "view",
    .doc = "Dimensions in another order: dimension i of the result is dimension dims[i] of x.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"dims", AttrKind::kInts, "each dimension of x once"}},
    .infer = [](InferContext& c) -> Types {
      Shape shape;
      for (int64_t dim : permutation(c)) shape.push_back(c.type(0).size(dim));
      return {{c.type(0).dtype, std::move(shape)}};
    },
    .semantics = reference([](ReferenceContext& c) {
      const std::vector<int64_t> order = permutation(c);
      gather_elements(c, [&](const Sizes& index) {
        Sizes from(order.size());
        for (size_t dim = 0; dim < order.size(); ++dim) from[static_cast<size_t>(order[dim])] = index[dim];
        return c.in().offset(from);
      });
    }),
    .gradient = gradient([](GradContext& g) { return g.permute(g.dout(), inverse_of(permutation(g))); }),
    .loops =
        [](LoopContext& l) {
          LoopDims dims;
          for (int64_t dim : permutation(l)) dims.push_back(l.in().dims[static_cast<size_t>(dim)]);
          l.out({l.in().node, std::move(dims)});
        },
    .role = Role::kPermutation,
    .is_plumbing = true,
    .peer = torch_is("torch.permute(x, dims)"),
    .samples =
        Samples{"T[3, 4]; dims=[1, 0]", "T[2, 3, 4]; dims=[-1, 0, 1]", "T[2, 3, 4]; dims=[0, 1, 2]", "T[]; dims=[]",
                "T[5]; dims=[0]", "T[2, 0, 3]; dims=[2, 0, 1]", "T[2, 1, 2, 3]; dims=[3, 1, 0, 2]"},
};

// ---- expand ---------------------------------------------------------------------------------------------------------

Shape expanded(const Facts& facts, const Shape& from, std::span<const Expr> requested) {
  if (requested.size() < from.size())
    fail("cannot expand {} to the lower rank of {}", to_string(from), to_string(requested));
  const size_t added = requested.size() - from.size();
  Shape to(requested.begin(), requested.end());
  for (size_t dim = 0; dim < to.size(); ++dim) {
    const bool keeps = to[dim].is_constant(-1);
    if (to[dim].is_constant() && to[dim].constant() < (dim < added ? 0 : -1)) {
      fail("cannot expand to {}: size {} of dimension {} is negative", to_string(requested), to_string(to[dim]), dim);
    }
    if (dim < added) continue;
    const Expr& size = from[dim - added];
    if (keeps || facts.equal(size, to[dim])) {
      to[dim] = size;
    } else if (!size.is_constant(1)) {
      fail("cannot expand {} to {}: size {} of dimension {} is not 1", to_string(from), to_string(requested),
           to_string(size), dim - added);
    }
  }
  return to;
}

const OpDef kExpand{
    .name = "expand",
    .family = "view",
    .doc = "Stretches dimensions of size 1, and adds leading ones. A size of -1 keeps the size of x.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"shape", AttrKind::kExprs, "the result's shape"}},
    .infer = [](InferContext& c) -> Types {
      return {{c.type(0).dtype, expanded(c.facts(), c.type(0).shape, c.exprs("shape"))}};
    },
    .semantics = reference([](ReferenceContext& c) {
      const size_t added = c.out().shape().size() - c.in().shape().size();
      gather_elements(c, [&](const Sizes& index) {
        Sizes from(index.begin() + static_cast<int64_t>(added), index.end());
        for (size_t dim = 0; dim < from.size(); ++dim) from[dim] = c.in().shape()[dim] == 1 ? 0 : from[dim];
        return c.in().offset(from);
      });
    }),
    // The caller sums over the stretched dimensions.
    .gradient = gradient([](GradContext& g) { return g.dout(); }),
    .loops =
        [](LoopContext& l) {
          LoopDims dims = l.in().dims;
          dims.insert(dims.begin(), l.result().shape.size() - dims.size(), loops::VarRef());
          l.out({l.in().node, std::move(dims)});
        },
    .role = Role::kBroadcast,
    .is_plumbing = true,
    .peer = torch_is("x.expand(shape)"),
    .samples =
        Samples{"T[3, 1]; shape=[3, 4]", "T[3, 1]; shape=[2, -1, 4]", "T[]; shape=[2, 3]", "T[]; shape=[]",
                "T[1]; shape=[0]", "T[2, 0]; shape=[3, 2, -1]", "T[4]; shape=[4]", "T[1, 3, 1]; shape=[2, 3, 2]"},
};

// ---- slice ----------------------------------------------------------------------------------------------------------

// PyTorch's reading of a bound: a negative one counts from the end, and both are clamped to the dimension.
Expr clamped_bound(const Facts& facts, const Expr& bound, const Expr& size) {
  if (bound.is_constant(kInt64Max)) return size;
  Expr from_start = bound + size * lt(bound, 0);
  if (facts.less_equal(0, bound)) from_start = bound;
  if (facts.less_equal(bound, -1)) from_start = bound + size;
  return facts.max(facts.min(from_start, size), 0);
}

const OpDef kSlice{
    .name = "slice",
    .family = "view",
    .doc =
        "x[start:end:step] along a dimension. Negative bounds count from the end; bounds are clamped to the dimension.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = slice_attrs(),
    .infer = [](InferContext& c) -> Types { return {{c.type(0).dtype, sliced_shape(c, c.facts())}}; },
    .semantics = reference([](ReferenceContext& c) {
      const SliceRange range = slice_range(c, {});
      gather_elements(c, [&](Sizes index) {
        int64_t& at = index[static_cast<size_t>(range.dim)];
        at = range.start.constant() + at * range.step;
        return c.in().offset(index);
      });
    }),
    .gradient = gradient([](GradContext& g) {
      const SliceRange range = slice_range(g, g.facts());
      return unslice(g, g.dout(), range, g.in().size(range.dim));
    }),
    .loops =
        [](LoopContext& l) {
          const SliceRange range = slice_range(l, l.facts());
          const auto dim = static_cast<size_t>(range.dim);
          LoopPiece piece = l.whole(l.in(), l.type(0).shape);
          LoopDims dims = l.in().dims;
          if (range.length != piece.shape[dim]) dims[dim] = l.var(range.length);
          piece.index[dim] = range.start + range.step * l.at(dims[dim]);
          l.out(l.view(dims, piece));
        },
    .role = Role::kView,
    .is_plumbing = true,
    .peer = torch_is("torch.ops.aten.slice.Tensor(x, dim, start, end, step)"),
    .samples = Samples{"T[5]; start=1, end=4", "T[5, 3]; dim=1, start=-2", "T[6]; start=1, step=2", "T[7]; step=3",
                       "T[7, 2]; dim=-2, start=-6, end=-1, step=2", "T[3]; start=2, end=1", "T[3]; start=5",
                       "T[3]; end=-5", "T[0, 2]; end=3", "T[4, 0]; dim=0, start=1",
                       "T[2, 3, 4]; dim=1, start=1, end=100", "T[1]; step=5", "T[5]"},
};

// ---- flip -----------------------------------------------------------------------------------------------------------

std::vector<int64_t> flipped_dims(const OpView& v) {
  return v.ints("dims").empty() ? std::vector<int64_t>{} : v.dims("dims");
}

const OpDef kFlip{
    .name = "flip",
    .family = "view",
    .doc = "Reverses the order of elements along dimensions.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"dims", AttrKind::kInts, "the dimensions to reverse; none given means none"}},
    .infer = [](InferContext& c) -> Types {
      flipped_dims(c);
      return {c.type(0)};
    },
    .semantics = reference([](ReferenceContext& c) {
      const std::vector<int64_t> dims = flipped_dims(c);
      gather_elements(c, [&](Sizes index) {
        for (int64_t dim : dims)
          index[static_cast<size_t>(dim)] = c.in().size(dim) - 1 - index[static_cast<size_t>(dim)];
        return c.in().offset(index);
      });
    }),
    .gradient = gradient([](GradContext& g) { return g.op("flip", {g.dout()}, {{"dims", g.attr("dims")}}); }),
    .loops =
        [](LoopContext& l) {
          LoopPiece piece = l.whole(l.in(), l.type(0).shape);
          for (int64_t dim : flipped_dims(l)) {
            Expr& index = piece.index[static_cast<size_t>(dim)];
            index = l.type(0).size(dim) - 1 - index;
          }
          l.out(l.view(l.in().dims, piece));
        },
    .role = Role::kView,
    .peer = torch_is("torch.flip(x, dims)"),
    .samples = Samples{"T[5]; dims=[0]", "T[2, 3]; dims=[-1]", "T[2, 3, 2]; dims=[0, 2]", "T[2, 3]; dims=[]",
                       "T[]; dims=[0]", "T[0, 2]; dims=[0, 1]", "T[1]; dims=[0]"},
};

}  // namespace

void require_dims(const OpView& v, std::string_view what) {
  if (v.type(0).rank() == 0) fail("a scalar has no dimension to {}", what);
}

Shape reshaped(const Facts& facts, const Shape& from, std::span<const Expr> requested) {
  Shape to(requested.begin(), requested.end());
  size_t unknown = to.size();
  for (size_t dim = 0; dim < to.size(); ++dim) {
    if (to[dim].is_constant() && to[dim].constant() < -1) fail("{} has a negative size", to_string(requested));
    if (!to[dim].is_constant(-1)) continue;
    if (unknown != to.size()) fail("{} has more than one -1", to_string(requested));
    unknown = dim;
  }
  if (unknown != to.size()) to[unknown] = inferred_size(facts, from, to, unknown);
  if (facts.equal(element_count(from), element_count(to))) return to;
  fail("{} has {} elements, {} has {}: they must be {}", to_string(from), to_string(element_count(from)), to_string(to),
       to_string(element_count(to)), is_static(from) && is_static(to) ? "equal" : "equal whatever the symbols are");
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t dim = 0; dim < order.size(); ++dim) inverse[static_cast<size_t>(order[dim])] = static_cast<int64_t>(dim);
  return inverse;
}

const std::vector<AttrDef>& slice_attrs() {
  static const std::vector<AttrDef> attrs = {
      {"dim", AttrKind::kInt, "the dimension to slice", Attr(int64_t{0})},
      {"start", AttrKind::kExpr, "the first index", Attr(Expr(0))},
      {"end", AttrKind::kExpr, "one past the last index", Attr(Expr(kInt64Max))},
      {"step", AttrKind::kInt, "the distance of indices, at least 1", Attr(int64_t{1})}};
  return attrs;
}

SliceRange slice_range(const OpView& v, const Facts& facts) {
  require_dims(v, "slice");
  const int64_t dim = v.dim("dim");
  const int64_t step = v.integer("step");
  if (step < 1) fail("step {} is not positive", step);
  const Expr& size = v.type(0).size(dim);
  const Expr start = clamped_bound(facts, v.expr("start"), size);
  const Expr end = facts.max(clamped_bound(facts, v.expr("end"), size), start);
  return {dim, start, ceildiv(end - start, step), step};
}

Shape sliced_shape(const OpView& v, const Facts& facts) {
  const SliceRange range = slice_range(v, facts);
  Shape shape = v.type(0).shape;
  shape[static_cast<size_t>(range.dim)] = range.length;
  return shape;
}

Value unslice(Builder& b, Value part, const SliceRange& range, const Expr& size) {
  const auto dim = static_cast<size_t>(range.dim);
  if (range.step > 1) {
    Shape merged = part.shape();
    merged[dim] = merged[dim] * range.step;
    part = b.unsqueeze(part, range.dim + 1);
    std::vector<Expr> none(part.shape().size(), 0);
    std::vector<Expr> gap = none;
    gap[dim + 1] = range.step - 1;
    part = b.reshape(b.pad(part, none, gap), merged);
  }
  std::vector<Expr> low(part.shape().size(), 0);
  std::vector<Expr> high = low;
  low[dim] = range.start;
  high[dim] = size - range.start - part.size(range.dim);
  return b.pad(part, low, high);
}

OpRefs view_ops() { return {&kReshape, &kPermute, &kExpand, &kSlice, &kFlip}; }

}  // namespace tenon::ops
