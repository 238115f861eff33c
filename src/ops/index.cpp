// Reading and writing at computed places: `index` and `index_put`, PyTorch's advanced indexing, and what they express.
#include "ops/index.h"

#include <algorithm>
#include <cmath>

#include "loops/lower.h"

namespace tenon::ops {
namespace {

// ---- where advanced indexing reads and writes -----------------------------------------------------------------------

// x[i0, i1, ...]: each index that is not `none` stands for one dimension of x, in order. They broadcast together.
struct Indexing {
  std::vector<int64_t> dims;  // of x that an index stands for
  Shape shape;                // of the indices together
  size_t position = 0;  // where that shape goes in the result: where the indices are, in front if they are separated
  Shape result;
};

Indexing indexing(const OpView& v, size_t first) {
  const TensorType& x = v.type(0);
  const auto count = static_cast<int64_t>(v.operand_count() - first);
  if (count > x.rank()) fail("{} indices are given for {}", count, to_string(x));
  Indexing plan;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const size_t operand = first + static_cast<size_t>(dim);
    if (!v.has(operand)) {
      plan.result.push_back(x.size(dim));
      continue;
    }
    if (v.type(operand).dtype == DType::kBool) fail("a bool mask cannot be an index: use its nonzero");
    plan.dims.push_back(dim);
    plan.shape = broadcast(plan.shape, v.type(operand).shape);
  }
  if (plan.dims.empty()) fail("at least one index must be given");
  const bool adjacent = plan.dims.back() - plan.dims.front() + 1 == std::ssize(plan.dims);
  if (adjacent) plan.position = static_cast<size_t>(plan.dims.front());
  plan.result.insert(plan.result.begin() + static_cast<int64_t>(plan.position), plan.shape.begin(), plan.shape.end());
  return plan;
}

// An element of a tensor that broadcasts to the shape of `index`.
int64_t broadcast_offset(const Tensor& tensor, std::span<const int64_t> index) {
  const auto own = index.last(static_cast<size_t>(tensor.rank()));
  Sizes at(own.begin(), own.end());
  for (size_t dim = 0; dim < at.size(); ++dim) at[dim] = tensor.shape()[dim] == 1 ? 0 : at[dim];
  return tensor.offset(at);
}

int64_t checked_index(int64_t index, int64_t size, int64_t dim, bool wrap) {
  const int64_t from_start = wrap && index < 0 ? index + size : index;
  if (from_start < 0 || from_start >= size)
    fail("index {} is out of range for dimension {} of size {}", index, dim, size);
  return from_start;
}

// Visits each index of the result with the index of x that it means, in row-major order.
template <class Body>
void for_each_indexed(ReferenceContext& c, size_t first, Body body) {
  const Indexing plan = indexing(c, first);
  const Sizes& shape = c.in().shape();
  const bool wrap = c.flag("wrap");
  for_each_index(evaluate(plan.result, {}), [&](const Sizes& at) {
    const auto indices_at = std::span(at).subspan(plan.position, plan.shape.size());
    Sizes place;
    size_t next = 0;  // of `at`, the next that no index stands for
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (c.has(first + dim)) {
        const Tensor& index = c.in(first + dim);
        const int64_t value = index.integer(broadcast_offset(index, indices_at));
        place.push_back(checked_index(value, shape[dim], static_cast<int64_t>(dim), wrap));
      } else {
        if (next == plan.position) next += plan.shape.size();
        place.push_back(at[next++]);
      }
    }
    body(at, place);
  });
}

// Which elements of x are meant: over the dimensions of the indexed result, an index for each dimension of x.
struct Places {
  LoopDims dims;
  std::vector<Expr> index;
  std::vector<loops::Lookup> lookups;
};

LoopValue counted_from_start(LoopContext& l, const LoopValue& index, const Expr& size) {
  if (!l.flag("wrap")) return index;
  const LoopValue wide = l.cast(index, DType::kI64);
  const LoopValue is_negative = l.compute("lt", {wide, l.number(0)});
  return l.compute("where", {is_negative, l.compute("add", {wide, l.number(size)}), wide});
}

