// Reading and writing at computed places, and masks.
#include <fmt/format.h>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// ---- where something holds ------------------------------------------------------------------------------------------

Value nonzero(AtenCall& c, Value x, std::optional<Expr> count = {}) {
  return c.op("nonzero", {x}, {{"count", count ? *count : fresh_size(c, "nonzero")}});
}

std::vector<Value> columns(AtenCall& c, Value matrix, int64_t count) {
  std::vector<Value> result;
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(c.op("select", {matrix}, {{"dim", int64_t{1}}, {"index", Expr(i)}}));
  }
  return result;
}

AtenArg nonzero_columns(AtenCall& c, Value x) {
  if (x.rank() == 0) x = c.unsqueeze(x, 0);
  return columns(c, nonzero(c, x), x.rank());
}

Value masked_select(AtenCall& c, Value x, Value mask) {
  const Shape shape = broadcast(x.shape(), mask.shape());
  const Value found = nonzero(c, flat(c, c.expand(mask, shape)));
  return c.op("index", {flat(c, c.expand(x, shape)), columns(c, found, 1)[0]});
}

AtenArg masked_scatter_backward(AtenCall& c) {
  const Value grad = c.tensor("grad_output");
  const Shape sizes = c.sizes("sizes");
  const Value selected = masked_select(c, grad, c.tensor("mask"));
  return c.reshape(c.pad(selected, {0}, {element_count(sizes) - selected.size(0)}), sizes);
}

// The flat places where x is not zero come first; a stable sort keeps them in order.
AtenArg nonzero_static(AtenCall& c) {
  const Value x = c.tensor(), found = flat(c, c.compare("ne", x, 0));
  const Expr rows = c.size("size"), count = element_count(x.shape());
  Value order = c.op("argsort", {found}, {{"descending", true}});
  order = c.op("pad", {order}, {{"low", Shape{0}}, {"high", Shape{rows - count}}});
  const Value exists = c.compare("lt", c.iota(rows), c.sum(c.cast(found, DType::kI64), {0}));
  if (x.rank() == 0) return c.full(Expr(0), {rows, 0}, DType::kI64);
  std::vector<Value> coordinates;
  Expr below = count;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    below = floordiv(below, x.size(dim));
    const Value at = c.op("floor_div", {order, c.full(max(below, 1), {}, DType::kI64)});
    const Value index = c.op("remainder", {at, c.full(max(x.size(dim), 1), {}, DType::kI64)});
    coordinates.push_back(c.where(exists, index, c.integer(c.integer("fill_value"))));
  }
  return c.op("stack", coordinates, {{"dim", int64_t{1}}});
}

void add_mask_entries(AtenTable& table) {
  table.add("aten.{nonzero,argwhere}.default(self)", [](AtenCall& c) { return nonzero(c, c.tensor()); });
  table.add("aten.nonzero_numpy.default(self)", [](AtenCall& c) { return nonzero_columns(c, c.tensor()); });
  table.add("aten.where.default(condition)", [](AtenCall& c) { return nonzero_columns(c, c.tensor("condition")); });
  table.add("aten.nonzero_static.default(self, *, size, fill_value=-1)", nonzero_static);
  table.add("aten.masked_select.default(self, mask)",
            [](AtenCall& c) { return masked_select(c, c.tensor(), c.tensor("mask")); });
  table.add("aten.masked_select_backward.default(grad, input, mask)", [](AtenCall& c) {
    return c.op("masked_scatter", {c.full_like(c.tensor("input"), 0), c.tensor("mask"), c.tensor("grad")});
  });
  table.add("aten.masked_scatter.default(self, mask, source)", [](AtenCall& c) {
    return c.op("masked_scatter", {c.tensor(), c.cast(c.tensor("mask"), DType::kBool), c.tensor("source")});
  });
  table.add("aten.masked_scatter_backward.default(grad_output, mask, sizes)", masked_scatter_backward);
}

