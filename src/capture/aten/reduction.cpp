// Folds, scans, softmax, statistics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "capture/aten/common.h"
#include "graph/limits.h"

namespace tenon::aten {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- folds ----------------------------------------------------------------------------------------------------------

// Overloads come with and without dim and keepdim.
struct Extent {
  std::vector<int64_t> dims = {};
  bool keepdim = false;
};

NamedAttrs attrs_of(const Extent& extent) { return {{"dims", extent.dims}, {"keepdim", extent.keepdim}}; }

Value fold(AtenCall& c, std::string_view op, Value x, const Extent& extent) { return c.op(op, {x}, attrs_of(extent)); }

Extent whole(AtenCall&) { return {}; }
Extent along(AtenCall& c) { return {c.ints("dim"), c.flag("keepdim")}; }
using ExtentFn = Extent (*)(AtenCall&);

// With an argument dtype: of the operand and of the result.
AtenFn typed_fold(std::string_view op, ExtentFn extent) {
  return [op, extent](AtenCall& c) {
    const auto dtype = c.dtype();
    return cast(c, fold(c, op, cast(c, c.tensor(), dtype), extent(c)), dtype);
  };
}

AtenFn plain_fold(std::string_view op, ExtentFn extent) {
  return [op, extent](AtenCall& c) { return fold(c, op, c.tensor(), extent(c)); };
}

// any and all: over an empty list of dimensions, of each element; u8 stays u8.
AtenFn truth_fold(std::string_view op, ExtentFn extent) {
  return [op, extent](AtenCall& c) {
    const Value x = c.tensor();
    const bool of_each = c.takes("dim") && c.given("dim") && extent(c).dims.empty();
    const Value result = of_each ? c.cast(x, DType::kBool) : fold(c, op, x, extent(c));
    return x.dtype() == DType::kU8 ? c.cast(result, DType::kU8) : result;
  };
}

void add_sums(AtenTable& table) {
  table.add("aten.sum.default(self, *, dtype=None)", typed_fold("sum", whole));
  table.add("aten.sum.dim_IntList(self, dim, keepdim=False, *, dtype=None)", typed_fold("sum", along));
  table.add("aten.prod.default(self, *, dtype=None)", typed_fold("prod", whole));
  table.add("aten.prod.dim_int(self, dim, keepdim=False, *, dtype=None)", typed_fold("prod", along));
  table.add("aten.mean.default(self, *, dtype=None)", typed_fold("mean", whole));
  table.add("aten.mean.dim(self, dim, keepdim=False, *, dtype=None)", typed_fold("mean", along));
  const AtenFn count = [](AtenCall& c) { return fold(c, "count_nonzero", c.tensor(), {c.ints("dim")}); };
  table.add("aten.count_nonzero.default(self, dim=None)", count);
  table.add("aten.count_nonzero.dim_IntList(self, dim)", count);
  table.add("aten.sum_to_size.default(self, size)", [](AtenCall& c) {
    const Shape size = c.sizes("size");
    return size.empty() ? c.sum(c.tensor()) : c.sum_to(c.tensor(), size);  // of no dimensions, too, integers are i64
  });
  table.add("aten.trace.default(self)", [](AtenCall& c) { return c.sum(c.op("diagonal", {c.tensor()})); });
}

void add_truths(AtenTable& table) {
  for (std::string_view op : {"any", "all"}) {
    table.add(fmt::format("aten.{}.default(self)", op), truth_fold(op, whole));
    table.add(fmt::format("aten.{}.dim(self, dim, keepdim=False)", op), truth_fold(op, along));
    table.add(fmt::format("aten.{}.dims(self, dim=None, keepdim=False)", op), truth_fold(op, along));
  }
  table.add("aten._is_all_true.default(self)", plain_fold("all", whole));
  table.add("aten._is_any_true.default(self)", plain_fold("any", whole));
}

// ---- the largest and the smallest -----------------------------------------------------------------------------------

AtenArg both_extremes(AtenCall& c, const Extent& extent) {
  return std::vector{fold(c, "amin", c.tensor(), extent), fold(c, "amax", c.tensor(), extent)};
}

void add_extremes(AtenTable& table) {
  for (std::string_view op : {"amax", "amin"}) {
    table.add(fmt::format("aten.{}.default(self, dim=[], keepdim=False)", op), plain_fold(op, along));
    table.add(fmt::format("aten.{}.default(self)", op.substr(1)), plain_fold(op, whole));
  }
  table.op("aten.max.dim(self, dim, keepdim=False)", "max_dim");
  table.op("aten.min.dim(self, dim, keepdim=False)", "min_dim");
  table.op("aten.{argmax,argmin}.default(self, dim=None, keepdim=False)");
  table.add("aten.aminmax.default(self, *, dim=None, keepdim=False)",
            [](AtenCall& c) { return both_extremes(c, along(c)); });
  table.add("aten._aminmax.default(self)", [](AtenCall& c) { return both_extremes(c, {}); });
  table.add("aten._aminmax.dim(self, dim, keepdim=False)", [](AtenCall& c) { return both_extremes(c, along(c)); });
}

// ---- without NaN ----------------------------------------------------------------------------------------------------

Value nan_to_zero(AtenCall& c, Value x) {
  return is_float(x.dtype()) ? c.where(c.unary("isnan", x), c.scalar(0, x.dtype()), x) : x;
}

AtenArg nansum(AtenCall& c) {
  const Value x = nan_to_zero(c, c.tensor());
  const auto dtype = c.dtype();
  return cast(c, fold(c, "sum", cast(c, x, dtype), along(c)), dtype);
}

AtenArg nanmean(AtenCall& c) {
  const Value counted = c.logical_not(c.unary("isnan", c.tensor()));
  const Value count = fold(c, "sum", counted, along(c));
  const Value sum = nansum(c).get<AtenTensor>()->value;
  return sum / c.cast(count, sum.dtype());
}

void add_without_nan(AtenTable& table) {
  constexpr auto kExtent = "(self, dim=None, keepdim=False, *, dtype=None)";
  table.add(fmt::format("aten.nansum.default{}", kExtent), nansum);
  table.add(fmt::format("aten.nanmean.default{}", kExtent), nanmean);
}

// ---- variance -------------------------------------------------------------------------------------------------------

double correction_of(AtenCall& c) {
  if (c.takes("unbiased")) return c.flag("unbiased") ? 1 : 0;
  return c.given("correction") ? c.real("correction") : 1;
}

NamedAttrs variance_attrs(AtenCall& c, double correction) {
  NamedAttrs attrs = attrs_of(c.takes("dim") ? along(c) : Extent{});
  attrs.emplace_back("correction", correction);
  return attrs;
}

bool has_run_time_correction(AtenCall& c) { return c.takes("correction") && c.is_run_time_number("correction"); }

// The variance and the mean, where the correction is only known at run time.
std::vector<Value> corrected_later(AtenCall& c) {
  const Value x = to_wide(c, c.tensor());
  std::vector<Value> results = c.results("var_mean", {x}, variance_attrs(c, 0));
  const auto count_of = [&](Value of) { return c.full(element_count(of.shape()), {}, DType::kF64); };
  const Value count = count_of(x) / count_of(results[0]);
  const Value divisor = c.maximum(count - c.number("correction", DType::kF64), c.scalar(0, DType::kF64));
  results[0] = results[0] * c.cast(count / divisor, x.dtype());
  return results;
}

AtenFn variance(std::string_view op) {
  return [op](AtenCall& c) -> AtenArg {
    const DType dtype = float_dtype(c.tensor().dtype());
    if (!has_run_time_correction(c)) return c.op(op, {c.tensor()}, variance_attrs(c, correction_of(c)));
    const Value result = corrected_later(c)[0];
    return c.cast(op == "std" ? c.sqrt(result) : result, dtype);
  };
}

AtenArg with_mean(AtenCall& c, bool root) {
  const bool is_later = has_run_time_correction(c);
  std::vector<Value> results =
      is_later ? corrected_later(c) : c.results("var_mean", {c.tensor()}, variance_attrs(c, correction_of(c)));
  if (root) results[0] = c.sqrt(results[0]);
  for (Value& result : results) result = c.cast(result, float_dtype(c.tensor().dtype()));
  return results;
}

void add_variances(AtenTable& table) {
  const auto add = [&](std::string_view name, const AtenFn& build) {
    table.add(fmt::format("aten.{}.default(self, unbiased=True)", name), build);
    table.add(fmt::format("aten.{}.dim(self, dim, unbiased=True, keepdim=False)", name), build);
    table.add(fmt::format("aten.{}.correction(self, dim=None, *, correction=None, keepdim=False)", name), build);
  };
  add("var", variance("var"));
  add("std", variance("std"));
  add("var_mean", [](AtenCall& c) { return with_mean(c, false); });
  add("std_mean", [](AtenCall& c) { return with_mean(c, true); });
}

// ---- norms ----------------------------------------------------------------------------------------------------------

Value vector_norm(AtenCall& c, Value x, double p, const Extent& extent) {
  return c.op("norm", {x}, {{"p", p}, {"dims", extent.dims}, {"keepdim", extent.keepdim}});
}

double order_of(AtenCall& c, std::string_view name) { return c.given(name) ? c.real(name) : 2; }

// Of an order that is only known at run time. The limits 0, inf and -inf have formulas of their own.
Value norm_of_later_order(AtenCall& c, Value x, Value p, const Extent& extent) {
  const Value sizes = c.abs(x);
  const Value powers = c.where(c.compare("eq", p, 0), c.cast(c.compare("ne", x, 0), x.dtype()), c.pow(sizes, p));
  const Value sum = fold(c, "sum", powers, extent);
  const Value root = c.where(c.compare("eq", p, 0), sum, c.pow(sum, 1 / p));
  const Value largest = c.where(c.compare("eq", p, kInf), fold(c, "amax", sizes, extent), root);
  return c.where(c.compare("eq", p, -kInf), fold(c, "amin", sizes, extent), largest);
}

// The norm of matrices that two dimensions are, unless it needs their singular values.
Value matrix_norm(AtenCall& c, Value x, const AtenArg& order, std::vector<int64_t> dims, bool keepdim) {
  if (dims.size() != 2) fail("a matrix norm is over 2 dimensions, got {}", dims.size());
  if (const auto* name = order.get<std::string>()) {
    if (*name == "fro") return vector_norm(c, x, 2, {dims, keepdim});
    c.decline("the norm '{}' needs singular values", *name);
  }
  const double p = c.real("ord");
  if (std::abs(p) != 1 && std::abs(p) != kInf) c.decline("the matrix norm of order {} needs singular values", p);
  if (std::abs(p) == kInf) std::swap(dims[0], dims[1]);
  int64_t row = normalize_dim(dims[0], x.rank());
  int64_t column = normalize_dim(dims[1], x.rank());
  const Value sums = vector_norm(c, x, 1, {{row}, true});
  const Value extreme = fold(c, p > 0 ? "amax" : "amin", sums, {{column}, true});
  return keepdim ? extreme : c.op("squeeze", {extreme}, {{"dims", std::vector{row, column}}});
}

AtenArg linalg_norm(AtenCall& c) {
  const Value x = cast(c, c.tensor(), c.dtype());
  const std::vector<int64_t> dims = c.ints("dim");
  const bool is_vector = c.given("dim") ? dims.size() == 1 : x.rank() == 1 || !c.given("ord");
  if (!c.given("ord") || (is_vector && c.argument("ord").get<std::string>() == nullptr)) {
    return vector_norm(c, x, order_of(c, "ord"), {dims, c.flag("keepdim")});
  }
  return matrix_norm(c, x, c.argument("ord"), c.given("dim") ? dims : std::vector<int64_t>{-2, -1}, c.flag("keepdim"));
}

// Scales what has a larger norm down to `maxnorm`, for each index of a dimension.
AtenArg renorm(AtenCall& c) {
  const Value x = c.tensor();
  const std::vector<int64_t> dim = {c.integer("dim")};
  const Value norm = vector_norm(c, to_wide(c, x), c.real("p"), {other_dims(x.rank(), dim), true});
  const double most = c.real("maxnorm");
  const Value factor = c.where(c.compare("gt", norm, most), most / (norm + 1e-7), c.scalar(1, norm.dtype()));
  return c.cast(x * factor, x.dtype());
}

void add_norms(AtenTable& table) {
  const auto norm = [](AtenCall& c) -> AtenArg {
    const Value x = cast(c, c.tensor(), c.takes("dtype") ? c.dtype() : std::nullopt);
    const Extent extent = c.takes("dim") ? along(c) : Extent{};
    if (!c.is_run_time_number("p")) return vector_norm(c, x, order_of(c, "p"), extent);
    const Value wide = to_wide(c, x);
    return c.cast(norm_of_later_order(c, wide, c.number("p", wide.dtype()), extent), x.dtype());
  };
  table.add("aten.norm.Scalar(self, p=2)", norm);
  table.add("aten.norm.ScalarOpt_dim(self, p, dim, keepdim=False)", norm);
  table.add("aten.norm.ScalarOpt_dim_dtype(self, p, dim, keepdim, *, dtype)", norm);
  table.add("aten.norm.ScalarOpt_dtype(self, p, *, dtype)", norm);
  table.add("aten.frobenius_norm.dim(self, dim, keepdim=False)",
            [](AtenCall& c) { return vector_norm(c, c.tensor(), 2, along(c)); });
  table.add("aten.linalg_vector_norm.default(self, ord=2, dim=None, keepdim=False, *, dtype=None)",
            [](AtenCall& c) { return vector_norm(c, cast(c, c.tensor(), c.dtype()), c.real("ord"), along(c)); });
  table.add("aten.linalg_norm.default(self, ord=None, dim=None, keepdim=False, *, dtype=None)", linalg_norm);
  table.add("aten.linalg_norm.ord_str(self, ord, dim=None, keepdim=False, *, dtype=None)", linalg_norm);
  const auto of_matrix = [](AtenCall& c) {
    return matrix_norm(c, cast(c, c.tensor(), c.dtype()), c.argument("ord"), c.ints("dim"), c.flag("keepdim"));
  };
  table.add("aten.linalg_matrix_norm.default(self, ord, dim=[-2, -1], keepdim=False, *, dtype=None)", of_matrix);
  table.add("aten.linalg_matrix_norm.str_ord(self, ord=\"fro\", dim=[-2, -1], keepdim=False, *, dtype=None)",
            of_matrix);
  table.add("aten.dist.default(self, other, p=2)",
            [](AtenCall& c) { return vector_norm(c, c.tensor() - c.tensor("other"), c.real("p"), {}); });
  table.add("aten.renorm.default(self, p, dim, maxnorm)", renorm);
}

// ---- scans ----------------------------------------------------------------------------------------------------------

AtenFn typed_scan(std::string_view op) {
  return [op](AtenCall& c) {
    const auto dtype = c.dtype();
    return cast(c, c.op(op, {cast(c, c.tensor(), dtype)}, {{"dim", c.integer("dim")}}), dtype);
  };
}

// The gradient goes to where each extreme was.
AtenArg cummaxmin_backward(AtenCall& c) {
  const Value grad = c.tensor("grad");
  return c.op("scatter", {c.full(Expr(0), c.tensor("input").shape(), grad.dtype()), c.tensor("indices"), grad},
              {{"dim", c.integer("dim")}, {"reduce", std::string("add")}});
}

AtenArg selection_backward(AtenCall& c) {
  Value grad = c.tensor("grad");
  Value indices = c.tensor("indices");
  const Shape sizes = c.sizes("sizes");
  const int64_t dim = c.integer("dim");
  if (!c.flag("keepdim") && !sizes.empty()) {
    grad = c.unsqueeze(grad, dim);
    indices = c.unsqueeze(indices, dim);
  }
  return c.op("scatter", {c.full(Expr(0), sizes, grad.dtype()), indices, grad}, {{"dim", dim}});
}

void add_scans(AtenTable& table) {
  table.add("aten.cumsum.default(self, dim, *, dtype=None)", typed_scan("cumsum"));
  table.add("aten.cumprod.default(self, dim, *, dtype=None)", typed_scan("cumprod"));
  table.op("aten.{cummax,cummin}.default(self, dim)");
  table.op("aten.{logcumsumexp,_logcumsumexp}.default(self, dim)", "logcumsumexp");
  table.add("aten.cummaxmin_backward.default(grad, input, indices, dim)", cummaxmin_backward);
  table.add("aten.value_selecting_reduction_backward.default(grad, dim, indices, sizes, keepdim)", selection_backward);
}

// ---- softmax --------------------------------------------------------------------------------------------------------

AtenFn softmax(std::string_view op) {
  return [op](AtenCall& c) { return c.op(op, {cast(c, c.tensor(), c.dtype())}, {{"dim", c.integer("dim")}}); };
}

AtenFn inner_softmax(std::string_view op) {
  return [op](AtenCall& c) {
    const Value x = c.flag("half_to_float") ? c.cast(c.tensor(), DType::kF32) : c.tensor();
    return c.op(op, {x}, {{"dim", c.integer("dim")}});
  };
}

// Of nothing but -inf, zeros instead of NaN.
AtenArg safe_softmax(AtenCall& c) {
  const Value x = cast(c, c.tensor(), c.dtype());
  const int64_t dim = c.integer("dim");
  const Value is_empty = fold(c, "all", c.compare("eq", x, -kInf), {{dim}, true});
  const Value result = c.op("softmax", {x}, {{"dim", dim}});
  return c.where(is_empty, c.scalar(0, result.dtype()), result);
}

AtenFn softmax_backward(BinaryFormula formula) {
  return [formula = std::move(formula)](AtenCall& c) {
    const Value grad = to_wide(c, c.tensor("grad_output"));
    const Value out = to_wide(c, c.tensor("output"));
    return c.cast(formula(c, grad, out), c.dtype("input_dtype").value_or(c.tensor("output").dtype()));
  };
}

void add_softmax(AtenTable& table) {
  for (std::string_view op : {"softmax", "log_softmax"}) {
    table.add(fmt::format("aten.{}.int(self, dim, dtype=None)", op), softmax(op));
    table.add(fmt::format("aten._{}.default(self, dim, half_to_float)", op), inner_softmax(op));
  }
  table.add("aten.special_softmax.default(self, dim, dtype=None)", softmax("softmax"));
  table.add("aten.special_log_softmax.default(self, dim, *, dtype=None)", softmax("log_softmax"));
  table.add("aten._safe_softmax.default(self, dim, dtype=None)", safe_softmax);
  constexpr auto kBackward = "(grad_output, output, dim, input_dtype)";
  table.add(fmt::format("aten._softmax_backward_data.default{}", kBackward),
            softmax_backward([](AtenCall& c, Value grad, Value out) {
              return (grad - c.sum(grad * out, {c.integer("dim")}, true)) * out;
            }));
  table.add(fmt::format("aten._log_softmax_backward_data.default{}", kBackward),
            softmax_backward([](AtenCall& c, Value grad, Value out) {
              return grad - c.exp(out) * c.sum(grad, {c.integer("dim")}, true);
            }));
  table.add("aten.{logsumexp,special_logsumexp}.default(self, dim, keepdim=False)",
            [](AtenCall& c) { return fold(c, "logsumexp", to_float(c, c.tensor()), along(c)); });
}

// ---- order statistics -----------------------------------------------------------------------------------------------

Value at_last(AtenCall& c, Value x, Value places) { return c.op("gather", {x, places}, {{"dim", int64_t{-1}}}); }

Value is_number(AtenCall& c, Value x) { return c.logical_not(c.unary("isnan", x)); }

// The lower of the two middle elements along the last dimension, which stays with size 1, and its index. Unless NaN
// are left out, one of them is the median.
std::pair<Value, Value> median(AtenCall& c, Value x, bool leave_nan_out) {
  const std::vector<Value> sorted = c.results("sort", {x}, {{"dim", int64_t{-1}}});  // NaN are last
  const Value count = c.sum(is_number(c, x), {-1}, true);
  const Value middle = c.op("floor_div", {c.maximum(count - 1, c.integer(0)), c.integer(2)});
  if (leave_nan_out) return {at_last(c, sorted[0], middle), at_last(c, sorted[1], middle)};
  const Value is_whole = c.compare("eq", count, c.full(x.size(x.rank() - 1), {}, DType::kI64));
  const Value place = c.where(is_whole, middle, count);  // of the first NaN
  return {at_last(c, sorted[0], place), at_last(c, sorted[1], place)};
}

AtenFn median_of_all(bool leave_nan_out) {
  return [=](AtenCall& c) { return c.reshape(median(c, flat(c, c.tensor()), leave_nan_out).first, {}); };
}

AtenFn median_along(bool leave_nan_out) {
  return [=](AtenCall& c) -> AtenArg {
    const Value x = c.tensor();
    if (x.rank() == 0) return std::vector{x, c.integer(0)};
    const int64_t dim = normalize_dim(c.integer("dim"), x.rank());
    const auto [values, indices] = median(c, c.transpose(x, dim, -1), leave_nan_out);
    const auto back = [&](Value y) {
      const Value placed = c.transpose(y, dim, -1);
      return c.flag("keepdim") ? placed : c.squeeze(placed, dim);
    };
    return std::vector{back(values), back(indices)};
  };
}

void add_medians(AtenTable& table) {
  table.add("aten.median.default(self)", median_of_all(false));
  table.add("aten.nanmedian.default(self)", median_of_all(true));
  table.add("aten.median.dim(self, dim, keepdim=False)", median_along(false));
  table.add("aten.nanmedian.dim(self, dim, keepdim=False)", median_along(true));
}

// The value at a place between two elements of sorted lines. `place` is of the shape of the result.
Value interpolated(AtenCall& c, Value sorted, Value place) {
  const std::string how = c.string("interpolation");
  const auto at = [&](std::string_view rounding) {
    return at_last(c, sorted, c.cast(c.unary(rounding, place), DType::kI64));
  };
  if (how == "lower") return at("floor");
  if (how == "higher") return at("ceil");
  if (how == "nearest") return at("rint");
  const Value low = at("floor");
  const Value high = at("ceil");
  if (how == "midpoint") return c.op("lerp", {low, high, c.scalar(0.5, low.dtype())});
  if (how != "linear") fail("interpolation must be linear, lower, higher, midpoint or nearest, got '{}'", how);
  return c.op("lerp", {low, high, place - c.unary("floor", place)});
}

// The quantiles `q` (a vector) of lines along the last dimension, which they take the place of.
Value quantiles(AtenCall& c, Value x, Value q, bool leave_nan_out) {
  const Value sorted = c.results("sort", {x}, {{"dim", int64_t{-1}}})[0];
  const Value numbers = c.sum(is_number(c, x), {-1}, true);
  const Expr size = x.size(x.rank() - 1);
  const Value whole = c.full(size, numbers.shape(), DType::kI64);
  const Value count = c.cast(leave_nan_out ? numbers : whole, x.dtype());
  const Value place = q * c.maximum(count - 1, c.scalar(0, x.dtype()));
  const Value result = interpolated(c, sorted, place);
  if (leave_nan_out) return result;
  const Value nan = c.scalar(std::numeric_limits<double>::quiet_NaN(), x.dtype());
  return c.where(c.compare("eq", numbers, whole), result, nan);
}

AtenFn quantile(bool leave_nan_out) {
  return [=](AtenCall& c) {
    Value x = c.tensor();
    const bool keepdim = c.flag("keepdim");
    const Value q = c.is_tensor("q") ? c.tensor("q") : c.scalar(c.real("q"), x.dtype());
    const int64_t rank = x.rank();
    const int64_t dim = c.given("dim") && rank > 0 ? normalize_dim(c.integer("dim"), rank) : 0;
    x = c.given("dim") && rank > 0 ? c.transpose(x, dim, -1) : flat(c, x);
    Value result = quantiles(c, x, flat(c, q), leave_nan_out);
    result =
        c.op("movedim", {result}, {{"source", std::vector<int64_t>{-1}}, {"destination", std::vector<int64_t>{0}}});
    Shape kept = c.tensor().shape();  // of the result, with keepdim
    if (!c.given("dim")) {
      for (Expr& size : kept) size = 1;
    } else if (rank > 0) {
      kept[static_cast<size_t>(dim)] = 1;
      result = c.unsqueeze(result, -1);
      result = c.transpose(result, dim + 1, -1);
    }
    Shape shape = q.rank() == 0 ? Shape{} : Shape{q.size(0)};
    for (size_t i = 0; i < kept.size(); ++i) {
      const bool is_folded = !c.given("dim") || static_cast<int64_t>(i) == dim;
      if (keepdim || !is_folded) shape.push_back(kept[i]);
    }
    return c.reshape(result, shape);
  };
}

void add_quantiles(AtenTable& table) {
  constexpr auto kRest = "{default,scalar}(self, q, dim=None, keepdim=False, *, interpolation=\"linear\")";
  table.add(fmt::format("aten.quantile.{}", kRest), quantile(false));
  table.add(fmt::format("aten.nanquantile.{}", kRest), quantile(true));
}

// ---- differences and areas ------------------------------------------------------------------------------------------

// Along a dimension, all elements but the last ones, and all but the first ones.
std::pair<Value, Value> neighbours(AtenCall& c, Value x, int64_t dim) {
  const Expr size = x.size(normalize_dim(dim, x.rank()));
  return {c.slice(x, dim, 0, size - 1), c.slice(x, dim, 1, size)};
}

AtenArg diff(AtenCall& c) {
  std::vector<Value> parts;
  for (std::string_view name : {"prepend", "self", "append"}) {
    if (c.given(name)) parts.push_back(c.tensor(name));
  }
  const int64_t dim = c.integer("dim");
  Value x = parts.size() == 1 ? parts[0] : c.concat(parts, dim);
  check_part_count(c.integer("n"), "differences");
  for (int64_t i = 0; i < c.integer("n"); ++i) {
    const Expr size = x.size(normalize_dim(dim, x.rank()));
    if (size.is_constant() && size.constant() == 0) return x;
    const auto [before, after] = neighbours(c, x, dim);
    x = x.dtype() == DType::kBool ? c.op("ne", {after, before}) : after - before;
  }
  return x;
}

// The area below each pair of neighbours.
Value areas(AtenCall& c) {
  const Value y = to_float(c, c.tensor("y"));
  const int64_t dim = normalize_dim(c.integer("dim"), y.rank());
  const auto [before, after] = neighbours(c, y, dim);
  const Value heights = (before + after) / 2;
  if (!c.takes("x")) return heights * c.real("dx");
  Value x = c.tensor("x");
  if (x.rank() == 1 && y.rank() > 1) {
    Shape shape(static_cast<size_t>(y.rank()), 1);
    shape[static_cast<size_t>(dim)] = x.size(0);
    x = c.reshape(x, shape);
  }
  const auto [left, right] = neighbours(c, x, dim);
  return heights * (right - left);
}

void add_differences(AtenTable& table) {
  table.add("aten.diff.default(self, n=1, dim=-1, prepend=None, append=None)", diff);
  const AtenFn area = [](AtenCall& c) { return c.sum(areas(c), {c.integer("dim")}); };
  table.add("aten.trapezoid.dx(y, *, dx=1, dim=-1)", area);
  table.add("aten.trapz.dx(y, *, dx=1.0, dim=-1)", area);
  table.add("aten.{trapezoid,trapz}.x(y, x, *, dim=-1)", area);
  const AtenFn cumulative = [](AtenCall& c) { return c.op("cumsum", {areas(c)}, {{"dim", c.integer("dim")}}); };
  table.add("aten.cumulative_trapezoid.dx(y, *, dx=1, dim=-1)", cumulative);
  table.add("aten.cumulative_trapezoid.x(y, x, *, dim=-1)", cumulative);
}

}  // namespace

void add_reduction_entries(AtenTable& table) {
  for (const auto add : {add_sums, add_truths, add_extremes, add_without_nan, add_variances, add_norms, add_scans,
                         add_softmax, add_medians, add_quantiles, add_differences})
    add(table);
}

}  // namespace tenon::aten