// `x` are the dimensions of operand 0. The variables of those that an index stands for stay out of the places where
// they are `written`; `others` broadcasts with the places.
Places places_of(LoopContext& l, size_t first, const LoopDims& x, const LoopDims& written = {},
                 const LoopDims& others = {}) {
  const Indexing plan = indexing(l, first);
  LoopDims kept;
  for (size_t dim = 0; dim < x.size(); ++dim) {
    if (!l.has(first + dim)) kept.push_back(x[dim]);
  }
  const size_t after = kept.size() - plan.position;
  std::vector<Expr> kept_index = l.at(kept);
  kept.insert(kept.begin() + static_cast<int64_t>(plan.position), plan.shape.size(), loops::VarRef());
  std::vector<LoopDims> operands = {kept};
  std::vector<LoopValue> indices;
  for (int64_t dim : plan.dims) {
    const LoopValue& index = l.in(first + static_cast<size_t>(dim));
    indices.push_back(counted_from_start(l, index, l.type(0).size(dim)));
    indices.back().dims.insert(indices.back().dims.end(), after, loops::VarRef());
    operands.push_back(indices.back().dims);
  }
  operands.push_back(others);
  Places places{l.common_dims(operands, written), {}, {}};
  size_t next_kept = 0, next_index = 0;
  for (size_t dim = 0; dim < x.size(); ++dim) {
    const Expr& size = l.type(0).shape[dim];
    places.index.push_back(l.has(first + dim) ? l.lookup(places.lookups, indices[next_index++], places.dims, size)
                                              : kept_index[next_kept++]);
  }
  return places;
}

std::vector<Value> indices_of(const NodeContext& n, size_t first) {
  return {n.operands().begin() + static_cast<int64_t>(first), n.operands().end()};
}

const AttrDef kWrap = {"wrap", AttrKind::kBool, "negative indices count from the end; else they are out of range",
                       Attr(true)};

const OpDef kIndex{
    .name = "index",
    .family = "index",
    .doc =
        "x[indices], PyTorch's advanced indexing. The indices broadcast together, each standing for one dimension of "
        "x; `none` keeps a dimension. Their shape takes the place of the dimensions that they stand for; it comes "
        "first when a kept dimension is between them. An index out of range is a run-time error.",
    .operands = std::vector<OperandDef>{{"x"}, {"indices", kIndices | kBools, Arity::kVariadicOptional}},
    .attrs = {kWrap},
    .infer = [](InferContext& c) -> Types { return {{c.type(0).dtype, indexing(c, 1).result}}; },
    .semantics = reference([](ReferenceContext& c) {
      int64_t position = 0;
      for_each_indexed(c, 1, [&](const Sizes&, const Sizes& place) {
        copy_element(c.out(), position++, c.in(), c.in().offset(place));
      });
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      std::vector<Value> gradients(g.operands().size());
      gradients[0] = index_put(g, g.full_like(g.in(), 0), g.dout(), indices_of(g, 1), "add", g.flag("wrap"));
      return gradients;
    }),
    .loops =
        [](LoopContext& l) {
          Places places = places_of(l, 1, l.in().dims);
          for (size_t dim = 0; dim < places.dims.size(); ++dim) {  // an index for no element is never out of range
            const Expr& size = l.result().shape[dim];
            if (!places.dims[dim] && !l.facts().less_equal(1, size)) places.dims[dim] = l.var(size);
          }
          const LoopPiece piece{l.in(), l.type(0).shape, std::move(places.index)};
          l.out(l.view({std::move(places.dims), {piece}, {}, std::move(places.lookups)}));
        },
    .role = Role::kGather,
    .peer = torch_is("torch.ops.aten.index.Tensor(x, indices)"),
    .samples =
        Samples{"T[5], i64[3] in -5..4", "T[4, 3], i64[2] in 0..3", "T[4, 3], none, i32[2, 2] in -3..2",
                "T[4, 3], i64[2, 1] in 0..3, i64[3] in 0..2; wrap=false", "T[3], i64[] in 0..2",
                "T[2, 3, 4], i64[2] in 0..1, none, i64[2] in 0..3", "T[2, 3, 4], none, i64[2] in 0..2, i32[] in 0..3",
                "T[2, 3, 2, 2], none, i64[2] in 0..2, none, i64[3, 1] in 0..1", "T[0, 3], i64[0]",
                "T[3, 0], i64[2] in 0..2", "T[2, 3], i64[1] in 0..1, none"},
};

