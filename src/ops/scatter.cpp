// Writes that `index_put` expresses, and writes through a view.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/index.h"
#include "ops/view.h"

namespace tenon::ops {
namespace {

const AttrDef kDim = {"dim", AttrKind::kInt, "the dimension that is indexed", Attr(int64_t{0})};

void check_same_dtype(const OpView& v, size_t source) {
  if (v.type(0).dtype == v.type(source).dtype) return;
  fail("a source of dtype {} cannot be written into {}", name_of(v.type(source).dtype), name_of(v.type(0).dtype));
}

void check_fits(const InferContext& c, size_t source, const Shape& place) {
  if (c.facts().equal(c.type(source).shape, place)) return;
  fail("{} is {}, but the place for it is {}", c.op().operands.get()[source].name, to_string(c.type(source)),
       to_string(place));
}

// ---- scatter --------------------------------------------------------------------------------------------------------

// The identity of a reduction: it leaves every value unchanged.
Value identity_of(Builder& b, std::string_view reduce, DType dtype) {
  if (reduce == "mul") return b.integer(1, dtype);
  if (reduce == "add" || reduce == "mean") return b.integer(0, dtype);
  const bool lowest = reduce == "amax";
  if (is_float(dtype)) return b.scalar(lowest ? -kInfinity : kInfinity, dtype);
  if (dtype == DType::kBool || dtype == DType::kU8) return b.integer(lowest ? 0 : 255, dtype);
  const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - 8 * size_of(dtype));
  return b.integer(lowest ? -largest - 1 : largest, dtype);
}

// The part of src that the index covers.
Value covered(Builder& b, Value src, Value index) {
  for (int64_t dim = 0; dim < src.rank(); ++dim) {
    if (src.size(dim) != index.size(dim)) src = b.slice(src, dim, 0, index.size(dim));
  }
  return src;
}

// The written values and, with include_self, the old ones, divided by how many they are.
Value mean_of(ExpandContext& e, Value sum, Value written, const std::vector<Value>& places) {
  const Value before = e.full_like(sum, e.flag("include_self") ? 1 : 0);
  const Value count = index_put(e, before, e.full_like(written, 1), places, "add");
  const Value at_least_one = e.maximum(count, e.integer(1, count.dtype()));
  return is_float(sum.dtype()) ? sum / at_least_one : e.op("floor_div", {sum, at_least_one});
}

std::vector<Value> expand_scatter(ExpandContext& e) {
  const std::string& reduce = e.string("reduce");
  const bool mean = reduce == "mean";
  const Value at = with_dims(e, e.in(1));
  const std::vector<Value> places = index_places(e, at, e.dim("dim"));
  // The mean divides after it has added, and rounds once.
  Value x = with_dims(e, mean ? e.in_wide(0) : e.in(0));
  const Value written = covered(e, with_dims(e, mean ? e.in_wide(2) : e.in(2)), at);
  if (reduce != "set" && !e.flag("include_self")) x = index_put(e, x, identity_of(e, reduce, x.dtype()), places, "set");
  Value result = index_put(e, x, written, places, mean ? "add" : reduce);
  if (mean) result = mean_of(e, result, written, places);
  return {e.reshape(e.cast(result, e.in().dtype()), e.in().shape())};
}

void check_source(InferContext& c) {
  check_same_dtype(c, 2);
  const auto fits = [&](const Expr& index, const Expr& source) { return c.facts().less_equal(index, source); };
  if (std::ranges::equal(shape_with_dims(c.type(1)), shape_with_dims(c.type(2)), fits)) return;
  fail("the index {} is not within the source {}", to_string(c.type(1)), to_string(c.type(2)));
}

// Bool has no mean.
const Samples kMeanSamples = [] {
  Samples samples;
  for (const char* dtype : {"f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8"}) {
    samples.push_back(fmt::format("{0}[4], i64[6] in 0..3, {0}[6]; reduce=\"mean\"", dtype));
    samples.push_back(fmt::format("{0}[4], i64[6] in 0..3, {0}[6]; reduce=\"mean\", include_self=false", dtype));
  }
  return samples;
}();

const OpDef kScatter{
    .name = "scatter",
    .family = "index",
    .doc =
        "x with each element of src that the index covers written at its place, with the index in dimension `dim`. "
        "Where values meet, `reduce` combines them: set (the last in row-major order stays), add, mul, amax, amin or "
        "mean. Without `include_self` the old value takes no part. Negative indices are out of range.",
    .operands = std::vector<OperandDef>{{"x"}, {"index", kIndices}, {"src"}},
    .attrs = {kDim,
              {"reduce", AttrKind::kString, "set, add, mul, amax, amin or mean", Attr(std::string("set"))},
              {"include_self", AttrKind::kBool, "the old value takes part in the reduction", Attr(true)}},
    .infer = [](InferContext& c) -> Types {
      constexpr std::string_view kKnown[] = {"set", "add", "mul", "amax", "amin", "mean"};
      const std::string& reduce = c.string("reduce");
      if (std::ranges::find(kKnown, reduce) == std::end(kKnown)) {
        fail("reduce \"{}\" is not one of set, add, mul, amax, amin, mean", reduce);
      }
      if (reduce == "mean" && c.type(0).dtype == DType::kBool) fail("bool has no mean");
      check_places(c, 0, 1);
      check_source(c);
      return {c.type(0)};
    },
    .semantics = composite(expand_scatter),
    .gradient = ByExpansion{},
    // PyTorch has no gradient for a source that is larger than the index.
    .peer = torch_is("(lambda at, src: torch.scatter(x, dim, at, src) if reduce == 'set' else torch.scatter_reduce("
                     "x, dim, at, src, {'add': 'sum', 'mul': 'prod'}.get(reduce, reduce), include_self=include_self))("
                     "index.long(), src[tuple(slice(n) for n in index.shape)])"),
    // In PyTorch the result of colliding "set" writes is undefined.
    .samples =
        Samples{"T[3, 4], i64[1, 4] in 0..2, T[1, 4]", "T[3, 4], i32[2, 1] in 0..3, T[3, 2]; dim=-1",
                "T[], i64[] in 0..0, T[]", "T[3], i64[0], T[2]", "T[2, 3, 2], i64[2, 1, 2] in 0..2, T[2, 3, 2]; dim=1",
                "T[3, 2], i64[4, 2] in 0..2, T[5, 2]; reduce=\"add\"",
                "T[4], i64[6] in 0..3, T[6]; reduce=\"add\", include_self=false",
                "T[4], i64[6] in 0..3, T[6]; reduce=\"mul\"",
                "T[4], i64[6] in 0..3, T[6]; reduce=\"mul\", include_self=false",
                "T[4], i64[5] in 0..3, T[5]; reduce=\"amax\"",
                "T[4], i64[5] in 0..3, T[5]; reduce=\"amax\", include_self=false",
                "T[2, 3], i64[2, 4] in 0..2, T[2, 4]; dim=1, reduce=\"amin\"",
                "T[4], i64[5] in 0..3, T[5]; reduce=\"amin\", include_self=false"} +
        kMeanSamples,
};

// ---- a vector of indices --------------------------------------------------------------------------------------------

// The place of a source: x with the indices' length in dimension `dim`.
Shape place_along(const OpView& v) {
  require_dims(v, "index");
  if (v.type(1).rank() > 1) fail("the index is {}, not a vector", to_string(v.type(1)));
  Shape shape = v.type(0).shape;
  shape[static_cast<size_t>(v.dim("dim"))] = element_count(v.type(1).shape);
  return shape;
}

Types written_along(InferContext& c) {
  check_same_dtype(c, 2);
  check_fits(c, 2, place_along(c));
  return {c.type(0)};
}

Semantics write_along(std::string_view reduce) {
  return composite([reduce](ExpandContext& e) {
    const Value source = e.reshape(e.in(2), place_along(e));
    return index_put(e, e.in(0), source, index_along(e, e.dim("dim"), e.in(1)), reduce);
  });
}

OpDef write_along_op(std::string_view name, std::string_view doc, std::string_view reduce, std::string_view torch,
                     const Samples& samples) {
  return {.name = name,
          .family = "index",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}, {"index", kIndices}, {"source"}},
          .attrs = {kDim},
          .infer = written_along,
          .semantics = write_along(reduce),
          .gradient = ByExpansion{},
          .peer = torch_is(torch),
          .samples = samples};
}

