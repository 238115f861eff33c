// Views: overloads whose result shares memory with the first argument in PyTorch.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "capture/aten/common.h"
#include "capture/aten/layout.h"
#include "graph/limits.h"

namespace tenon::aten {
namespace {

Value self_of(const AtenCall& c) { return c.arguments()[0].get<AtenTensor>()->value; }

// ---- all elements, in their order -----------------------------------------------------------------------------------

Value write_reshaped(AtenCall& c, Value value) { return c.reshape(value, self_of(c).shape()); }

void add_reshaping(AtenTable& table, std::string_view signature, Value (*look)(AtenCall&)) {
  table.view(signature, [look](AtenCall& c) { return look(c); }, write_reshaped);
}

// A reshaping that copies where strides do not allow a view.
void add_reshaping_or_copy(AtenTable& table, std::string_view signature, Value (*look)(AtenCall&)) {
  const auto build = [look](AtenCall& c) {
    const Value result = look(c);
    if (!can_view_as(self_of(c), result.shape())) c.give_copy();
    return result;
  };
  table.view(signature, build, write_reshaped);
}

Value itself(AtenCall& c) { return self_of(c); }

Value reshaped_to(AtenCall& c, std::string_view size) {
  return c.op("reshape", {c.tensor()}, {{"shape", c.sizes(size)}});
}

Value flattened(AtenCall& c) {
  const Value x = c.tensor();
  if (x.rank() == 0) return c.reshape(x, {1});
  const int64_t start = dim_of(c, "start_dim", x), end = dim_of(c, "end_dim", x);
  return start == end ? x : c.op("flatten", {x}, {{"start", start}, {"end", end}});
}

// PyTorch takes a dimension of rank 0 here, as if it had one.
Value squeezed(AtenCall& c, std::vector<int64_t> dims) {
  const Value x = c.tensor();
  return x.rank() == 0 || dims.empty() ? x : c.op("squeeze", {x}, {{"dims", std::move(dims)}});
}

AtenArg contiguous(AtenCall& c) {
  const Value x = c.tensor();
  if (!is_contiguous(x)) c.give_copy();
  return x;
}

void add_reshaping_entries(AtenTable& table) {
  add_reshaping(table, "aten.{alias,real,conj,resolve_conj,resolve_neg}.default(self)", itself);
  add_reshaping(table, "aten.view.default(self, size)", [](AtenCall& c) { return reshaped_to(c, "size"); });
  add_reshaping(table, "aten._reshape_alias.default(self, size, stride)",
                [](AtenCall& c) { return reshaped_to(c, "size"); });
  add_reshaping(table, "aten.view_as.default(self, other)",
                [](AtenCall& c) { return c.reshape(c.tensor(), c.tensor("other").shape()); });
  add_reshaping_or_copy(table, "aten.reshape.default(self, shape)",
                        [](AtenCall& c) { return reshaped_to(c, "shape"); });
  add_reshaping_or_copy(table, "aten.reshape_as.default(self, other)",
                        [](AtenCall& c) { return c.reshape(c.tensor(), c.tensor("other").shape()); });
  add_reshaping_or_copy(table, "aten.ravel.default(self)", [](AtenCall& c) { return flat(c, c.tensor()); });
  add_reshaping_or_copy(table, "aten.flatten.using_ints(self, start_dim=0, end_dim=-1)", flattened);
  table.view("aten.contiguous.default(self, *, memory_format=0)", contiguous, write_reshaped);
  add_reshaping(table, "aten.unflatten.int(self, dim, sizes)", [](AtenCall& c) {
    return c.op("unflatten", {c.tensor()}, {{"dim", c.integer("dim")}, {"sizes", c.sizes("sizes")}});
  });
  add_reshaping(table, "aten.squeeze.default(self)",
                [](AtenCall& c) { return squeezed(c, dims_from(0, c.tensor().rank())); });
  add_reshaping(table, "aten.squeeze.dim(self, dim)", [](AtenCall& c) { return squeezed(c, {c.integer("dim")}); });
  add_reshaping(table, "aten.squeeze.dims(self, dim)", [](AtenCall& c) { return squeezed(c, c.ints("dim")); });
  add_reshaping(table, "aten.unsqueeze.default(self, dim)",
                [](AtenCall& c) { return c.op("unsqueeze", {c.tensor()}, {{"dim", c.integer("dim")}}); });
  add_reshaping(table, "aten.atleast_1d.default(self)", [](AtenCall& c) { return at_least_1d(c, c.tensor()); });
  add_reshaping(table, "aten.atleast_2d.default(self)", [](AtenCall& c) { return at_least_2d(c, c.tensor()); });
  add_reshaping(table, "aten.atleast_3d.default(self)", [](AtenCall& c) { return at_least_3d(c, c.tensor()); });
}

// ---- dimensions in another order ------------------------------------------------------------------------------------

using Order = std::vector<int64_t>;

Order in_order(const AtenCall& c) { return dims_from(0, self_of(c).rank()); }

Order swapped(const AtenCall& c, int64_t a, int64_t b) {
  Order order = in_order(c);
  const int64_t rank = std::ssize(order);
  if (rank == 0) return order;
  std::swap(order[static_cast<size_t>(normalize_dim(a, rank))], order[static_cast<size_t>(normalize_dim(b, rank))]);
  return order;
}

Order last_two_swapped(const AtenCall& c) {
  if (self_of(c).rank() < 2) fail("{}: a tensor of rank {} is not a matrix", c.target(), self_of(c).rank());
  return swapped(c, -2, -1);
}

Order reversed(const AtenCall& c) {
  Order order = in_order(c);
  std::reverse(order.begin(), order.end());
  return order;
}

Order normalized(const std::vector<int64_t>& dims, int64_t rank) {
  Order order;
  for (int64_t dim : dims) order.push_back(normalize_dim(dim, rank));
  return order;
}

Order moved(const AtenCall& c) {
  const int64_t rank = c.tensor().rank();
  if (rank == 0) return {};
  const Order sources = normalized(c.ints("source"), rank), targets = normalized(c.ints("destination"), rank);
  if (sources.size() != targets.size()) {
    fail("{}: {} dimensions cannot move to {} places", c.target(), sources.size(), targets.size());
  }
  Order order(static_cast<size_t>(rank), -1);
  for (size_t i = 0; i < sources.size(); ++i) order[static_cast<size_t>(targets[i])] = sources[i];
  auto place = order.begin();
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (std::ranges::find(sources, dim) != sources.end()) continue;
    place = std::find(place, order.end(), -1);
    *place = dim;
  }
  return order;
}

Value permuted(AtenCall& c, Value x, const Order& order) {
  return std::ranges::is_sorted(order) ? x : c.permute(x, order);
}

void add_permuting(AtenTable& table, std::string_view signature, Order (*order_of)(const AtenCall&)) {
  table.view(
      signature, [order_of](AtenCall& c) { return permuted(c, self_of(c), order_of(c)); },
      [order_of](AtenCall& c, Value value) {
        const Order order = order_of(c);
        Order inverse(order.size());
        for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
        return permuted(c, value, inverse);
      });
}

// The in-place overload has another name than the view: the tensor itself becomes the view.
AtenArg transpose_itself(AtenCall& c) {
  c.replace_self();
  return permuted(c, c.tensor(), swapped(c, c.integer("dim0"), c.integer("dim1")));
}

void add_permuting_entries(AtenTable& table) {
  add_permuting(table, "aten.permute.default(self, dims)", [](const AtenCall& c) {
    Order order = normalized(c.ints("dims"), c.tensor().rank());
    if (std::ssize(order) != c.tensor().rank()) {
      fail("permute: {} dimensions are given, and the tensor has {}", order.size(), c.tensor().rank());
    }
    return order;
  });
  const auto by_dims = [](const AtenCall& c) { return swapped(c, c.integer("dim0"), c.integer("dim1")); };
  add_permuting(table, "aten.transpose.int(self, dim0, dim1)", by_dims);
  table.view("aten.transpose_.default(self, dim0, dim1)", transpose_itself, [](AtenCall& c, Value value) {
    return permuted(c, value, swapped(c, c.integer("dim0"), c.integer("dim1")));
  });
  add_permuting(table, "aten.swapdims.default(self, dim0, dim1)", by_dims);
  add_permuting(table, "aten.swapaxes.default(self, axis0, axis1)",
                [](const AtenCall& c) { return swapped(c, c.integer("axis0"), c.integer("axis1")); });
  add_permuting(table, "aten.{t,numpy_T,matrix_H}.default(self)", reversed);
  add_permuting(table, "aten.{mT,mH,adjoint}.default(self)", last_two_swapped);
  add_permuting(table, "aten.{movedim,moveaxis}.{int,intlist}(self, source, destination)", moved);
}

// ---- a part of the elements -----------------------------------------------------------------------------------------

NamedAttrs narrow_attrs(const AtenCall& c) {
  const Value x = c.tensor();
  const int64_t dim = dim_of(c, "dim", x);
  const Expr start = c.size("start");
  const Expr first = start.is_constant() && start.constant() < 0 ? start + x.size(dim) : start;
  return {{"dim", dim}, {"start", first}, {"end", first + c.size("length")}};
}

void add_part(AtenTable& table, std::string_view signature, std::string op, NamedAttrs (*attrs)(const AtenCall&)) {
  table.view(
      signature, [=](AtenCall& c) { return c.op(op, {self_of(c)}, attrs(c)); },
      [=](AtenCall& c, Value value) { return c.op(op + "_scatter", {self_of(c), value}, attrs(c)); });
}

Value narrowed_at_run_time(AtenCall& c) {
  const Value start = c.reshape(c.tensor("start"), {1});
  const Value index = c.op("add", {c.iota(c.size("length")), start});
  std::vector<Value> operands(static_cast<size_t>(dim_of(c, "dim", c.tensor())) + 1);
  operands[0] = c.tensor();
  operands.push_back(index);
  return c.op("index", operands);
}

AtenArg windows(AtenCall& c) {
  const Value x = c.tensor();
  if (x.rank() == 0) return c.slice(c.unsqueeze(x, 0), 0, 0, c.size("size"));
  return c.op("windows", {x},
              {{"dim", dim_of(c, "dimension", x)}, {"size", c.integer("size")}, {"step", c.integer("step")}});
}

// Counts in the order of the elements. Where PyTorch has them in another order, call_on_memory permutes them first.
AtenArg strided(AtenCall& c) {
  NamedAttrs attrs = {{"size", c.sizes("size")}, {"stride", c.sizes("stride")}};
  if (c.given("storage_offset")) attrs.emplace_back("offset", c.size("storage_offset"));
  return c.op("as_strided", {c.tensor()}, std::move(attrs));
}

void add_part_entries(AtenTable& table) {
  add_part(table, "aten.select.int(self, dim, index)", "select", select_attrs);
  add_part(table, "aten.slice.Tensor(self, dim=0, start=None, end=None, step=1)", "slice", slice_attrs);
  add_part(table, "aten.narrow.default(self, dim, start, length)", "slice", narrow_attrs);
  add_part(table, "aten.diagonal.default(self, offset=0, dim1=0, dim2=1)", "diagonal", diagonal_attrs);
  add_part(table, "aten.linalg_diagonal.default(A, *, offset=0, dim1=-2, dim2=-1)", "diagonal", diagonal_attrs);
  table.view("aten.narrow.Tensor(self, dim, start, length)", narrowed_at_run_time);
  table.view("aten.unfold.default(self, dimension, size, step)", windows);
  table.view("aten.as_strided.default(self, size, stride, storage_offset=None)", strided);
}

// ---- expanded, or read as something else ----------------------------------------------------------------------------

AtenArg bits_as(AtenCall& c) {
  const DType dtype = *c.dtype();
  if (size_of(dtype) != size_of(c.tensor().dtype())) {
    c.decline("elements of {} have another size than those of {}", name_of(dtype), name_of(c.tensor().dtype()));
  }
  return c.tensor().dtype() == dtype ? c.tensor() : c.op("bitcast", {c.tensor()}, {{"dtype", dtype}});
}

void add_other_entries(AtenTable& table) {
  const auto expanded = [](AtenCall& c) { return c.op("expand", {c.tensor()}, {{"shape", c.sizes("size")}}); };
  table.view("aten.expand.default(self, size, *, implicit=False)", expanded);
  table.view("aten.broadcast_to.default(self, size)", expanded);
  table.view("aten.expand_as.default(self, other)",
             [](AtenCall& c) { return c.expand(c.tensor(), c.tensor("other").shape()); });
  table.view("aten.view.dtype(self, dtype)", bits_as, [](AtenCall& c, Value value) {
    return value.dtype() == self_of(c).dtype() ? value : c.op("bitcast", {value}, {{"dtype", self_of(c).dtype()}});
  });
  table.view(
      "aten._neg_view.default(self)", [](AtenCall& c) { return c.op("neg", {c.tensor()}); },
      [](AtenCall& c, Value value) { return c.op("neg", {value}); });
}

// ---- several parts --------------------------------------------------------------------------------------------------

struct Parts {
  int64_t dim;
  Shape sizes;
};

int64_t constant_count(const AtenCall& c, const Expr& count) {
  if (!count.is_constant()) c.decline("how many parts there are depends on the size: {}", count);
  check_part_count(count.constant(), "parts");
  return count.constant();
}

Parts equal_parts(const AtenCall& c, int64_t dim, const Expr& size, const Expr& part) {
  if (part.is_constant(0)) return {dim, {size}};
  const int64_t count = constant_count(c, ceildiv(size, part));
  Shape sizes(static_cast<size_t>(std::max<int64_t>(count, 1)), part);
  sizes.back() = size - part * (std::ssize(sizes) - 1);
  return {dim, std::move(sizes)};
}

Parts split_parts(const AtenCall& c) {
  const int64_t dim = dim_of(c, "dim", c.tensor());
  return equal_parts(c, dim, c.tensor().size(dim), c.size("split_size"));
}

Parts given_parts(const AtenCall& c, std::string_view sizes) { return {dim_of(c, "dim", c.tensor()), c.sizes(sizes)}; }

Parts chunk_parts(const AtenCall& c) {
  const int64_t dim = dim_of(c, "dim", c.tensor());
  const Expr& size = c.tensor().size(dim);
  const int64_t chunks = c.integer("chunks");
  check_part_count(chunks, "chunks");
  if (size.is_constant(0)) return {dim, Shape(static_cast<size_t>(chunks), 0)};
  return equal_parts(c, dim, size, ceildiv(size, chunks));
}

Parts section_parts(const AtenCall& c, int64_t dim, int64_t sections) {
  const Expr& size = c.tensor().size(dim);
  check_part_count(sections, "sections");
  const Expr longer = mod(size, sections);
  if (!longer.is_constant()) c.decline("the sizes of the parts depend on {}", size);
  Shape sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(floordiv(size, sections) + (i < longer.constant() ? 1 : 0));
  return {dim, std::move(sizes)};
}

Expr start_of(const Parts& parts, size_t position) {
  Expr start = 0;
  for (size_t i = 0; i < position; ++i) start += parts.sizes[i];
  return start;
}

using PartsFn = std::function<Parts(const AtenCall&)>;

AtenFn splitter(const PartsFn& parts_of) {
  return [parts_of](AtenCall& c) {
    Parts parts = parts_of(c);
    return c.results("split", {self_of(c)}, {{"sizes", std::move(parts.sizes)}, {"dim", parts.dim}});
  };
}

void add_split(AtenTable& table, std::string_view signature, const PartsFn& parts_of) {
  table.view(signature, splitter(parts_of), [parts_of](AtenCall& c, Value value) {
    const Parts parts = parts_of(c);
    const Expr start = start_of(parts, c.written());
    return c.op("slice_scatter", {self_of(c), value},
                {{"dim", parts.dim}, {"start", start}, {"end", start + parts.sizes[c.written()]}});
  });
}

// Bounds may overlap, cross, or lie outside.
AtenArg slices_between(AtenCall& c, int64_t dim, const Shape& bounds) {
  AtenArg::List parts;
  Expr start = 0;
  for (const Expr& end : bounds) {
    parts.emplace_back(c.slice(self_of(c), dim, start, end));
    start = end;
  }
  parts.emplace_back(c.slice(self_of(c), dim, start, kInt64Max));
  return parts;
}

int64_t horizontal_dim(const AtenCall& c) { return c.tensor().rank() == 1 ? 0 : 1; }

void add_split_entries(AtenTable& table) {
  const PartsFn split_with_sizes = [](const AtenCall& c) { return given_parts(c, "split_sizes"); };
  add_split(table, "aten.split.Tensor(self, split_size, dim=0)", split_parts);
  add_split(table, "aten.split.sizes(self, split_size, dim=0)",
            [](const AtenCall& c) { return given_parts(c, "split_size"); });
  add_split(table, "aten.split_with_sizes.default(self, split_sizes, dim=0)", split_with_sizes);
  add_split(table, "aten.chunk.default(self, chunks, dim=0)", chunk_parts);
  table.add("aten.unsafe_split.Tensor(self, split_size, dim=0)", splitter(split_parts));
  table.add("aten.unsafe_split_with_sizes.default(self, split_sizes, dim=0)", splitter(split_with_sizes));
  table.add("aten.unsafe_chunk.default(self, chunks, dim=0)", splitter(chunk_parts));

  add_split(table, "aten.tensor_split.sections(self, sections, dim=0)",
            [](const AtenCall& c) { return section_parts(c, dim_of(c, "dim", c.tensor()), c.integer("sections")); });
  table.view("aten.tensor_split.indices(self, indices, dim=0)",
             [](AtenCall& c) { return slices_between(c, dim_of(c, "dim", c.tensor()), c.sizes("indices")); });
  const std::tuple<const char*, int64_t (*)(const AtenCall&)> fixed[] = {
      {"hsplit", horizontal_dim},
      {"vsplit", [](const AtenCall&) -> int64_t { return 0; }},
      {"dsplit", [](const AtenCall&) -> int64_t { return 2; }}};
  for (const auto& [name, dim_fn] : fixed) {
    const auto dim = dim_fn;
    add_split(table, fmt::format("aten.{}.int(self, sections)", name),
              [dim](const AtenCall& c) { return section_parts(c, dim(c), c.integer("sections")); });
    table.view(fmt::format("aten.{}.array(self, indices)", name),
               [dim](AtenCall& c) { return slices_between(c, dim(c), c.sizes("indices")); });
  }
  table.view(
      "aten.unbind.int(self, dim=0)",
      [](AtenCall& c) { return c.results("unbind", {c.tensor()}, {{"dim", c.integer("dim")}}); },
      [](AtenCall& c, Value value) {
        return c.op("select_scatter", {c.tensor(), value}, {{"dim", c.integer("dim")}, {"index", Expr(c.written())}});
      });
}

}  // namespace

void add_view_entries(AtenTable& table) {
  for (const auto add :
       {add_reshaping_entries, add_permuting_entries, add_part_entries, add_other_entries, add_split_entries})
    add(table);
}

}  // namespace tenon::aten
