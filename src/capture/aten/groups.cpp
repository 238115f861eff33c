// Elements that belong together: equal ones, segments, the bins of histograms.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "capture/aten/common.h"
#include "graph/limits.h"

namespace tenon::aten {
namespace {

constexpr int64_t kLast = -1;
constexpr double kInf = std::numeric_limits<double>::infinity();

Value added_at(Builder& b, Value target, Value values, Value places) {
  return b.op("index_put", {target, values, places}, {{"reduce", std::string("add")}});
}

// ---- equal elements -------------------------------------------------------------------------------------------------

// Rows in an order that has equal ones side by side: which of them start a run, and the number of each row's run.
struct Runs {
  Value starts;  // bool
  Value run_of;  // i64
};

Runs runs_of(AtenCall& c, Value rows) {
  const Value row = c.iota(rows.size(0));
  const Value before = c.op("index", {rows, c.maximum(row - 1, c.integer(0))});
  Value differs = c.op("ne", {rows, before});
  if (rows.rank() > 1) differs = c.op("any", {differs}, {{"dims", dims_from(1, rows.rank())}});
  const Value starts = logical_or(c, differs, c.compare("eq", row, 0));
  return {starts, c.op("cumsum", {c.cast(starts, DType::kI64)}, {{"dim", int64_t{0}}}) - 1};
}

// The order that sorts rows by their first column, then by the next: stable sorts, the last column first.
Value lexical_order(AtenCall& c, Value rows) {
  constexpr int64_t kMostColumns = 64;
  Value order = c.iota(rows.size(0));
  const Expr count = element_count(Shape(rows.shape().begin() + 1, rows.shape().end()));
  if (!count.is_constant() || count.constant() > kMostColumns) {
    c.decline("rows of {} elements are sorted one column at a time, up to {} of them", count, kMostColumns);
  }
  const Value columns = c.reshape(rows, {rows.size(0), count});
  for (int64_t i = count.constant(); i-- > 0;) {
    const Value column = c.op("select", {columns}, {{"dim", int64_t{1}}, {"index", Expr(i)}});
    const Value step = c.op("argsort", {c.op("index", {column, order})}, {{"dim", int64_t{0}}});
    order = c.op("index", {order, step});
  }
  return order;
}

// One row of each run, for every row the number of its run, and how many rows a run has. `order` says where a row was.
AtenArg unique_rows(AtenCall& c, Value rows, Value order, const Shape& inverse_shape) {
  const Runs runs = runs_of(c, rows);
  const AtenArg found = c.call("aten.nonzero.default", {runs.starts});
  const Value first = c.squeeze(found.get<AtenTensor>()->value, 1);
  const Value values = c.op("index", {rows, first});
  const Expr& count = rows.size(0);
  Value inverse = runs.run_of;
  if (order) inverse = added_at(c, c.full(Expr(0), {count}, DType::kI64), inverse, order);
  const Value none = c.full(Expr(0), {first.size(0)}, DType::kI64);
  const Value counts = added_at(c, none, c.full(Expr(1), {count}, DType::kI64), runs.run_of);
  return std::vector{values, c.reshape(inverse, inverse_shape), counts};
}

// Results that the call does not ask for are empty.
AtenArg only_asked(AtenCall& c, const AtenArg& results) {
  AtenArg::List list = *results.get<AtenArg::List>();
  if (!c.flag("return_inverse")) list[1] = nothing(c, DType::kI64);
  if (!c.flag("return_counts")) list[2] = nothing(c, DType::kI64);
  return list;
}

AtenArg unique(AtenCall& c) {
  const Value x = c.tensor();
  const std::vector<Value> sorted = c.results("sort", {flat(c, x)}, {{"dim", int64_t{0}}});
  return only_asked(c, unique_rows(c, sorted[0], sorted[1], x.shape()));
}

// Along a dimension PyTorch always gives all three.
AtenArg unique_along(AtenCall& c, bool sorts) {
  const Value x = c.tensor();
  const int64_t dim = dim_of(c, "dim", x);
  const Value rows = c.transpose(x, 0, dim);
  const Value order = sorts ? lexical_order(c, rows) : Value();
  AtenArg results = unique_rows(c, sorts ? c.op("index", {rows, order}) : rows, order, {rows.size(0)});
  AtenArg& values = std::get<AtenArg::List>(results.data)[0];
  values = c.transpose(values.get<AtenTensor>()->value, 0, dim);
  return results;
}

AtenArg unique_consecutive(AtenCall& c) {
  if (c.given("dim")) return unique_along(c, false);
  return only_asked(c, unique_rows(c, flat(c, c.tensor()), {}, c.tensor().shape()));
}

void add_unique(AtenTable& table) {
  table.add("aten._unique2.default(self, sorted=True, return_inverse=False, return_counts=False)", unique);
  table.add("aten.unique_consecutive.default(self, return_inverse=False, return_counts=False, dim=None)",
            unique_consecutive);
  table.add("aten.unique_dim.default(self, dim, sorted=True, return_inverse=False, return_counts=False)",
            [](AtenCall& c) { return unique_along(c, true); });
}

// ---- segments -------------------------------------------------------------------------------------------------------

// [..., segments]: where each starts, and where it ends.
std::pair<Value, Value> segments_of(AtenCall& c) {
  if (c.given("lengths")) {
    const Value lengths = c.cast(c.tensor("lengths"), DType::kI64);
    const Value ends = c.op("cumsum", {lengths}, {{"dim", kLast}});
    return {ends - lengths, ends};
  }
  if (!c.given("offsets")) c.decline("segments by indices");
  const Value offsets = c.cast(c.tensor("offsets"), DType::kI64);
  const Expr count = offsets.shape().back();
  return {c.slice(offsets, kLast, 0, count - 1), c.slice(offsets, kLast, 1, count)};
}

struct Fold {
  std::string_view op;
  double identity;
  std::string_view join;  // with the initial value
};

Fold fold_of(const AtenCall& c) {
  const std::string name = c.string("reduce");
  if (name == "sum" || name == "mean") return {"sum", 0, "add"};
  if (name == "prod") return {"prod", 1, "mul"};
  if (name == "max") return {"amax", -kInf, "maximum"};
  if (name == "min") return {"amin", kInf, "minimum"};
  fail("reduce must be sum, mean, prod, max or min, got '{}'", name);
}

// Every segment looks at all elements, and leaves out those that are not its own.
AtenArg segment_reduce(AtenCall& c) {
  const Value x = to_wide(c, c.tensor("data"));
  const auto [starts, ends] = segments_of(c);
  const int64_t axis = starts.rank() - 1;
  const Fold fold = fold_of(c);
  const Value place = c.iota(x.size(axis));
  Value is_own =
      logical_and(c, c.op("ge", {place, c.unsqueeze(starts, kLast)}), c.op("lt", {place, c.unsqueeze(ends, kLast)}));
  Value lengths = ends - starts;
  for (int64_t dim = axis + 1; dim < x.rank(); ++dim) {
    is_own = c.unsqueeze(is_own, kLast);
    lengths = c.unsqueeze(lengths, kLast);
  }
  const Value own = c.where(is_own, c.unsqueeze(x, axis), c.scalar(fold.identity, x.dtype()));
  Value result = c.op(fold.op, {own}, {{"dims", std::vector{axis + 1}}});
  if (c.given("initial")) result = c.op(fold.join, {result, c.scalar(c.real("initial"), x.dtype())});
  if (c.string("reduce") == "mean") {
    const bool keeps_empty = c.given("initial");
    const Value count = c.cast(keeps_empty ? c.maximum(lengths, c.integer(1)) : lengths, x.dtype());
    result = result / count;  // 0 / 0 of an empty one
  }
  return c.cast(result, c.tensor("data").dtype());
}

// ---- histograms -----------------------------------------------------------------------------------------------------

struct Axis {
  Value edges;
  Value place;   // the bin of each element
  Value inside;  // whether it has one
};

// The bins between edges. The last one has its upper edge too.
Axis axis_of(AtenCall& c, Value x, Value edges) {
  const Expr count = edges.size(0) - 1;
  const auto edge = [&](const Expr& at) { return c.op("select", {edges}, {{"dim", int64_t{0}}, {"index", at}}); };
  const Value inside = logical_and(c, c.op("ge", {x, edge(0)}), c.op("le", {x, edge(count)}));
  const Value below = c.op("searchsorted", {edges, x}, {{"right", true}}) - 1;
  const Value place = c.minimum(below, c.full(count - 1, {}, DType::kI64));
  return {edges, c.where(inside, place, c.integer(0)), inside};
}

// `bins` equal ones over a range, or over that of the data; where that is a point, half a unit more on each side.
Value equal_edges(AtenCall& c, Value x, int64_t bins, std::optional<std::pair<double, double>> range) {
  Value low, high;
  if (range) {
    low = c.scalar(range->first, x.dtype()), high = c.scalar(range->second, x.dtype());
  } else if (x.size(0).is_constant(0)) {
    low = c.scalar(0, x.dtype()), high = c.scalar(1, x.dtype());
  } else {
    low = c.op("amin", {x}), high = c.amax(x);
  }
  const Value is_point = c.op("eq", {low, high});
  const Value start = c.where(is_point, low - 0.5, low), end = c.where(is_point, high + 0.5, high);
  const AtenArg edges = c.call("aten.linspace.Tensor_Tensor", {start, end, bins + 1, x.dtype()});
  return edges.get<AtenTensor>()->value;
}

std::optional<std::pair<double, double>> range_of(const AtenCall& c, size_t dim) {
  const std::vector<double> range = c.reals("range");
  if (range.empty()) return std::nullopt;
  return std::pair{range.at(2 * dim), range.at(2 * dim + 1)};
}

// How much weight falls into each bin of all axes; as a density, what integrates to 1.
Value binned(AtenCall& c, const std::vector<Axis>& axes, DType dtype) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis.edges.size(0) - 1);
  Value place = axes[0].place, inside = axes[0].inside;
  for (size_t i = 1; i < axes.size(); ++i) {
    place = place * c.full(shape[i], {}, DType::kI64) + axes[i].place;
    inside = logical_and(c, inside, axes[i].inside);
  }
  Value weight = c.cast(inside, dtype);
  if (c.given("weight")) weight = c.where(inside, flat(c, c.tensor("weight")), c.scalar(0, dtype));
  const Value sums = added_at(c, c.full(Expr(0), {element_count(shape)}, dtype), weight, place);
  Value counts = c.reshape(sums, shape);
  if (!c.flag("density")) return counts;
  counts = counts / c.sum(counts);
  for (size_t i = 0; i < axes.size(); ++i) {
    Shape aligned(axes.size(), 1);
    aligned[i] = shape[i];
    const Value edges = axes[i].edges;
    const Value widths = c.slice(edges, 0, 1, shape[i] + 1) - c.slice(edges, 0, 0, shape[i]);
    counts = counts / c.reshape(widths, aligned);
  }
  return counts;
}

