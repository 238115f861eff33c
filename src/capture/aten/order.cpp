// Sorting and searching.
#include <fmt/format.h>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

constexpr int64_t kLast = -1;

// ---- sorting --------------------------------------------------------------------------------------------------------

NamedAttrs sort_attrs(const AtenCall& c) { return {{"dim", c.integer("dim")}, {"descending", c.flag("descending")}}; }

AtenArg sort(AtenCall& c) { return c.results("sort", {c.tensor()}, sort_attrs(c)); }
AtenArg argsort(AtenCall& c) { return c.op("argsort", {c.tensor()}, sort_attrs(c)); }

using Pair = std::vector<Value>;  // values and indices

NamedAttrs line_attrs(int64_t dim, bool keepdim) { return {{"dim", dim}, {"keepdim", keepdim}}; }

// The most frequent value, of several the smallest, and its last place. Of equal elements side by side, each has one
// more before it than the one before: the first to have the most is the last of its run.
Pair mode(AtenCall& c, Value x, int64_t dim, bool keepdim) {
  if (x.rank() == 0) return {x, c.integer(0)};
  const auto moved = [&](Value y, int64_t from, int64_t to) {
    return c.op("movedim", {y}, {{"source", std::vector<int64_t>{from}}, {"destination", std::vector<int64_t>{to}}});
  };
  const Value lines = moved(x, dim, kLast);
  const Pair sorted = c.results("sort", {lines}, {{"dim", kLast}});
  const Value place = c.iota(lines.shape().back());
  const Value before = c.op("index_select", {sorted[0], c.maximum(place - 1, c.integer(0))}, {{"dim", kLast}});
  const Value starts = c.where(c.op("ne", {sorted[0], before}), place, c.integer(0));
  const Value length = place - c.results("cummax", {starts}, {{"dim", kLast}})[0];
  const Value at = c.op("argmax", {length}, line_attrs(kLast, true));
  Pair result;
  for (Value part : sorted) {
    part = c.op("gather", {part, at}, {{"dim", kLast}});
    result.push_back(keepdim ? moved(part, kLast, dim) : c.squeeze(part, kLast));
  }
  return result;
}

void add_sort_entries(AtenTable& table) {
  table.add("aten.sort.default(self, dim=-1, descending=False)", sort);
  table.add("aten.sort.stable(self, *, stable, dim=-1, descending=False)", sort);
  table.add("aten.argsort.default(self, dim=-1, descending=False)", argsort);
  table.add("aten.argsort.stable(self, *, stable, dim=-1, descending=False)", argsort);
  table.add("aten.msort.default(self)",
            [](AtenCall& c) { return c.results("sort", {c.tensor()}, {{"dim", int64_t{0}}})[0]; });
  table.op("aten.topk.default(self, k, dim=-1, largest=True, sorted=True)");
  table.op("aten.kthvalue.default(self, k, dim=-1, keepdim=False)");
  table.add("aten.mode.default(self, dim=-1, keepdim=False)",
            [](AtenCall& c) { return mode(c, c.tensor(), c.integer("dim"), c.flag("keepdim")); });
}

// ---- searching ------------------------------------------------------------------------------------------------------

// Where values belong in a sorted sequence, both in the dtype that PyTorch compares them in.
Value places_in(AtenCall& c, Value sequence, bool right) {
  const Value values = c.operand("self", sequence.dtype());
  DType dtype = promote(sequence.dtype(), values.dtype());
  if (dtype == DType::kBool) dtype = DType::kU8;
  const Value places = c.op("searchsorted", {c.cast(sequence, dtype), c.cast(values, dtype)}, {{"right", right}});
  return c.flag("out_int32") ? c.cast(places, DType::kI32) : places;
}

AtenArg bucketize(AtenCall& c) { return places_in(c, c.tensor("boundaries"), c.flag("right")); }

AtenArg searchsorted(AtenCall& c) {
  Value sequence = c.tensor("sorted_sequence");
  if (c.given("sorter")) sequence = c.op("gather", {sequence, c.tensor("sorter")}, {{"dim", kLast}});
  const bool is_right = c.given("side") && c.string("side") == "right";
  if (c.flag("right") && c.given("side") && !is_right) fail("side is 'left', but right is True");
  return places_in(c, sequence, c.flag("right") || is_right);
}

// Whether each of x is among y: by comparing all with all, or where those are many by a search.
Value is_among(AtenCall& c, Value x, Value y) {
  constexpr int64_t kFew = 32;
  const Expr count = element_count(y.shape());
  const DType dtype = promote(x.dtype(), y.dtype());
  if (!count.is_constant() || count.constant() <= kFew || dtype == DType::kBool) {
    const Value same = c.op("eq", {c.unsqueeze(x, -1), flat(c, y)});
    return c.op("any", {same}, {{"dims", std::vector<int64_t>{kLast}}});
  }
  const Value values = c.cast(x, dtype);
  const Value sorted = c.results("sort", {c.cast(flat(c, y), dtype)}, {{"dim", int64_t{0}}})[0];
  const Value place = c.op("searchsorted", {sorted, values});
  const Value last = c.full(count - 1, {}, DType::kI64);
  return c.op("eq", {c.op("index", {sorted, c.minimum(place, last)}), values});
}

AtenFn isin(std::string elements, std::string tests) {
  return [=](AtenCall& c) {
    const auto [x, y] = c.pair(elements, tests);
    const Value found = is_among(c, x, y);
    return c.flag("invert") ? c.logical_not(found) : found;
  };
}

void add_search_entries(AtenTable& table) {
  table.add("aten.bucketize.{Tensor,Scalar}(self, boundaries, *, out_int32=False, right=False)", bucketize);
  table.add(
      "aten.searchsorted.{Tensor,Scalar}(sorted_sequence, self, *, out_int32=False, right=False, side=None, "
      "sorter=None)",
      searchsorted);
  table.add("aten.isin.Tensor_Tensor(elements, test_elements, *, assume_unique=False, invert=False)",
            isin("elements", "test_elements"));
  table.add("aten.isin.Tensor_Scalar(elements, test_element, *, assume_unique=False, invert=False)",
            isin("elements", "test_element"));
  table.add("aten.isin.Scalar_Tensor(element, test_elements, *, assume_unique=False, invert=False)",
            isin("element", "test_elements"));
}

}  // namespace

void add_order_entries(AtenTable& table) {
  add_sort_entries(table);
  add_search_entries(table);
}

}  // namespace tenon::aten
