// Views that the primitives express: one index of a dimension, merged and repeated dimensions, diagonals, triangles.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ops/index.h"
#include "ops/view.h"

namespace tenon::ops {
namespace {

const std::vector<OperandDef> kX = {{"x"}};

const AttrDef kDim = {"dim", AttrKind::kInt, "the dimension", Attr(int64_t{0})};

// The type of a composite that is a reshape to the shape that `rule` gives.
template <class Rule>
InferFn of_shape(Rule rule) {
  return [rule](InferContext& c) -> Types { return {{c.type(0).dtype, rule(c)}}; };
}

// A composite that is a reshape to the shape that `rule` gives.
template <class Rule>
OpDef reshape_op(std::string_view name, std::string_view doc, const std::vector<AttrDef>& attrs, Rule rule,
                 std::string_view torch, const Samples& samples) {
  return {.name = name,
          .family = "view",
          .doc = doc,
          .operands = kX,
          .attrs = attrs,
          .infer = of_shape(rule),
          .semantics = composite([rule](ExpandContext& e) { return e.reshape(e.in(), rule(e)); }),
          .gradient = ByExpansion{},
          .peer = torch_is(torch),
          .samples = samples};
}

// ---- select ---------------------------------------------------------------------------------------------------------

const OpDef kSelect{
    .name = "select",
    .family = "view",
    .doc = "One index of a dimension, which goes away. A negative index counts from the end.",
    .operands = kX,
    .attrs = {kDim, {"index", AttrKind::kExpr, "the index"}},
    .infer = [](InferContext& c) -> Types { return {{c.type(0).dtype, selected_shape(c, c.facts())}}; },
    .semantics = composite([](ExpandContext& e) {
      const int64_t dim = e.dim("dim");
      const auto index = known_index(e.facts(), e.expr("index"), e.in().size(dim));
      // A symbolic index is checked in the run.
      if (!index) return ops::index(e, e.in(), index_at(e, dim, e.expr("index")), true);
      return e.squeeze(e.slice(e.in(), dim, *index, *index + 1), dim);
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.select(x, dim, index)"),
    .samples = Samples{"T[3, 4]; dim=0, index=1", "T[3, 4]; dim=-1, index=-4", "T[5]; index=4",
                       "T[2, 3, 0]; dim=1, index=2", "T[1]; index=0", "T[2, 3, 2]; dim=1, index=-1"},
};

// ---- dimensions of size 1 -------------------------------------------------------------------------------------------

Shape squeezed(const OpView& v) {
  std::vector<int64_t> ones;
  for (int64_t dim : v.dims("dims")) {
    if (v.type(0).size(dim).is_constant(1)) ones.push_back(dim);
  }
  return without_dims(v.type(0).shape, ones, false);
}

const OpDef kSqueeze = reshape_op(
    "squeeze", "Drops dimensions of size 1. A dimension of another size, or of a symbolic size, stays.",
    {{"dims", AttrKind::kInts, "the dimensions to drop; none given means all", Attr(std::vector<int64_t>{})}}, squeezed,
    "torch.squeeze(x, dims) if dims else torch.squeeze(x)",
    {"T[1, 3, 1]", "T[1, 3, 1]; dims=[0]", "T[1, 3, 1]; dims=[-1, 1]", "T[]", "T[]; dims=[-1]", "T[0, 1]",
     "T[1]; dims=[0]", "T[2, 3]"});

Shape unsqueezed(const OpView& v) {
  Shape shape = v.type(0).shape;
  shape.insert(shape.begin() + normalize_dim(v.integer("dim"), v.type(0).rank() + 1), 1);
  return shape;
}

const OpDef kUnsqueeze =
    reshape_op("unsqueeze", "Inserts a dimension of size 1.", {{"dim", AttrKind::kInt, "its position in the result"}},
               unsqueezed, "torch.unsqueeze(x, dim)",
               {"T[3, 4]; dim=0", "T[3, 4]; dim=1", "T[3, 4]; dim=2", "T[3, 4]; dim=-1", "T[3, 4]; dim=-3",
                "T[]; dim=0", "T[]; dim=-1", "T[0]; dim=1"});

// ---- the order of dimensions ----------------------------------------------------------------------------------------

std::vector<int64_t> swapped(const OpView& v) {
  std::vector<int64_t> order = dims_between(0, v.type(0).rank());
  const int64_t a = v.dim("dim0");
  const int64_t b = v.dim("dim1");
  if (!order.empty()) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return order;
}

std::vector<int64_t> moved(const OpView& v) {
  const int64_t rank = v.type(0).rank();
  const auto from = v.ints("source");
  const auto to = v.ints("destination");
  if (from.size() != to.size()) fail("{} dimensions are to move to {} places", from.size(), to.size());
  if (rank == 0 || from.empty()) return normalize_dims({}, rank);
  normalize_dims(from, rank);  // refuses repeated ones
  normalize_dims(to, rank);
  std::vector<int64_t> order(static_cast<size_t>(rank), -1);
  std::vector<int64_t> staying = normalize_dims({}, rank);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t dim = normalize_dim(from[i], rank);
    order[static_cast<size_t>(normalize_dim(to[i], rank))] = dim;
    std::erase(staying, dim);
  }
  for (size_t place = 0, next = 0; place < order.size(); ++place) {
    if (order[place] < 0) order[place] = staying[next++];
  }
  return order;
}

using OrderRule = std::vector<int64_t> (*)(const OpView&);

// A composite that permutes the dimensions into the order that `rule` gives.
OpDef permute_op(std::string_view name, std::string_view doc, const std::vector<AttrDef>& attrs, OrderRule rule,
                 std::string_view torch, const Samples& samples) {
  const auto permuted = [rule](const OpView& v) {
    Shape shape;
    for (int64_t dim : rule(v)) shape.push_back(v.type(0).size(dim));
    return shape;
  };
  return {.name = name,
          .family = "view",
          .doc = doc,
          .operands = kX,
          .attrs = attrs,
          .infer = of_shape(permuted),
          .semantics = composite([rule](ExpandContext& e) { return e.permute(e.in(), rule(e)); }),
          .gradient = ByExpansion{},
          .peer = torch_is(torch),
          .samples = samples};
}

const OpDef kTranspose = permute_op("transpose", "Swaps two dimensions.",
                                    {{"dim0", AttrKind::kInt, "one dimension"}, {"dim1", AttrKind::kInt, "the other"}},
                                    swapped, "torch.transpose(x, dim0, dim1)",
                                    {"T[3, 4]; dim0=0, dim1=1", "T[2, 3, 4]; dim0=-1, dim1=0",
                                     "T[2, 3]; dim0=1, dim1=1", "T[]; dim0=0, dim1=-1", "T[2, 0, 3]; dim0=1, dim1=2"});

const OpDef kMovedim = permute_op(
    "movedim", "Moves dimensions to other places; the rest keep their order.",
    {{"source", AttrKind::kInts, "the dimensions to move"}, {"destination", AttrKind::kInts, "where each goes"}}, moved,
    "torch.movedim(x, source, destination)",
    {"T[2, 3, 4]; source=[0], destination=[-1]", "T[2, 3, 4]; source=[2, 0], destination=[0, 1]",
     "T[2, 3]; source=[], destination=[]", "T[]; source=[0], destination=[-1]"});

// ---- merging, splitting and repeating dimensions --------------------------------------------------------------------

Shape flattened(const OpView& v) {
  const Shape& shape = v.type(0).shape;
  if (shape.empty()) return {1};
  const int64_t start = v.dim("start");
  const int64_t end = v.dim("end");
  if (start > end) fail("start {} is after end {}", start, end);
  Shape result(shape.begin(), shape.begin() + start);
  result.push_back(
      element_count(std::span(shape).subspan(static_cast<size_t>(start), static_cast<size_t>(end - start + 1))));
  result.insert(result.end(), shape.begin() + end + 1, shape.end());
  return result;
}

const OpDef kFlatten = reshape_op("flatten", "Merges the dimensions from start to end, both included, into one.",
                                  {{"start", AttrKind::kInt, "the first dimension", Attr(int64_t{0})},
                                   {"end", AttrKind::kInt, "the last dimension", Attr(int64_t{-1})}},
                                  flattened, "torch.flatten(x, start, end)",
                                  {"T[2, 3, 2]", "T[2, 3, 2]; start=1", "T[2, 3, 2]; end=-2",
                                   "T[2, 3, 2]; start=1, end=1", "T[]", "T[2, 0, 3]", "T[4]"});

Shape unflattened(const OpView& v, const Facts& facts) {
  const int64_t dim = v.dim("dim");
  require_dims(v, "unflatten");
  const Shape sizes = reshaped(facts, {v.type(0).size(dim)}, v.exprs("sizes"));
  Shape shape = v.type(0).shape;
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin() + dim, sizes.begin(), sizes.end());
  return shape;
}

const OpDef kUnflatten =
    reshape_op("unflatten", "Splits one dimension into several. One size may be -1: it is inferred.",
               {kDim, {"sizes", AttrKind::kExprs, "the sizes that it becomes"}},
               [](const auto& c) { return unflattened(c, c.facts()); }, "torch.unflatten(x, dim, sizes)",
               {"T[6]; sizes=[2, 3]", "T[2, 6]; dim=-1, sizes=[-1, 2]", "T[0, 4]; dim=1, sizes=[2, -1]",
                "T[4, 2]; dim=0, sizes=[1, 4, 1]"});

// Each dimension as a pair (repeat, size): as x is seen, as it is stretched, and merged again.
struct Repetition {
  Shape seen;
  Shape stretched;
  Shape merged;
};

Repetition repetition(const OpView& v) {
  const Shape& shape = v.type(0).shape;
  const auto repeats = v.exprs("repeats");
  if (repeats.size() < shape.size()) fail("{} repeats are given for {}", repeats.size(), to_string(v.type(0)));
  const size_t added = repeats.size() - shape.size();
  Repetition result;
  for (size_t dim = 0; dim < repeats.size(); ++dim) {
    const Expr& repeat = repeats[dim];
    if (repeat.is_constant() && repeat.constant() < 0) fail("repeats {} has a negative number", to_string(repeats));
    const Expr size = dim < added ? Expr(1) : shape[dim - added];
    result.seen.insert(result.seen.end(), {1, size});
    result.stretched.insert(result.stretched.end(), {repeat, size});
    result.merged.push_back(repeat * size);
  }
  return result;
}

const OpDef kRepeat{
    .name = "repeat",
    .family = "view",
    .doc = "Tiles x: each dimension as many times over as `repeats` says, which may add leading dimensions.",
    .operands = kX,
    .attrs = {{"repeats", AttrKind::kExprs, "how often, for each dimension of the result"}},
    .infer = of_shape([](const OpView& v) { return repetition(v).merged; }),
    .semantics = composite([](ExpandContext& e) {
      const Repetition plan = repetition(e);
      return e.reshape(e.expand(e.reshape(e.in(), plan.seen), plan.stretched), plan.merged);
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("x.repeat(repeats)"),
    .samples = Samples{"T[2, 3]; repeats=[2, 1]", "T[3]; repeats=[2, 2]", "T[]; repeats=[]", "T[]; repeats=[3]",
                       "T[2, 1]; repeats=[0, 2]", "T[0, 2]; repeats=[2, 2]", "T[2, 2]; repeats=[1, 2, 3]"},
};

// ---- roll -----------------------------------------------------------------------------------------------------------

// How many elements a roll moves from the end to the front; nothing if the sizes do not tell.
std::optional<Expr> rolled_to_front(const Facts& facts, const Expr& shift, const Expr& size) {
  if (size.is_constant(0)) return Expr(0);
  if (size.is_constant() && shift.is_constant()) return mod(shift, size);
  if (facts.less_equal(0, shift) && facts.less_equal(shift, size)) return shift;
  if (facts.less_equal(-size, shift) && facts.less_equal(shift, 0)) return shift + size;
  return std::nullopt;
}

Value rolled(ExpandContext& e, Value x, const Expr& shift, int64_t dim) {
  const Expr& size = x.size(dim);
  if (const auto front = rolled_to_front(e.facts(), shift, size)) {
    return e.concat({e.slice(x, dim, size - *front, size), e.slice(x, dim, 0, size - *front)}, dim);
  }
  std::vector<Value> indices(static_cast<size_t>(dim) + 1);
  indices.back() = e.op("remainder", {e.iota(size) - symbolic_scalar(e, shift), symbolic_scalar(e, size)});
  return index(e, x, indices);
}

void check_roll(const OpView& v) {
  const size_t shifts = v.exprs("shifts").size();
  const size_t dims = v.ints("dims").size();
  if (dims == 0 ? shifts != 1 : shifts != dims) fail("{} shifts are given for {} dimensions", shifts, dims);
  for (int64_t dim : v.ints("dims")) normalize_dim(dim, v.type(0).rank());
  if (dims > 0) require_dims(v, "roll");
}

const OpDef kRoll{
    .name = "roll",
    .family = "view",
    .doc = "Moves the elements along dimensions by shifts; elements that leave at one end enter at the other.",
    .operands = kX,
    .attrs = {{"shifts", AttrKind::kExprs, "how far, one for each of dims"},
              {"dims", AttrKind::kInts, "the dimensions; none given rolls the flattened x",
               Attr(std::vector<int64_t>{})}},
    .infer = [](InferContext& c) -> Types {
      check_roll(c);
      return {c.type(0)};
    },
    .semantics = composite([](ExpandContext& e) {
      const auto dims = e.ints("dims");
      if (dims.empty()) {
        const Value flat = e.reshape(e.in(), {element_count(e.in().shape())});
        return e.reshape(rolled(e, flat, e.exprs("shifts")[0], 0), e.in().shape());
      }
      Value x = e.in();
      for (size_t i = 0; i < dims.size(); ++i) x = rolled(e, x, e.exprs("shifts")[i], normalize_dim(dims[i], x.rank()));
      return x;
    }),
    .gradient = gradient([](GradContext& g) {
      std::vector<Expr> back;
      for (const Expr& shift : g.exprs("shifts")) back.push_back(-shift);
      return g.op("roll", {g.dout()}, {{"shifts", back}, {"dims", g.attr("dims")}});
    }),
    .peer = torch_is("torch.roll(x, shifts, dims)"),
    .samples = Samples{"T[5]; shifts=[2], dims=[0]", "T[3, 4]; shifts=[1]", "T[3, 4]; shifts=[-1, 6], dims=[0, -1]",
                       "T[0, 2]; shifts=[1], dims=[0]", "T[4]; shifts=[0], dims=[0]",
                       "T[3, 2]; shifts=[1, 1], dims=[0, 0]", "T[]; shifts=[3]"},
};

// ---- diagonals and triangles ----------------------------------------------------------------------------------------

const OpDef kDiagonal{
    .name = "diagonal",
    .family = "view",
    .doc = "The diagonal of two dimensions, as the last dimension. A positive offset is above the main one.",
    .operands = kX,
    .attrs = diagonal_attrs(),
    .infer = [](InferContext& c) -> Types { return {{c.type(0).dtype, diagonal_shape(c, c.facts())}}; },
    .semantics = composite([](ExpandContext& e) {
      const Diagonal diagonal = diagonal_of(e, e.facts());
      const Value last_two = e.permute(e.in(), diagonal.order);
      return index(e, last_two, diagonal_indices(e, last_two.rank() - 2, diagonal.length, e.integer("offset")));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.diagonal(x, offset, dim1, dim2)"),
    .samples = Samples{"T[3, 3]", "T[3, 4]; offset=1", "T[4, 3]; offset=-2", "T[2, 3, 4]; dim1=0, dim2=-1",
                       "T[2, 3, 3]; dim1=2, dim2=1", "T[2, 2]; offset=5", "T[0, 3]", "T[1, 1]; offset=-1"},
};

Shape embedded_shape(const OpView& v) {
  const TensorType& x = v.type(0);
  if (x.rank() == 0) fail("a scalar is not a diagonal");
  const int64_t dim1 = normalize_dim(v.integer("dim1"), x.rank() + 1);
  const int64_t dim2 = normalize_dim(v.integer("dim2"), x.rank() + 1);
  if (dim1 == dim2) fail("dim1 and dim2 are the same dimension {}", dim1);
  const Expr size = x.size(x.rank() - 1) + std::abs(v.integer("offset"));
  Shape shape;
  for (int64_t dim = 0, next = 0; dim <= x.rank(); ++dim)
    shape.push_back(dim == dim1 || dim == dim2 ? size : x.size(next++));
  return shape;
}

const OpDef kDiagEmbed{
    .name = "diag_embed",
    .family = "view",
    .doc = "Zeros with the last dimension of x as the diagonal of two new dimensions. The inverse of `diagonal`.",
    .operands = kX,
    .attrs = {{"offset", AttrKind::kInt, "how far above the main diagonal", Attr(int64_t{0})},
              {"dim1", AttrKind::kInt, "the dimension of rows, in the result", Attr(int64_t{-2})},
              {"dim2", AttrKind::kInt, "the dimension of columns, in the result", Attr(int64_t{-1})}},
    .infer = of_shape(embedded_shape),
    .semantics = composite([](ExpandContext& e) {
      const Value zeros = e.full(Expr(0), embedded_shape(e), e.in().dtype());
      return e.op("diagonal_scatter", {zeros, e.in()},
                  {{"offset", e.attr("offset")}, {"dim1", e.attr("dim1")}, {"dim2", e.attr("dim2")}});
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.diag_embed(x, offset, dim1, dim2)"),
    .samples =
        Samples{"T[3]", "T[2, 3]; offset=1", "T[2, 2]; offset=-1, dim1=0, dim2=2", "T[2, 3]; dim1=1, dim2=0", "T[0]"},
};

// x where `compare` holds between columns and rows + k, else zero.
Value triangle(ExpandContext& e, std::string_view compare) {
  const Value x = e.in();
  const Value rows = aligned_iota(e, x.size(x.rank() - 2), 0, 2) + symbolic_scalar(e, e.expr("diagonal"));
  const Value columns = e.iota(x.size(x.rank() - 1));
  return e.where(e.compare(compare, columns, rows), x, e.integer(0, x.dtype()));
}

OpDef triangle_op(std::string_view name, std::string_view doc, std::string_view compare, std::string_view torch) {
  return {.name = name,
          .family = "view",
          .doc = doc,
          .operands = kX,
          .attrs = {{"diagonal", AttrKind::kExpr, "how far above the main diagonal", Attr(Expr(0))}},
          .infer = [](InferContext& c) -> Types {
            if (c.type(0).rank() < 2) fail("{} is not a matrix", to_string(c.type(0)));
            return {c.type(0)};
          },
          .semantics = composite([compare](ExpandContext& e) { return triangle(e, compare); }),
          .gradient = ByExpansion{},
          .peer = torch_is(torch),
          .samples = Samples{"T[3, 4]", "T[3, 3]; diagonal=1", "T[4, 3]; diagonal=-1", "T[2, 2, 2]", "T[0, 2]",
                             "T[1, 1]; diagonal=-3", "T[2, 3]; diagonal=9"}};
}

const OpDef kTril =
    triangle_op("tril", "The elements on and below a diagonal; the others are zero.", "le", "torch.tril(x, diagonal)");
const OpDef kTriu =
    triangle_op("triu", "The elements on and above a diagonal; the others are zero.", "ge", "torch.triu(x, diagonal)");

// ---- as_strided -----------------------------------------------------------------------------------------------------

Shape strided_shape(const OpView& v, const Facts& facts) {
  const auto size = v.exprs("size");
  const auto stride = v.exprs("stride");
  if (size.size() != stride.size()) fail("size {} and stride {} differ in length", to_string(size), to_string(stride));
  Expr last = v.expr("offset");
  for (size_t dim = 0; dim < size.size(); ++dim) {
    if (facts.less_equal(size[dim], -1)) fail("size {} has a negative number", to_string(size));
    if (facts.less_equal(stride[dim], -1)) fail("stride {} has a negative number", to_string(stride));
    last += (size[dim] - 1) * stride[dim];
  }
  const Expr count = element_count(v.type(0).shape);
  const bool outside = facts.less_equal(v.expr("offset"), -1) || facts.less_equal(count, last);
  if (facts.less_equal(1, element_count(size)) && outside) {
    fail("size {} with stride {} and offset {} reaches elements {} to {} of {}", to_string(size), to_string(stride),
         to_string(v.expr("offset")), to_string(v.expr("offset")), to_string(last), to_string(count));
  }
  return {size.begin(), size.end()};
}

const OpDef kAsStrided{
    .name = "as_strided",
    .family = "view",
    .doc =
        "Element offset + sum(index * stride) of x in row-major order, for each index of `size`. Bounds are checked.",
    .operands = kX,
    .attrs = {{"size", AttrKind::kExprs, "the result's shape"},
              {"stride", AttrKind::kExprs, "elements from one index to the next, for each dimension"},
              {"offset", AttrKind::kExpr, "the first element", Attr(Expr(0))}},
    .infer = [](InferContext& c) -> Types { return {{c.type(0).dtype, strided_shape(c, c.facts())}}; },
    .semantics = composite([](ExpandContext& e) {
      const Shape size = strided_shape(e, e.facts());
      const auto rank = static_cast<int64_t>(size.size());
      Value element = symbolic_scalar(e, e.expr("offset"));
      for (int64_t dim = 0; dim < rank; ++dim) {
        const auto at = static_cast<size_t>(dim);
        element = element + aligned_iota(e, size[at], dim, rank) * symbolic_scalar(e, e.exprs("stride")[at]);
      }
      return index(e, e.reshape(e.in(), {element_count(e.in().shape())}), {element});
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.as_strided(x.contiguous(), size, stride, offset)"),
    .samples =
        Samples{"T[3, 4]; size=[2, 2], stride=[4, 1], offset=1", "T[5]; size=[3, 3], stride=[1, 1]",
                "T[4]; size=[], stride=[]", "T[6]; size=[2], stride=[0], offset=5", "T[3]; size=[0, 2], stride=[9, 9]",
                "T[]; size=[2, 2], stride=[0, 0]", "T[2, 3]; size=[3, 2], stride=[1, 3]"},
};

}  // namespace

Shape selected_shape(const OpView& v, const Facts& facts) {
  require_dims(v, "select from");
  known_index(facts, v.expr("index"), v.type(0).size(v.dim("dim")));  // refuses one that is out of range
  return without_dims(v.type(0).shape, {v.dim("dim")}, false);
}

std::optional<Expr> known_index(const Facts& facts, const Expr& index, const Expr& size) {
  const bool from_start = facts.less_equal(0, index);
  const bool from_end = facts.less_equal(index, -1);
  if ((from_start && facts.less_equal(size, index)) || (from_end && facts.less_equal(index + size, -1))) {
    fail("index {} is out of range for a dimension of size {}", to_string(index), to_string(size));
  }
  if (from_start && facts.less_equal(index + 1, size)) return index;
  if (from_end && facts.less_equal(0, index + size)) return index + size;
  return std::nullopt;
}

std::vector<Value> index_at(Builder& b, int64_t dim, const Expr& index) {
  std::vector<Value> indices(static_cast<size_t>(dim) + 1);
  indices.back() = symbolic_scalar(b, index);
  return indices;
}

const std::vector<AttrDef>& diagonal_attrs() {
  static const std::vector<AttrDef> attrs = {
      {"offset", AttrKind::kInt, "how far above the main diagonal", Attr(int64_t{0})},
      {"dim1", AttrKind::kInt, "the dimension of rows", Attr(int64_t{0})},
      {"dim2", AttrKind::kInt, "the dimension of columns", Attr(int64_t{1})}};
  return attrs;
}

Diagonal diagonal_of(const OpView& v, const Facts& facts) {
  const TensorType& x = v.type(0);
  if (x.rank() < 2) fail("{} has fewer than two dimensions", to_string(x));
  const int64_t dim1 = v.dim("dim1");
  const int64_t dim2 = v.dim("dim2");
  if (dim1 == dim2) fail("dim1 and dim2 are the same dimension {}", dim1);
  Diagonal diagonal;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != dim1 && dim != dim2) diagonal.order.push_back(dim);
  }
  diagonal.order.insert(diagonal.order.end(), {dim1, dim2});
  const Expr offset = v.integer("offset");
  const Expr rows = x.size(dim1) + min(offset, 0);
  const Expr columns = x.size(dim2) - max(offset, 0);
  diagonal.length = facts.max(facts.min(rows, columns), 0);
  return diagonal;
}

Shape diagonal_shape(const OpView& v, const Facts& facts) {
  const Diagonal diagonal = diagonal_of(v, facts);
  Shape shape;
  for (int64_t dim : diagonal.order) shape.push_back(v.type(0).size(dim));
  shape.pop_back();
  shape.back() = diagonal.length;
  return shape;
}

std::vector<Value> diagonal_indices(Builder& b, int64_t leading, const Expr& length, int64_t offset) {
  std::vector<Value> indices(static_cast<size_t>(leading));
  indices.push_back(b.iota(length) + b.integer(std::max<int64_t>(-offset, 0)));
  indices.push_back(b.iota(length) + b.integer(std::max<int64_t>(offset, 0)));
  return indices;
}

OpRefs rearranging_ops() {
  return {&kSelect, &kSqueeze, &kUnsqueeze, &kTranspose, &kMovedim, &kFlatten, &kUnflatten,
          &kRepeat, &kRoll,    &kDiagonal,  &kDiagEmbed, &kTril,    &kTriu,    &kAsStrided};
}

}  // namespace tenon::ops