AtenArg histogram(AtenCall& c) {
  const Value x = flat(c, c.tensor());
  const Value edges = c.is_tensor("bins") ? c.tensor("bins") : equal_edges(c, x, c.integer("bins"), range_of(c, 0));
  return std::vector{binned(c, {axis_of(c, x, edges)}, x.dtype()), edges};
}

// The coordinates of points: the last dimension.
std::vector<Value> coordinates(AtenCall& c) {
  const Value x = c.tensor();
  const Expr& rank = x.shape().back();
  if (!rank.is_constant()) c.decline("the number of coordinates is {}", rank);
  check_part_count(rank.constant(), "coordinates");
  std::vector<Value> result;
  for (int64_t i = 0; i < rank.constant(); ++i) {
    result.push_back(flat(c, c.op("select", {x}, {{"dim", kLast}, {"index", Expr(i)}})));
  }
  return result;
}

std::vector<Value> edges_of_each(AtenCall& c, const std::vector<Value>& points) {
  const std::vector<int64_t> bins = c.ints("bins");
  std::vector<Value> edges;
  for (size_t i = 0; i < points.size(); ++i) edges.push_back(equal_edges(c, points[i], bins.at(i), range_of(c, i)));
  return edges;
}

AtenArg histogram_of_points(AtenCall& c, const std::vector<Value>& points, const std::vector<Value>& edges) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < points.size(); ++i) axes.push_back(axis_of(c, points[i], edges.at(i)));
  return binned(c, axes, c.tensor().dtype());
}