// ---- x[indices] -----------------------------------------------------------------------------------------------------

bool is_mask(Value index) { return index && (index.dtype() == DType::kBool || index.dtype() == DType::kU8); }

int64_t dims_taken(Value index) { return is_mask(index) ? index.rank() : 1; }

// The indices with each mask replaced by the places where it is true: `count` of them, where that is known.
std::vector<Value> places(AtenCall& c, const std::vector<Value>& indices, const std::optional<Expr>& count) {
  std::vector<Value> result;
  for (Value index : indices) {
    if (!is_mask(index)) {
      result.push_back(index ? c.cast(index, index.dtype() == DType::kI32 ? DType::kI32 : DType::kI64) : index);
      continue;
    }
    for (Value column : columns(c, nonzero(c, index, count), index.rank())) result.push_back(column);
  }
  return result;
}

std::vector<Value> with_places(std::vector<Value> operands, const std::vector<Value>& places) {
  operands.insert(operands.end(), places.begin(), places.end());
  return operands;
}

// A mask is true as often as the indices beside it say.
std::optional<Expr> length_beside_masks(const std::vector<Value>& indices) {
  for (Value index : indices) {
    if (!index || is_mask(index) || index.rank() == 0) continue;
    const Expr& length = index.shape().back();
    if (length.is_constant() && !length.is_constant(1)) return length;
  }
  return std::nullopt;
}

// A mask of rank 0 takes no dimension: it keeps or drops all of x.
void check_masks(const AtenCall& c, const std::vector<Value>& indices) {
  for (Value index : indices) {
    if (is_mask(index) && index.rank() == 0) c.decline("a mask without dimensions");
  }
}

Value read_at(AtenCall& c, Value x, const std::vector<Value>& indices) {
  check_masks(c, indices);
  return c.op("index", with_places({x}, places(c, indices, length_beside_masks(indices))));
}

AtenArg index(AtenCall& c) { return read_at(c, c.tensor(), c.tensors("indices")); }

// One mask, and nothing but kept dimensions before it.
std::optional<size_t> only_mask(const std::vector<Value>& indices) {
  std::optional<size_t> found;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (found || !is_mask(indices[i])) return std::nullopt;
    found = i;
  }
  return found;
}

struct MaskedWrite {
  Value mask;    // of the rank of x
  Value values;  // likewise, where one stands for all places of the mask
};

// x[mask] = values, with one value for all places of the mask: no need to find them.
std::optional<MaskedWrite> uniform_write(AtenCall& c, Value x, const std::vector<Value>& indices, Value values) {
  const auto at = only_mask(indices);
  if (!at || indices[*at].rank() == 0) return std::nullopt;
  const Value mask = indices[*at];
  const int64_t behind = x.rank() - static_cast<int64_t>(*at) - mask.rank();
  const int64_t place = values.rank() - 1 - behind;  // the dimension of the places
  if (place >= 0 && !values.size(place).is_constant(1)) return std::nullopt;
  Shape shape = values.shape();
  if (place >= 0) shape.insert(shape.begin() + place, static_cast<size_t>(mask.rank() - 1), Expr(1));
  Shape mask_shape = mask.shape();
  mask_shape.insert(mask_shape.end(), static_cast<size_t>(behind), Expr(1));
  return MaskedWrite{c.cast(c.reshape(mask, mask_shape), DType::kBool), c.reshape(values, shape)};
}

// How many values there are for the places of a mask.
std::optional<Expr> length_of_values(Value x, const std::vector<Value>& indices, Value values) {
  int64_t kept = x.rank();
  for (Value index : indices) kept -= dims_taken(index);
  if (values.rank() <= kept) return std::nullopt;
  const Expr& length = values.size(values.rank() - 1 - kept);
  return length.is_constant() && !length.is_constant(1) ? std::optional(length) : std::nullopt;
}

