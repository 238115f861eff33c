// Reads that `index` expresses: rows of a table, one element for each place.
#include <cmath>

#include "ops/index.h"
#include "ops/view.h"

namespace tenon::ops {
namespace {

const AttrDef kDim = {"dim", AttrKind::kInt, "the dimension that is indexed", Attr(int64_t{0})};

// ---- index_select ---------------------------------------------------------------------------------------------------

// An index of rank 0 counts as a vector of one element, as in PyTorch.
const OpDef kIndexSelect{
    .name = "index_select",
    .family = "index",
    .doc = "The entries of x along a dimension that a vector of indices names. Negative indices are out of range.",
    .operands = std::vector<OperandDef>{{"x"}, {"index", kIndices}},
    .attrs = {kDim},
    .infer = [](InferContext& c) -> Types {
      TensorType type = c.type(0);
      if (c.type(1).rank() > 1) fail("the index is {}, not a vector", to_string(c.type(1)));
      require_dims(c, "select from");
      type.shape[static_cast<size_t>(c.dim("dim"))] = element_count(c.type(1).shape);
      return {type};
    },
    .semantics = composite([](ExpandContext& e) { return index(e, e.in(), index_along(e, e.dim("dim"), e.in(1))); }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.index_select(x, dim, index)"),
    .samples = Samples{"T[4, 3], i64[2] in 0..3", "T[4, 3], i32[5] in 0..2; dim=1", "T[3], i64[] in 0..2",
                       "T[2, 3, 2], i64[2] in 0..2; dim=-2", "T[3, 0], i64[2] in 0..2", "T[3, 2], i64[0]"},
};

// ---- gather ---------------------------------------------------------------------------------------------------------

// One place of each line of x: along `dim` the index has size 1, elsewhere the sizes of x.
bool takes_one_of_each_line(GradContext& g) {
  const Shape& x = g.in().shape();
  const Shape& index = g.in(1).shape();
  if (x.empty() || x.size() != index.size()) return false;
  const auto dim = static_cast<size_t>(g.dim("dim"));
  for (size_t i = 0; i < x.size(); ++i) {
    const bool fits = i == dim ? index[i].is_constant(1) : g.facts().equal(x[i], index[i]);
    if (!fits) return false;
  }
  return true;
}

// Losses over classes take one score of each sample: there the gradient is a comparison, which fuses, not a scatter.
Value gather_gradient(GradContext& g) {
  const Value x = g.in();
  if (takes_one_of_each_line(g)) {
    const Value is_taken = g.compare("eq", g.iota_along(g.dim("dim"), x.shape()), g.in(1));
    return g.where(is_taken, g.dout(), g.scalar(0, x.dtype()));
  }
  const Value zeros = g.full(0.0, shape_with_dims(x.type()), x.dtype());
  const std::vector<Value> places = index_places(g, with_dims(g, g.in(1)), g.dim("dim"));
  return g.reshape(index_put(g, zeros, with_dims(g, g.dout()), places, "add"), x.shape());
}

const OpDef kGather{
    .name = "gather",
    .family = "index",
    .doc =
        "For each place of the index, the element of x at that place with the index in dimension `dim`. Negative "
        "indices are out of range.",
    .operands = std::vector<OperandDef>{{"x"}, {"index", kIndices}},
    .attrs = {kDim},
    .infer = [](InferContext& c) -> Types {
      check_places(c, 0, 1);
      return {{c.type(0).dtype, c.type(1).shape}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Value picked = index(e, with_dims(e, e.in()), index_places(e, with_dims(e, e.in(1)), e.dim("dim")));
      return e.reshape(picked, e.in(1).shape());
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {gather_gradient(g), Value()}; }),
    .peer = torch_is("torch.gather(x, dim, index)"),
    .samples = Samples{"T[3, 4], i64[2, 4] in 0..2", "T[3, 4], i32[3, 2] in 0..3; dim=1", "T[5], i64[7] in 0..4",
                       "T[], i64[] in 0..0", "T[2, 3, 2], i64[1, 5, 2] in 0..2; dim=-2", "T[3, 4], i64[0, 4]",
                       "T[3], i64[] in 0..2", "T[], i64[2] in 0..0", "T[3, 4], i64[3, 1] in 0..3; dim=1",
                       "T[2, 3, 2], i64[2, 1, 2] in 0..2; dim=1", "T[5], i64[1] in 0..4"},
};

// ---- embedding ------------------------------------------------------------------------------------------------------

const AttrDef kPaddingIdx = {"padding_idx", AttrKind::kInt, "a row that gets no gradient; -1 means none",
                             Attr(int64_t{-1})};

// True where the index is not the padding.
Value is_no_padding(NodeContext& n, Value index) {
  return n.compare("ne", index, n.integer(n.integer("padding_idx"), index.dtype()));
}

void check_table(const OpView& v) {
  if (v.type(0).rank() != 2) fail("the weight is {}, not a matrix of rows", to_string(v.type(0)));
  const int64_t padding = v.integer("padding_idx");
  const Expr& rows = v.type(0).size(0);
  if (padding < -1 || (rows.is_constant() && padding >= rows.constant())) {
    fail("padding_idx {} is not a row of {}", padding, to_string(v.type(0)));
  }
}

const OpDef kEmbedding{
    .name = "embedding",
    .family = "index",
    .doc = "The rows of a matrix that indices name. Negative indices are out of range.",
    .operands = std::vector<OperandDef>{{"weight"}, {"index", kIndices}},
    .attrs = {kPaddingIdx},
    .infer = [](InferContext& c) -> Types {
      check_table(c);
      Shape shape = c.type(1).shape;
      shape.push_back(c.type(0).size(1));
      return {{c.type(0).dtype, std::move(shape)}};
    },
    .semantics = composite([](ExpandContext& e) { return index(e, e.in(), {e.in(1)}); }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      Value dout = g.dout();
      if (g.integer("padding_idx") >= 0) {
        dout = g.where(g.unsqueeze(is_no_padding(g, g.in(1)), -1), dout, g.scalar(0, dout.dtype()));
      }
      return {index_put(g, g.full_like(g.in(), 0), dout, {g.in(1)}, "add"), Value()};
    }),
    .peer = torch_is("torch.embedding(weight, index, padding_idx)"),
    // With padding the gradient is not the derivative: it is compared with PyTorch alone, in f32.
    .samples =
        Samples{"T[5, 3], i64[4] in 0..4", "f32[5, 3], i32[2, 3] in 0..4; padding_idx=2", "T[3, 2], i64[] in 0..2",
                "T[3, 2], i64[0]", "T[2, 0], i64[3] in 0..1", "f32[1, 2], i64[3] in 0..0; padding_idx=0"},
};

// ---- embedding_bag --------------------------------------------------------------------------------------------------

Expr bag_count(const OpView& v) { return v.flag("include_last_offset") ? v.type(2).size(0) - 1 : v.type(2).size(0); }

void check_bags(const OpView& v) {
  check_table(v);
  if (v.type(1).rank() != 1) fail("the index is {}, not a vector", to_string(v.type(1)));
  if (v.type(2).rank() != 1) fail("the offsets are {}, not a vector", to_string(v.type(2)));
  if (bag_count(v).is_constant(-1)) fail("there is no last offset");
  const std::string& mode = v.string("mode");
  if (mode != "sum" && mode != "mean" && mode != "max") fail("mode \"{}\" is not one of sum, mean, max", mode);
  if (!v.has(3)) return;
  if (mode != "sum") fail("weights of samples go with mode \"sum\", not \"{}\"", mode);
  if (v.type(3) != TensorType{v.type(0).dtype, v.type(1).shape}) {
    fail("the weights of samples are {} for {} and an index of {}", to_string(v.type(3)), to_string(v.type(0)),
         to_string(v.type(1)));
  }
}

// For each entry of the index, its bag: the number of offsets up to it, less one. Offsets may repeat, and the last may
// be the number of entries: those bags are empty.
Value bag_of_entries(ExpandContext& e) {
  const Expr entries = e.in(1).size(0);
  const Value zeros = e.full(Expr(0), {entries + 1}, DType::kI64);
  const Value begun = index_put(e, zeros, e.integer(1), {e.in(2)}, "add");
  return e.op("cumsum", {e.slice(begun, 0, 0, entries)}, {{"dim", int64_t{0}}}) - 1;
}

std::vector<Value> expand_bags(ExpandContext& e) {
  const std::string& mode = e.string("mode");
  const Value bag = bag_of_entries(e);
  Value rows = index(e, e.in_wide(), {e.in(1)});
  const DType dtype = rows.dtype();
  if (e.in(3)) rows = rows * e.unsqueeze(e.in_wide(3), -1);
  const Value counts = e.unsqueeze(e.cast(is_no_padding(e, e.in(1)), dtype), -1);
  const Value padding = e.scalar(mode == "max" ? -kInfinity : 0.0, dtype);
  rows = e.where(e.unsqueeze(is_no_padding(e, e.in(1)), -1), rows, padding);
  const auto in_bags = [&](Value entries, double start, std::string_view reduce) {
    return index_put(e, e.full(start, {e.in(2).size(0), entries.size(1)}, dtype), entries, {bag}, reduce);
  };
  Value bags = in_bags(rows, mode == "max" ? -kInfinity : 0.0, mode == "max" ? "amax" : "add");
  const Value count = in_bags(counts, 0, "add");
  if (mode == "mean") bags = bags / e.maximum(count, e.scalar(1, dtype));
  if (mode == "max") bags = e.where(e.compare("gt", count, 0), bags, e.scalar(0, dtype));
  if (e.flag("include_last_offset")) bags = e.pad(bags, {0, 0}, {-1, 0});  // nothing counts from the last offset on
  return {e.cast(bags, e.in().dtype())};
}

const OpDef kEmbeddingBag{
    .name = "embedding_bag",
    .family = "index",
    .doc =
        "Rows of a matrix, reduced bag by bag. Bag i has the entries of the index from offsets[i] to offsets[i + 1]; "
        "an empty one is zero. Entries before the first offset are a run-time error. Rows of `padding_idx` do not "
        "count.",
    .operands = std::vector<OperandDef>{{"weight", kFloats},
                                        {"index", kIndices},
                                        {"offsets", kIndices},
                                        {"per_sample_weights", kFloats, Arity::kOptional}},
    .attrs = {{"mode", AttrKind::kString, "sum, mean or max", Attr(std::string("mean"))},
              {"include_last_offset", AttrKind::kBool, "the offsets end with the number of entries", Attr(false)},
              kPaddingIdx},
    .infer = [](InferContext& c) -> Types {
      check_bags(c);
      return {{c.type(0).dtype, {bag_count(c), c.type(0).size(1)}}};
    },
    .semantics = composite(expand_bags),
    .gradient = ByExpansion{},
    .peer = torch_is(
        "F.embedding_bag(index.long(), weight, offsets.long(), mode=mode,  per_sample_weights=per_sample_weights, "
        "include_last_offset=include_last_offset, padding_idx=None if padding_idx < 0 else padding_idx)"),
    // Random offsets are not valid offsets: tests/ops/index_test.cpp has several bags with entries.
    .samples =
        Samples{"T[5, 3], i64[4] in 0..4, i64[1] in 0..0, none",
                "T[5, 3], i64[4] in 0..4, i64[3] in 0..0, none; mode=\"max\"",
                "T[5, 3], i32[4] in 0..4, i32[2] in 0..0, T[4]; mode=\"sum\"", "T[4, 2], i64[0], i64[2] in 0..0, none",
                "T[3, 2], i64[6] in 0..2, i64[2] in 0..0, none; padding_idx=1",
                "T[3, 2], i64[6] in 0..2, i64[2] in 0..0, none; padding_idx=1, mode=\"max\"",
                "T[3, 2], i64[0], i64[3] in 0..0, none; include_last_offset=true"},
    .special_values = false,
};  // PyTorch's maximum of a bag skips NaN, ours propagates it as every reduction does

// ---- one_hot --------------------------------------------------------------------------------------------------------

const OpDef kOneHot{
    .name = "one_hot",
    .family = "index",
    .doc =
        "A last dimension of classes: 1 at the class that the index names, 0 elsewhere. A class out of range is a "
        "run-time error.",
    .operands = std::vector<OperandDef>{{"index", kIndices}},
    .attrs = {{"num_classes", AttrKind::kExpr, "how many classes there are"}},
    .infer = [](InferContext& c) -> Types {
      Shape shape = c.type(0).shape;
      shape.push_back(c.expr("num_classes"));
      return {{DType::kI64, std::move(shape)}};
    },
    .semantics = composite([](ExpandContext& e) {
      const Expr count = element_count(e.in().shape());
      const Value zeros = e.full(Expr(0), {count, e.expr("num_classes")}, DType::kI64);
      const Value hot = index_put(e, zeros, e.integer(1), {e.iota(count), e.reshape(e.in(), {count})}, "set");
      Shape shape = e.in().shape();
      shape.push_back(e.expr("num_classes"));
      return e.reshape(hot, shape);
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("F.one_hot(index.long(), num_classes)"),
    .samples = Samples{"i64[4] in 0..4; num_classes=5", "i32[2, 3] in 0..2; num_classes=3",
                       "i64[] in 0..1; num_classes=2", "i64[0]; num_classes=4", "i64[3] in 0..0; num_classes=1"},
};

}  // namespace

OpRefs lookup_ops() { return {&kIndexSelect, &kGather, &kEmbedding, &kEmbeddingBag, &kOneHot}; }

}  // namespace tenon::ops