struct Range {
  Value low, high;
};

// Without a range, that of the data; where that is one point, one more on each side.
Range histogram_range(AtenCall& c, Value x) {
  const double low = c.real("min"), high = c.real("max");
  if (low != high) {
    const bool is_range = std::isfinite(low) && std::isfinite(high) && low < high;
    if (!is_range) c.decline("min {} and max {} are not a range", low, high);
    return {c.scalar(low, x.dtype()), c.scalar(high, x.dtype())};
  }
  const Value least = c.op("amin", {x}), most = c.amax(x);
  const Value is_point = c.op("eq", {least, most});
  return {c.where(is_point, least - 1.0, least), c.where(is_point, most + 1.0, most)};
}

AtenArg histc(AtenCall& c) {
  const Value x = flat(c, c.tensor());
  const int64_t bins = c.integer("bins");
  if (x.size(0).is_constant(0)) return c.full(Expr(0), {bins}, x.dtype());
  const Range range = histogram_range(c, x);
  const Value inside = c.op("logical_and", {c.op("ge", {x, range.low}), c.op("le", {x, range.high})});
  const Value share = (x - range.low) / (range.high - range.low) * static_cast<double>(bins);
  const Value place = c.cast(c.where(inside, share, c.scalar(0, x.dtype())), DType::kI64);
  const Value bin = c.minimum(place, c.integer(bins - 1));
  return added_at(c, c.full(Expr(0), {bins}, x.dtype()), c.cast(inside, x.dtype()), bin);
}