// ---- index_put ------------------------------------------------------------------------------------------------------

// How a written value meets the one that is there.
struct Reduction {
  std::string_view name;
  double (*real)(double, double);
  int64_t (*integer)(int64_t, int64_t);
  std::string_view op;  // that does the same; none for "set"
};

double greater(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double lesser(double a, double b) { return std::isnan(a) || a < b ? a : b; }

constexpr Reduction kReductions[] = {
    {"set", [](double, double b) { return b; }, [](int64_t, int64_t b) { return b; }, ""},
    {"add", [](double a, double b) { return a + b; }, wrap_add, "add"},
    {"mul", [](double a, double b) { return a * b; }, wrap_mul, "mul"},
    {"amax", greater, [](int64_t a, int64_t b) { return std::max(a, b); }, "maximum"},
    {"amin", lesser, [](int64_t a, int64_t b) { return std::min(a, b); }, "minimum"}};

const Reduction& reduction_of(const OpView& v) {
  const std::string& name = v.string("reduce");
  const auto found = std::ranges::find(kReductions, name, &Reduction::name);
  if (found == std::end(kReductions)) fail("reduce \"{}\" is not one of set, add, mul, amax, amin", name);
  return *found;
}

// Reduces in the wide domain, and rounds once. `wide` are the elements of the result in that domain.
template <class T, class Read, class Combine>
void reduce_into(ReferenceContext& c, std::vector<T>& wide, Read read, Combine combine) {
  for_each_indexed(c, 2, [&](const Sizes& at, const Sizes& place) {
    T& element = wide[static_cast<size_t>(c.out().offset(place))];
    element = combine(element, read(c.in(1), broadcast_offset(c.in(1), at)));
  });
}

void put(ReferenceContext& c) {
  const Reduction& reduction = reduction_of(c);
  const int64_t count = c.out().numel();
  std::vector<double> reals;
  std::vector<int64_t> integers;
  if (is_float(c.out().dtype())) {
    for (int64_t i = 0; i < count; ++i) reals.push_back(c.in().real(c.in().offset(i)));
    reduce_into(c, reals, [](const Tensor& t, int64_t at) { return t.real(at); }, reduction.real);
    for (int64_t i = 0; i < count; ++i) c.out().set_real(i, reals[static_cast<size_t>(i)]);
  } else {
    for (int64_t i = 0; i < count; ++i) integers.push_back(c.in().integer(c.in().offset(i)));
    reduce_into(c, integers, [](const Tensor& t, int64_t at) { return t.integer(at); }, reduction.integer);
    for (int64_t i = 0; i < count; ++i) c.out().set_integer(i, integers[static_cast<size_t>(i)]);
  }
}

void lower_put(LoopContext& l) {
  const Reduction& reduction = reduction_of(l);
  const OpDef* op = reduction.op.empty() ? nullptr : &op_named(reduction.op);
  const auto operand = [&](size_t i) { return op ? l.wide(l.in(i)) : l.in(i); };
  const LoopValue x = l.stretched(operand(0), l.type(0).shape);
  const Indexing plan = indexing(l, 2);
  LoopDims written;
  for (int64_t dim : plan.dims) written.push_back(x.dims[static_cast<size_t>(dim)]);
  Places places = places_of(l, 2, x.dims, written, l.in(1).dims);
  for (size_t dim = 0; dim < places.dims.size(); ++dim) {  // what is written several times counts several times
    if (!places.dims[dim]) places.dims[dim] = l.var(plan.result[dim]);
  }
  const LoopValue result = l.scatter(op, x, places.index, std::move(places.lookups), operand(1), places.dims);
  l.out(l.cast(result, l.result().dtype));
}

// What the gradients of index_put have in common.
struct PutGradient {
  explicit PutGradient(GradContext& context)
      : g(context), indices(indices_of(context, 2)), values(g.expand(g.in(1), indexing(g, 2).result)) {}

  Value read(Value x) { return index(g, x, indices, g.flag("wrap")); }
  Value write(Value x, Value v, std::string_view how) { return index_put(g, x, v, indices, how, g.flag("wrap")); }

  std::vector<Value> run() {
    const std::string& reduce = g.string("reduce");
    std::vector<Value> gradients(g.operands().size());
    const auto set_first_two = [&](std::pair<Value, Value> both) { std::tie(gradients[0], gradients[1]) = both; };
    if (reduce == "set") set_first_two({write(g.dout(), g.scalar(0, g.dout().dtype()), "set"), read(g.dout())});
    if (reduce == "add") set_first_two({g.dout(), read(g.dout())});
    if (reduce == "mul") set_first_two(product());
    if (reduce == "amax" || reduce == "amin") set_first_two(extremum());
    return gradients;
  }

  // The product of the others: division is exact enough unless the value is zero, and then only one zero leaves
  // anything.
  std::pair<Value, Value> product() {
    const Value one = g.scalar(1, values.dtype());
    const Value none = g.scalar(0, values.dtype());
    const Value is_zero = g.compare("eq", values, 0);
    const Value nonzero = g.where(is_zero, one, values);
    const Value zeros = read(write(g.full(Expr(0), g.in().shape(), DType::kI64), g.cast(is_zero, DType::kI64), "add"));
    const Value others = read(g.dout() * write(g.in(), nonzero, "mul"));
    const Value of_zero = g.where(g.compare("eq", zeros, 1), others, none);
    const Value of_nonzero = g.where(g.compare("eq", zeros, 0), others / nonzero, none);
    return {g.dout() * write(g.full_like(g.in(), 1), g.in(1), "mul"), g.where(is_zero, of_zero, of_nonzero)};
  }

  // Those that are the extremum share it evenly.
  std::pair<Value, Value> extremum() {
    const Value x_is_it = g.cast(g.compare("eq", g.in(), g.out()), g.dout().dtype());
    const Value value_is_it = g.cast(g.compare("eq", values, read(g.out())), g.dout().dtype());
    const Value share = g.dout() / write(x_is_it, value_is_it, "add");
    return {x_is_it * share, value_is_it * read(share)};
  }

  GradContext& g;
  std::vector<Value> indices;
  Value values;
};

const OpDef kIndexPut{
    .name = "index_put",
    .family = "index",
    .doc =
        "x with values written at x[indices], which they broadcast to (see `index`). `reduce` says how a value meets "
        "the one that is there: set, add, mul, amax, amin. Where indices repeat, \"set\" keeps the last value in "
        "row-major order; its gradient, as in PyTorch, takes them all to be kept. The others reduce in at least f32 "
        "and round once.",
    .operands = std::vector<OperandDef>{{"x"}, {"values"}, {"indices", kIndices | kBools, Arity::kVariadicOptional}},
    .attrs = {{"reduce", AttrKind::kString, "set, add, mul, amax or amin", Attr(std::string("set"))}, kWrap},
    .infer = [](InferContext& c) -> Types {
      reduction_of(c);
      if (c.type(0).dtype != c.type(1).dtype) {
        fail("values of dtype {} cannot be written into {}", name_of(c.type(1).dtype), name_of(c.type(0).dtype));
      }
      check_broadcasts_to(c.type(1).shape, indexing(c, 2).result);
      return {c.type(0)};
    },
    .semantics = reference(put),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return PutGradient(g).run(); }),
    .loops = lower_put,
    .peer = torch_is("torch.ops.aten.index_put(x, indices, values, reduce == 'add') if reduce in ('set', 'add') else "
                     "(lambda at: x.flatten().scatter_reduce(0, at.flatten(), values.expand(at.shape).flatten(), "
                     "{'mul': 'prod'}.get(reduce, reduce)).reshape(x.shape))"
                     "(torch.ops.aten.index.Tensor(torch.arange(x.numel()).reshape(x.shape), indices))"),
    // In PyTorch the result of colliding "set" writes is undefined.
    .samples =
        Samples{"T[5], T[1], i64[1] in -5..4", "T[4, 3], T[1, 3], i64[1] in 0..3", "T[4, 3], T[], i64[2] in 0..3",
                "T[3, 4], T[3, 1], none, i32[1] in -4..3", "T[2, 3, 4], T[1, 3], i64[1] in 0..1, none, i64[1] in 0..3",
                "T[3], T[], i64[] in 0..2; wrap=false", "T[0, 3], T[0, 3], i64[0]",
                "T[4, 3], T[3], i64[5] in -4..3; reduce=\"add\"",
                "T[3, 3], T[2, 4], i64[2, 1] in 0..2, i64[4] in 0..2; reduce=\"add\"",
                "T[4], T[6], i64[6] in 0..3; reduce=\"mul\"", "T[4, 2], T[3, 2], i64[3] in 0..3; reduce=\"amax\"",
                "T[2, 4], T[2, 3], none, i64[3] in -4..3; reduce=\"amin\""},
};

}  // namespace