Value written_at(AtenCall& c, Value x, const std::vector<Value>& indices, Value given, bool accumulate) {
  check_masks(c, indices);
  const Value values = c.cast(given, x.dtype());
  if (const auto uniform = uniform_write(c, x, indices, values)) {
    const Value written = accumulate ? c.op("add", {x, uniform->values}) : uniform->values;
    return c.expand(c.where(uniform->mask, written, x), x.shape());
  }
  return c.op("index_put", with_places({x, values}, places(c, indices, length_of_values(x, indices, values))),
              {{"reduce", std::string(accumulate ? "add" : "set")}});
}

AtenArg index_put(AtenCall& c) {
  return written_at(c, c.tensor(), c.tensors("indices"), c.tensor("values"), c.flag("accumulate"));
}

std::vector<Value> clamped_indices(AtenCall& c, Value x) {
  std::vector<Value> indices = c.tensors("indices");
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    if (!indices[dim]) continue;
    const Expr last = x.size(static_cast<int64_t>(dim)) - 1;
    indices[dim] = c.op("clamp", {indices[dim], c.integer(0), c.full(last, {}, DType::kI64)});
  }
  return indices;
}

AtenArg masked_index(AtenCall& c) {
  const Value found = read_at(c, c.tensor(), clamped_indices(c, c.tensor()));
  return c.where(c.tensor("mask"), found, c.cast(c.operand("fill", found.dtype()), found.dtype()));
}

AtenArg masked_index_put(AtenCall& c) {
  const Value x = c.tensor();
  const Value values = c.where(c.tensor("mask"), c.tensor("values"), c.scalar(0, x.dtype()));
  return written_at(c, x, clamped_indices(c, x), values, true);
}

AtenArg put(AtenCall& c) {
  const Value x = c.tensor();
  const Value written = written_at(c, flat(c, x), {c.tensor("index")}, c.tensor("source"), c.flag("accumulate"));
  return c.reshape(written, x.shape());
}

void add_index_tensor_entries(AtenTable& table) {
  table.add("aten.{index,_unsafe_index}.Tensor(self, indices)", index);
  table.add("aten._unsafe_masked_index.default(self, mask, indices, fill)", masked_index);
  table.add("aten._unsafe_masked_index_put_accumulate.default(self, mask, indices, values)", masked_index_put);
  table.add("aten.{index_put,_unsafe_index_put}.default(self, indices, values, accumulate=False)", index_put);
  table.add("aten._index_put_impl.default(self, indices, values, accumulate=False, unsafe=False)", index_put);
  table.add("aten.put.default(self, index, source, accumulate=False)", put);
  table.add("aten.take.default(self, index)",
            [](AtenCall& c) { return c.op("index", {flat(c, c.tensor()), c.tensor("index")}); });
}

// ---- along a dimension ----------------------------------------------------------------------------------------------

Value vector_of(AtenCall& c, std::string_view name) {
  const Value index = c.tensor(name);
  return index.rank() == 0 ? c.unsqueeze(index, 0) : index;
}

NamedAttrs dim_attr(const AtenCall& c) { return {{"dim", c.integer("dim")}}; }

// PyTorch takes a tensor without dimensions as one element here.
Value on_vector(AtenCall& c, const std::function<Value(Value)>& apply) {
  const Value x = c.tensor();
  return x.rank() > 0 ? apply(x) : c.reshape(apply(c.unsqueeze(x, 0)), {});
}

AtenArg index_select(AtenCall& c) {
  const Value index = vector_of(c, "index");
  return on_vector(c, [&](Value x) { return c.op("index_select", {x, index}, dim_attr(c)); });
}

Value source_for(AtenCall& c, Value x, std::string_view name = "source") {
  const Value source = c.cast(c.tensor(name), x.dtype());
  return source.rank() == 0 ? c.unsqueeze(source, 0) : source;
}

AtenArg index_add(AtenCall& c) {
  return on_vector(c, [&](Value x) {
    return c.op("index_add", {x, vector_of(c, "index"), times(c, source_for(c, x), "alpha")}, dim_attr(c));
  });
}