// PyTorch counts in i64, and adds weights in f32 or f64.
AtenArg bincount(AtenCall& c) {
  const Value x = c.tensor();
  const Value counts =
      c.op("bincount", {x}, {{"minlength", c.size("minlength")}, {"count", fresh_size(c, "bincount")}});
  if (!c.given("weights") || x.size(0).is_constant(0)) return counts;
  const Value weights = c.tensor("weights");
  const DType dtype = weights.dtype() == DType::kF32 ? DType::kF32 : DType::kF64;
  const Value places = c.cast(x, DType::kI64);
  return added_at(c, c.full(Expr(0), {counts.size(0)}, dtype), c.cast(weights, dtype), places);
}

void add_histograms(AtenTable& table) {
  table.add("aten.histc.default(self, bins=100, min=0, max=0)", histc);
  table.add("aten.bincount.default(self, weights=None, minlength=0)", bincount);
  constexpr std::string_view kRest = "weight=None, density=False)";
  table.add(fmt::format("aten.histogram.bin_ct(self, bins=100, *, range=None, {}", kRest), histogram);
  table.add(fmt::format("aten.histogram.bins_tensor(self, bins, *, {}", kRest), histogram);
  table.add(fmt::format("aten._histogramdd_bin_edges.default(self, bins, *, range=None, {}", kRest),
            [](AtenCall& c) { return edges_of_each(c, coordinates(c)); });
  table.add(fmt::format("aten._histogramdd_from_bin_cts.default(self, bins, *, range=None, {}", kRest),
            [](AtenCall& c) {
              const std::vector<Value> points = coordinates(c);
              return histogram_of_points(c, points, edges_of_each(c, points));
            });
  table.add(fmt::format("aten._histogramdd_from_bin_tensors.default(self, bins, *, {}", kRest),
            [](AtenCall& c) { return histogram_of_points(c, coordinates(c), c.tensors("bins")); });
}

}  // namespace

void add_group_entries(AtenTable& table) {
  add_unique(table);
  table.add(
      "aten.segment_reduce.default(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, "
      "initial=None)",
      segment_reduce);
  add_histograms(table);
}

}  // namespace tenon::aten