const OpDef kWritesAlong[] = {
    write_along_op("index_add",
                   "x with the entries of a source added along a dimension, where a vector of indices says.", "add",
                   "torch.index_add(x, dim, index, source)",
                   {"T[4, 3], i64[2] in 0..3, T[2, 3]", "T[2, 3], i32[4] in 0..2, T[2, 4]; dim=-1",
                    "T[3], i64[0], T[0]", "T[3], i64[5] in 0..2, T[5]"}),
    write_along_op(
        "index_copy",
        "x with the entries of a source written along a dimension, where a vector of indices says. Where indices "
        "repeat, the last entry stays.",
        "set", "torch.index_copy(x, dim, index.long(), source)",
        {"T[4, 3], i64[1] in 0..3, T[1, 3]", "T[2, 3], i32[1] in 0..2, T[2, 1]; dim=-1", "T[3], i64[0], T[0]"}),
};

const OpDef kIndexFill{
    .name = "index_fill",
    .family = "index",
    .doc = "x with one value at all entries along a dimension that a vector of indices names.",
    .operands = std::vector<OperandDef>{{"x"}, {"index", kIndices}, {"value"}},
    .attrs = {kDim},
    .infer = [](InferContext& c) -> Types {
      check_same_dtype(c, 2);
      place_along(c);  // refuses an index that is not a vector
      check_fits(c, 2, {});
      return {c.type(0)};
    },
    .semantics = composite(
        [](ExpandContext& e) { return index_put(e, e.in(0), e.in(2), index_along(e, e.dim("dim"), e.in(1)), "set"); }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.index_fill(x, dim, index.long(), value)"),
    .samples = Samples{"T[4, 3], i64[2] in 0..3, T[]", "T[2, 3], i32[1] in 0..2, T[]; dim=-1", "T[3], i64[0], T[]"},
};

// ---- through a view -------------------------------------------------------------------------------------------------

// The rule of a write through the view that has this shape.
template <class Rule>
InferFn written_through(Rule shape) {
  return [shape](InferContext& c) -> Types {
    check_fits(c, 1, shape(c, c.facts()));
    return {c.type(0)};
  };
}

// The written values in the view's shape and the dtype of x.
Value source_of_shape(ExpandContext& e, const Shape& shape) {
  return e.reshape(e.cast(e.in(1), e.in().dtype()), shape);
}

const OpDef kSliceScatter{
    .name = "slice_scatter",
    .family = "index",
    .doc = "x with x[start:end:step] replaced along a dimension. The inverse of `slice`.",
    .operands = std::vector<OperandDef>{{"x"}, {"src"}},
    .attrs = slice_attrs(),
    .infer = written_through(sliced_shape),
    .semantics = composite([](ExpandContext& e) {
      const SliceRange range = slice_range(e, e.facts());
      const Expr size = e.in().size(range.dim);
      const Value src = source_of_shape(e, sliced_shape(e, e.facts()));
      if (range.length == size) return src;  // as functionalized models often have it
      const Value inside = unslice(e, e.full(Expr(1), src.shape(), DType::kBool), range, size);
      return e.where(inside, unslice(e, src, range, size), e.in());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.slice_scatter(x, src, dim, start, end, step)"),
    .samples = Samples{"T[5], T[2]; start=1, end=3", "T[2, 6], T[2, 3]; dim=1, start=1, step=2", "T[3, 2], T[3, 2]",
                       "T[4], T[0]; start=3, end=1", "T[7], T[2]; start=-4, step=2", "T[0, 2], T[0, 2]",
                       "T[2, 3, 2], T[2, 1, 2]; dim=-2, start=2", "f32[4], i64[2]; end=2"},
};

const OpDef kSelectScatter{
    .name = "select_scatter",
    .family = "index",
    .doc = "x with one index of a dimension replaced. The inverse of `select`.",
    .operands = std::vector<OperandDef>{{"x"}, {"src"}},
    .attrs = {kDim, {"index", AttrKind::kExpr, "the index; a negative one counts from the end"}},
    .infer = written_through(selected_shape),
    .semantics = composite([](ExpandContext& e) {
      const int64_t dim = e.dim("dim");
      const Value src = source_of_shape(e, selected_shape(e, e.facts()));
      const auto index = known_index(e.facts(), e.expr("index"), e.in().size(dim));
      // A symbolic index is checked in the run.
      if (!index) return index_put(e, e.in(), src, index_at(e, dim, e.expr("index")), "set", true);
      const Value inside =
          e.compare("eq", aligned_iota(e, e.in().size(dim), dim, e.in().rank()), symbolic_scalar(e, *index));
      return e.where(inside, e.unsqueeze(src, dim), e.in());
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.select_scatter(x, src, dim, index)"),
    .samples = Samples{"T[3, 4], T[4]; index=1", "T[3, 4], T[3]; dim=-1, index=-1", "T[5], T[]; index=0",
                       "T[2, 0], T[0]; index=1", "T[2, 3, 2], T[2, 2]; dim=1, index=2"},
};

const OpDef kDiagonalScatter{
    .name = "diagonal_scatter",
    .family = "index",
    .doc = "x with a diagonal replaced. The inverse of `diagonal`.",
    .operands = std::vector<OperandDef>{{"x"}, {"src"}},
    .attrs = diagonal_attrs(),
    .infer = written_through(diagonal_shape),
    .semantics = composite([](ExpandContext& e) {
      const Diagonal diagonal = diagonal_of(e, e.facts());
      const Value last_two = e.permute(e.in(), diagonal.order);
      const auto indices = diagonal_indices(e, last_two.rank() - 2, diagonal.length, e.integer("offset"));
      const Value written = index_put(e, last_two, source_of_shape(e, diagonal_shape(e, e.facts())), indices, "set");
      return e.permute(written, inverse_of(diagonal.order));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.diagonal_scatter(x, src, offset, dim1, dim2)"),
    .samples = Samples{"T[3, 3], T[3]", "T[3, 4], T[3]; offset=1", "T[2, 3, 4], T[3, 2]; dim1=0, dim2=-1",
                       "T[4, 3], T[2]; offset=-2", "T[2, 2], T[0]; offset=2"},
};

// ---- masked_scatter -------------------------------------------------------------------------------------------------

const OpDef kMaskedScatter{
    .name = "masked_scatter",
    .family = "index",
    .doc =
        "x with the elements where a mask is true replaced by those of a source, one after the other in row-major "
        "order. x and the mask broadcast together. Too few elements in the source are a run-time error.",
    .operands = std::vector<OperandDef>{{"x"}, {"mask", kBools}, {"source"}},
    .infer = [](InferContext& c) -> Types {
      check_same_dtype(c, 2);
      return {{c.type(0).dtype, broadcast(c.type(0).shape, c.type(1).shape)}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Shape shape = broadcast(e.in(0).shape(), e.in(1).shape());
      const Value mask = e.reshape(e.expand(e.in(1), shape), {element_count(shape)});
      const Value nth = e.op("cumsum", {e.cast(mask, DType::kI64)}, {{"dim", int64_t{0}}});
      // Element 0 is for where the mask is false, so that a source without elements is one that nothing may be read
      // from.
      const Value source = e.pad(e.reshape(e.in(2), {element_count(e.in(2).shape())}), {1}, {0});
      const Value read = index(e, source, {e.where(mask, nth, e.integer(0))});
      return e.where(e.in(1), e.reshape(read, shape), e.in(0));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.masked_scatter(x, mask, source)"),
    .samples = Samples{"T[3, 4], bool[3, 4], T[12]", "T[3, 1], bool[4], T[3, 4]", "T[4], bool[], T[4]",
                       "T[0], bool[0], T[0]", "T[], bool[], T[2]"},
};

}  // namespace

OpRefs scatter_ops() {
  return records(kScatter, kWritesAlong, kIndexFill, kSliceScatter, kSelectScatter, kDiagonalScatter, kMaskedScatter);
}

}  // namespace tenon::ops