AtenArg index_fill(AtenCall& c) {
  return on_vector(c, [&](Value x) {
    const Value number = c.cast(c.operand("value", x.dtype()), x.dtype());
    return c.op("index_fill", {x, vector_of(c, "index"), number}, dim_attr(c));
  });
}

std::string table_reduction(const AtenCall& c) {
  const std::string reduce = c.string("reduce");
  if (reduce == "sum") return "add";
  return reduce == "prod" || reduce == "multiply" ? "mul" : reduce;
}

AtenArg index_reduce(AtenCall& c) {
  return on_vector(c, [&](Value x) {
    const int64_t dim = dim_of(c, "dim", x);
    const Value source = source_for(c, x);
    Shape aligned(x.shape().size(), 1);
    aligned[static_cast<size_t>(dim)] = source.size(dim);
    const Value index = c.expand(c.reshape(vector_of(c, "index"), aligned), source.shape());
    return c.op("scatter", {x, index, source},
                {{"dim", dim}, {"reduce", table_reduction(c)}, {"include_self", c.flag("include_self")}});
  });
}

AtenArg index_select_backward(AtenCall& c) {
  const Value grad = c.tensor("grad");
  return c.op("index_add", {c.full(Expr(0), c.sizes("self_sizes"), grad.dtype()), vector_of(c, "index"), grad},
              dim_attr(c));
}

Value scattered(AtenCall& c, Value x, Value src, std::string reduce = "set", bool include_self = true) {
  return c.op("scatter", {x, c.tensor("index"), src},
              {{"dim", c.integer("dim")}, {"reduce", std::move(reduce)}, {"include_self", include_self}});
}

AtenFn scatter_tensor(std::string (*reduction)(const AtenCall&)) {
  return [reduction](AtenCall& c) {
    return scattered(c, c.tensor(), c.cast(c.tensor("src"), c.tensor().dtype()), reduction(c));
  };
}

AtenFn scatter_number(std::string (*reduction)(const AtenCall&)) {
  return [reduction](AtenCall& c) {
    const DType dtype = c.tensor().dtype();
    const Value number = c.cast(c.operand("value", dtype), dtype);
    return scattered(c, c.tensor(), c.expand(number, c.tensor("index").shape()), reduction(c));
  };
}

AtenArg take_along_dim(AtenCall& c) {
  const Value x = c.tensor(), indices = c.tensor("indices");
  if (!c.given("dim")) return c.op("gather", {flat(c, x), flat(c, indices)}, {{"dim", int64_t{0}}});
  const int64_t dim = dim_of(c, "dim", x);
  const auto at = static_cast<size_t>(dim);
  Shape x_shape = x.shape(), index_shape = indices.shape();
  x_shape.at(at) = index_shape.at(at) = 1;
  Shape shape = broadcast(x_shape, index_shape), wide_shape = shape;
  shape[at] = indices.size(dim);
  wide_shape[at] = x.size(dim);
  return c.op("gather", {c.expand(x, wide_shape), c.expand(indices, shape)}, {{"dim", dim}});
}