Value index(Builder& b, Value x, const std::vector<Value>& indices, bool wrap) {
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return b.op("index", operands, {{"wrap", wrap}});
}

Value index_put(Builder& b, Value x, Value values, const std::vector<Value>& indices, std::string_view reduce,
                bool wrap) {
  std::vector<Value> operands = {x, values};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return b.op("index_put", operands, {{"reduce", std::string(reduce)}, {"wrap", wrap}});
}

std::vector<Value> index_along(Builder& b, int64_t dim, Value index) {
  std::vector<Value> indices(static_cast<size_t>(dim) + 1);
  indices.back() = b.reshape(index, {element_count(index.shape())});
  return indices;
}

Shape shape_with_dims(const TensorType& type) { return type.rank() == 0 ? Shape{1} : type.shape; }

Value with_dims(Builder& b, Value x) { return b.reshape(x, shape_with_dims(x.type())); }

void check_places(InferContext& c, size_t x, size_t index) {
  const Shape large = shape_with_dims(c.type(x));
  const Shape small = shape_with_dims(c.type(index));
  const auto along = static_cast<size_t>(c.dim("dim", x));
  bool fits = large.size() == small.size();
  for (size_t dim = 0; fits && dim < large.size(); ++dim) {
    fits = dim == along || !c.facts().less_equal(large[dim] + 1, small[dim]);
  }
  if (fits) return;
  fail("the index is {} for {}: it must have the same rank, and not be larger in a dimension other than {}",
       to_string(c.type(index)), to_string(c.type(x)), along);
}

std::vector<Value> index_places(Builder& b, Value index, int64_t dim) {
  std::vector<Value> indices;
  for (int64_t other = 0; other < index.rank(); ++other) {
    indices.push_back(other == dim ? index : aligned_iota(b, index.size(other), other, index.rank()));
  }
  return indices;
}

Value aligned_iota(Builder& b, const Expr& size, int64_t dim, int64_t rank) {
  return along(b, b.iota(size), dim, rank);
}

Value symbolic_scalar(Builder& b, const Expr& value) { return b.full(value, {}, DType::kI64); }

OpRefs index_ops() { return {&kIndex, &kIndexPut}; }

}  // namespace tenon::ops