void add_along_dim_entries(AtenTable& table) {
  table.add("aten.index_select.default(self, dim, index)", index_select);
  table.add("aten.index_select_backward.default(grad, self_sizes, dim, index)", index_select_backward);
  table.add("aten.index_add.default(self, dim, index, source, *, alpha=1)", index_add);
  table.add("aten.index_copy.default(self, dim, index, source)", [](AtenCall& c) {
    return on_vector(
        c, [&](Value x) { return c.op("index_copy", {x, vector_of(c, "index"), source_for(c, x)}, dim_attr(c)); });
  });
  table.add("aten.index_fill.{int_Scalar,int_Tensor}(self, dim, index, value)", index_fill);
  table.add("aten.index_reduce.default(self, dim, index, source, reduce, *, include_self=True)", index_reduce);
  table.add("aten.gather.default(self, dim, index, *, sparse_grad=False)",
            [](AtenCall& c) { return c.op("gather", {c.tensor(), c.tensor("index")}, dim_attr(c)); });
  table.add("aten.gather_backward.default(grad, self, dim, index, sparse_grad)",
            [](AtenCall& c) { return scattered(c, c.full_like(c.tensor(), 0), c.tensor("grad"), "add"); });
  const auto set = [](const AtenCall&) { return std::string("set"); };
  table.add("aten.scatter.src(self, dim, index, src)", scatter_tensor(set));
  table.add("aten.scatter.reduce(self, dim, index, src, *, reduce)", scatter_tensor(table_reduction));
  table.add("aten.scatter.value(self, dim, index, value)", scatter_number(set));
  table.add("aten.scatter.value_reduce(self, dim, index, value, *, reduce)", scatter_number(table_reduction));
  table.add("aten.scatter_add.default(self, dim, index, src)",
            scatter_tensor([](const AtenCall&) { return std::string("add"); }));
  table.add("aten.scatter_reduce.two(self, dim, index, src, reduce, *, include_self=True)", [](AtenCall& c) {
    return scattered(c, c.tensor(), c.tensor("src"), table_reduction(c), c.flag("include_self"));
  });
  table.add("aten.take_along_dim.default(self, indices, dim=None)", take_along_dim);
}

// ---- embeddings -----------------------------------------------------------------------------------------------------

AtenArg embedding(AtenCall& c) {
  return c.op("embedding", {c.tensor("weight"), c.tensor("indices")}, {{"padding_idx", c.integer("padding_idx")}});
}

AtenArg embedding_backward(AtenCall& c, Value grad, bool by_frequency) {
  const Value indices = c.tensor("indices");
  const Value zeros = c.full(Expr(0), {c.size("num_weights"), grad.shape().back()}, grad.dtype());
  if (by_frequency) {
    const Value none = c.full(Expr(0), {c.size("num_weights")}, grad.dtype());
    const Value counts =
        c.op("index_put", {none, c.scalar(1, grad.dtype()), indices}, {{"reduce", std::string("add")}});
    grad = grad / c.unsqueeze(c.op("index", {counts, indices}), -1);
  }
  if (const int64_t padding = c.integer("padding_idx"); padding >= 0) {
    const Value counts = c.unsqueeze(c.compare("ne", indices, c.integer(padding, indices.dtype())), -1);
    grad = c.where(counts, grad, c.scalar(0, grad.dtype()));
  }
  return c.op("index_put", {zeros, grad, indices}, {{"reduce", std::string("add")}});
}

struct Bags {
  Value weight, indices, offsets, per_sample_weights;
  std::string mode;
  bool include_last_offset;
  int64_t padding_idx;
};

Bags bags_of(AtenCall& c, int64_t padding_idx) {
  constexpr std::string_view kModes[] = {"sum", "mean", "max"};
  return {c.tensor("weight"),
          c.tensor("indices"),
          c.tensor("offsets"),
          c.tensor_or_none("per_sample_weights"),
          std::string(kModes[static_cast<size_t>(c.integer("mode"))]),
          c.flag("include_last_offset"),
          padding_idx};
}

// The rows that the maxima came from: of each bag and feature, the first entry that has the maximum.
Value rows_of_maxima(AtenCall& c, const Bags& bags, Value out, Value bag_of, Value counts) {
  const Expr& entries = bags.indices.size(0);
  const Value rows = c.op("index", {bags.weight, bags.indices}), maxima = c.op("index", {out, bag_of});
  const Value is_maximum = c.op("logical_and", {c.compare("eq", rows, maxima), c.unsqueeze(counts, 1)});
  const Value none = c.full(entries, {}, DType::kI64);
  const Value candidates = c.where(is_maximum, c.unsqueeze(c.iota(entries), 1), none);
  const Value first =
      c.op("index_put", {c.expand(none, out.shape()), candidates, bag_of}, {{"reduce", std::string("amin")}});
  return c.op("index", {c.pad(bags.indices, {0}, {1}), first});
}

// The bags, and what their gradient needs: the bag of each entry, the sizes of the bags, the rows of the maxima.
AtenArg embedding_bag(AtenCall& c, const Bags& bags, bool forward_only) {
  const DType dtype = bags.indices.dtype();
  const Value out =
      c.op("embedding_bag", {bags.weight, bags.indices, bags.offsets, bags.per_sample_weights},
           {{"mode", bags.mode}, {"include_last_offset", bags.include_last_offset}, {"padding_idx", bags.padding_idx}});
  const Value order = c.cast(c.iota(bags.indices.size(0)), bags.offsets.dtype());
  const Value starts = c.op("searchsorted", {bags.offsets, order}, {{"right", true}});
  const Value bag_of = c.cast(starts - c.integer(1), dtype);
  if (bags.mode == "sum") {  // PyTorch leaves the sizes zero here, and bag_of empty where nothing is padding
    const Value zeros = c.full(Expr(0), {forward_only ? bags.offsets.size(0) : out.size(0)}, dtype);
    return std::vector<Value>{out, bags.padding_idx < 0 ? nothing(c, dtype) : bag_of, zeros, zeros};
  }
  const Value no_sizes = c.full(Expr(0), {out.size(0)}, dtype);
  const Value counts = c.op("ne", {bags.indices, c.integer(bags.padding_idx, dtype)});
  const Value sizes = c.op("index_put", {no_sizes, c.cast(counts, dtype), bag_of}, {{"reduce", std::string("add")}});
  if (bags.mode == "mean") return std::vector<Value>{out, bag_of, sizes, sizes};
  return std::vector<Value>{out, bag_of, sizes, rows_of_maxima(c, bags, out, bag_of, counts)};
}

void add_embedding_entries(AtenTable& table) {
  table.add("aten.embedding.default(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)",
            embedding);
  table.add("aten.embedding_dense_backward.default(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)",
            [](AtenCall& c) { return embedding_backward(c, c.tensor("grad_output"), c.flag("scale_grad_by_freq")); });
  table.add("aten.embedding_backward.default(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse)",
            [](AtenCall& c) {
              if (c.flag("sparse")) c.decline("the gradient is sparse");
              return embedding_backward(c, c.tensor("grad"), c.flag("scale_grad_by_freq"));
            });
  constexpr std::string_view kBag =
      "(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, "
      "include_last_offset=False";
  for (const bool forward_only : {false, true}) {
    table.add(
        fmt::format("aten._embedding_bag{}.default{}, padding_idx=-1)", forward_only ? "_forward_only" : "", kBag),
        [=](AtenCall& c) { return embedding_bag(c, bags_of(c, c.integer("padding_idx")), forward_only); });
  }
  table.add(fmt::format("aten.embedding_bag.default{})", kBag),
            [](AtenCall& c) { return embedding_bag(c, bags_of(c, -1), true); });
  table.add(
      "aten.embedding_bag.padding_idx(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, "
      "include_last_offset, padding_idx)",
      [](AtenCall& c) {
        return embedding_bag(c, bags_of(c, c.given("padding_idx") ? c.integer("padding_idx") : -1), true);
      });
  table.add("aten.one_hot.default(self, num_classes=-1)", [](AtenCall& c) {
    if (c.integer("num_classes") < 0) c.decline("the number of classes is only known at run time: give num_classes");
    return c.op("one_hot", {c.tensor()}, {{"num_classes", c.size("num_classes")}});
  });
}

}  // namespace

void add_index_entries(AtenTable& table) {
  for (const auto add : {add_mask_entries, add_index_tensor_entries, add_along_dim_entries, add_embedding_entries,
                         add_order_entries, add_group_entries})
    add(table);
}

}  // namespace tenon::aten
