// Reductions over dimensions: folds, counts and the search for an extreme. Averages and norms are in statistics.cpp.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "loops/lower.h"
#include "ops/reduce.h"

namespace tenon::ops {
namespace {

const std::vector<AttrDef> kExtremeAttrs = {
    reduction_attrs()[0],
    reduction_attrs()[1],
    {"allow_empty", AttrKind::kBool, "over no elements, give the infinity that any value replaces, not an error",
     Attr(false)}};
const Samples kExtremeSamples = reduction_samples() + Samples{"T[2, 0]; dims=[0]", "T[0, 3]; dims=[-1], keepdim=true"};
const Samples kFoldSamples = reduction_samples() + empty_reduction_samples();

const std::vector<AttrDef> kSearchAttrs = {
    {"dim", AttrKind::kInt, "the dimension to search; none searches the flattened tensor", Attr(None{})},
    {"keepdim", AttrKind::kBool, "keep the dimensions with size 1", Attr(false)}};
const Samples kSearchSamples = {"T[3, 4]",
                                "T[3, 4]; dim=0",
                                "T[3, 4]; dim=-1, keepdim=true",
                                "T[3, 4]; keepdim=true",
                                "T[]",
                                "T[]; dim=0",
                                "T[2, 1, 3]; dim=1",
                                "T[2, 0]; dim=0",
                                "T[2, 3, 2]; dim=1",
                                "T[60]; dim=0"};
const std::vector<AttrDef> kAlongAttrs = {{"dim", AttrKind::kInt, "the dimension to reduce"},
                                          {"keepdim", AttrKind::kBool, "keep it with size 1", Attr(false)}};
const Samples kAlongSamples = {"T[3, 4]; dim=0", "T[3, 4]; dim=-1, keepdim=true",
                               "T[]; dim=0",     "T[2, 1, 3]; dim=1",
                               "T[2, 0]; dim=0", "T[2, 3, 2]; dim=-2"};

// ---- folds ----------------------------------------------------------------------------------------------------------

// Integers and bool add and multiply in i64, as in PyTorch.
Types accumulated(InferContext& c) {
  const DType dtype = c.type(0).dtype;
  return reduced_to(c, is_integral(dtype) ? DType::kI64 : dtype);
}

// Visits the elements of each result in order. Integers fold in i64.
template <class RealStep, class IntegerStep>
std::function<void(ReferenceContext&)> fold(double real_start, RealStep real_step, int64_t integer_start,
                                            IntegerStep integer_step) {
  return [=](ReferenceContext& c) {
    const Tensor& x = c.in();
    for_each_result(x, c.dims("dims"), [&](int64_t out, const Offsets& elements) {
      if (is_float(x.dtype())) {
        double value = real_start;
        for (int64_t at : elements) value = real_step(value, x.real(at));
        c.out().set_real(out, value);
      } else {
        int64_t value = integer_start;
        for (int64_t at : elements) value = integer_step(value, x.integer(at));
        c.out().set_integer(out, value);
      }
    });
  };
}

// The fold of x in the wide dtype of the result, in which it is rounded once.
void folded(LoopContext& l, std::string_view op, const LoopValue& x) {
  l.out(l.cast(l.fold(op, x, l.type(0).shape, l.dims("dims"), l.flag("keepdim")), l.result().dtype));
}

void sum_loops(LoopContext& l) { folded(l, "add", l.wide(l.cast(l.in(), l.result().dtype))); }

// Each factor is a rounding, whatever the order: f32 is too narrow for many of them.
void product_loops(LoopContext& l) {
  constexpr int64_t kMostNarrowFactors = 1024;
  Expr factors = 1;
  for (int64_t dim : l.dims("dims")) factors *= l.type(0).size(dim);
  const bool is_short = factors.is_constant() && factors.constant() <= kMostNarrowFactors;
  const LoopValue x = l.wide(l.cast(l.in(), l.result().dtype));
  folded(l, "mul", l.dtype(x) == DType::kF32 && !is_short ? l.cast(x, DType::kF64) : x);
}

const OpDef kSum{
    .name = "sum",
    .family = "reduction",
    .doc = "The sum over dimensions. Integers and bool add up in i64.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = reduction_attrs(),
    .infer = accumulated,
    .semantics = reference(fold(0.0, std::plus<double>(), 0, wrap_add)),
    .gradient = gradient([](GradContext& g) { return g.expand(kept(g, g.dout()), g.in().shape()); }),
    .loops = sum_loops,
    .role = Role::kFold,
    .peer = torch_is("torch.sum(x, dim=dims or None, keepdim=keepdim)"),
    .samples = kFoldSamples,
};

// The products of all elements before each one, along the last dimension.
Value products_before(Builder& b, Value x) {
  std::vector<Expr> low(x.shape().size(), 0);
  const std::vector<Expr> high = low;
  low.back() = 1;
  const Value products = b.op("cumprod", {b.pad(x, low, high, 1)}, {{"dim", int64_t{-1}}});
  return b.slice(products, -1, 0, x.size(x.rank() - 1));
}

// The derivative by one element is the product of all others. Dividing by the element would fail where it is zero.
Value products_of_others(Builder& b, Value x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> order;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (!std::ranges::binary_search(dims, dim)) order.push_back(dim);
  }
  order.insert(order.end(), dims.begin(), dims.end());
  const Value moved = b.permute(x, order);
  Shape flat(moved.shape().begin(), moved.shape().end() - static_cast<int64_t>(dims.size()));
  flat.push_back(element_count(std::span(moved.shape()).last(dims.size())));
  const Value lines = b.reshape(moved, flat);
  const auto reversed = [&](Value v) { return b.op("flip", {v}, {{"dims", std::vector<int64_t>{-1}}}); };
  const Value others = products_before(b, lines) * reversed(products_before(b, reversed(lines)));
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return b.permute(b.reshape(others, moved.shape()), back);
}

const OpDef kProd{
    .name = "prod",
    .family = "reduction",
    .doc = "The product over dimensions. Integers and bool multiply in i64.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = reduction_attrs(),
    .infer = accumulated,
    .semantics = reference(fold(1.0, std::multiplies<double>(), 1, wrap_mul)),
    .gradient = gradient([](GradContext& g) {
      if (g.in().rank() == 0) return g.dout();
      return kept(g, widen(g, g.dout())) * products_of_others(g, widen(g, g.in()), g.dims("dims"));
    }),
    .loops = product_loops,
    // PyTorch takes one dimension at a time.
    .role = Role::kFold,
    .peer = torch_is("torch.prod(x).reshape([1] * x.dim() if keepdim else []) if not dims else torch.prod(x, dims[0], "
                     "keepdim) if len(dims) == 1 else torch.prod(torch.prod(x, dims[1], keepdim), dims[0], keepdim)"),
    .samples = kFoldSamples,
};

Types extreme_type(InferContext& c) {
  if (c.flag("allow_empty") && is_integral(c.type(0).dtype))
    fail("{} has no infinity to give for no elements", name_of(c.type(0).dtype));
  if (!c.flag("allow_empty")) require_elements(c, c.dims("dims"));
  return reduced_to(c, c.type(0).dtype);
}

// Checks again: a symbolic size may turn out to be zero in the run.
Semantics extreme(std::function<void(ReferenceContext&)> folded) {
  return reference([folded = std::move(folded)](ReferenceContext& c) {
    if (!c.flag("allow_empty")) require_elements(c, c.dims("dims"));
    folded(c);
  });
}

// All elements that equal the extreme share its gradient.
std::vector<Value> share_among_equals(GradContext& g) {
  const Value is_extreme = g.compare("eq", g.in(), kept(g, g.out()));
  const Value count = g.sum(is_extreme, g.dims("dims"), true);
  return {widen(g, kept(g, g.dout())) * is_extreme / count};
}

// A size that turns out to be zero is found by looking up the last of its indices.
LoopValue with_elements(LoopContext& l, const LoopValue& folded, const std::vector<int64_t>& dims) {
  LoopView view{folded.dims, {}};
  for (int64_t dim : dims) {
    const Expr& size = l.type(0).size(dim);
    if (!l.facts().less_equal(1, size)) l.lookup(view.lookups, l.number(size - 1), {}, size);
  }
  if (view.lookups.empty()) return folded;
  view.pieces.push_back(l.whole(folded, l.result().shape));
  return l.view(view);
}

LoopsFn extreme_loops(std::string_view op) {
  return [op](LoopContext& l) {
    const std::vector<int64_t> dims = l.dims("dims");
    const LoopValue extreme = l.fold(op, l.wide(l.in()), l.type(0).shape, dims, l.flag("keepdim"));
    const LoopValue result = l.cast(extreme, l.result().dtype);
    l.out(l.flag("allow_empty") ? result : with_elements(l, result, dims));
  };
}

OpDef extreme_op(std::string_view name, std::string_view doc, std::function<void(ReferenceContext&)> folded,
                 std::string_view elementwise) {
  return {.name = name,
          .family = "reduction",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}},
          .attrs = kExtremeAttrs,
          .infer = extreme_type,
          .semantics = extreme(std::move(folded)),
          .gradient = gradient(share_among_equals),
          .loops = extreme_loops(elementwise),
          .role = Role::kFold,
          .peer = torch_is_text("torch.{}(x, dim=dims, keepdim=keepdim)", name),
          .samples = kExtremeSamples};
}

const OpDef kExtremes[] = {
    extreme_op("amax", "The largest value over dimensions; NaN if an element is NaN. An error over no elements.",
               fold(
                   -HUGE_VAL, [](double a, double b) { return std::isnan(a) || a >= b ? a : b; },
                   std::numeric_limits<int64_t>::min(), [](int64_t a, int64_t b) { return std::max(a, b); }),
               "maximum"),
    extreme_op("amin", "The smallest value over dimensions; NaN if an element is NaN. An error over no elements.",
               fold(
                   HUGE_VAL, [](double a, double b) { return std::isnan(a) || a <= b ? a : b; },
                   std::numeric_limits<int64_t>::max(), [](int64_t a, int64_t b) { return std::min(a, b); }),
               "minimum"),
};

// ---- counting -------------------------------------------------------------------------------------------------------

const OpDef kCountNonzero{
    .name = "count_nonzero",
    .family = "reduction",
    .doc = "The number of nonzero elements over dimensions, as i64. NaN is nonzero.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = reduction_attrs(),
    .infer = [](InferContext& c) { return reduced_to(c, DType::kI64); },
    .semantics = composite([](ExpandContext& e) {
      const Value zero = e.integer(0, e.in().dtype());
      return e.sum(e.compare("ne", e.in(), zero), e.dims("dims"), e.flag("keepdim"));
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.sum(x != 0, dim=dims or None, keepdim=keepdim)"),
    .samples = kFoldSamples,
};

Value count_nonzero(ExpandContext& e, Value x) {
  return e.op("count_nonzero", {x}, {{"dims", e.attr("dims")}, {"keepdim", e.attr("keepdim")}});
}

OpDef truth_op(std::string_view name, std::string_view doc, Value (*holds)(ExpandContext&)) {
  return {.name = name,
          .family = "reduction",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}},
          .attrs = reduction_attrs(),
          .infer = [](InferContext& c) { return reduced_to(c, DType::kBool); },
          .semantics = composite(holds),
          .gradient = NotDifferentiable{},
          .peer = torch_is_text("torch.{}(x, dim=dims or None, keepdim=keepdim).bool()", name),  // u8 for u8
          .samples = kFoldSamples};
}

const OpDef kTruths[] = {
    truth_op("any", "Whether an element over dimensions is not zero, as bool; false over no elements.",
             [](ExpandContext& e) { return e.compare("ne", count_nonzero(e, e.in()), e.integer(0)); }),
    truth_op("all", "Whether all elements over dimensions are not zero, as bool; true over no elements.",
             [](ExpandContext& e) { return e.compare("eq", count_nonzero(e, e.logical_not(e.in())), e.integer(0)); }),
};

// ---- searches -------------------------------------------------------------------------------------------------------

std::vector<int64_t> searched_dims(const OpView& view) {
  if (!view.given("dim")) return normalize_dims({}, view.type(0).rank());
  return normalize_dims(std::vector<int64_t>{view.integer("dim")}, view.type(0).rank());
}

Types search_type(InferContext& c) {
  require_elements(c, searched_dims(c));
  return {{DType::kI64, without_dims(c.type(0).shape, searched_dims(c), c.flag("keepdim"))}};
}

// The first element that no other one precedes; NaN precedes everything.
template <class Precedes>
Semantics search(Precedes precedes) {
  return reference([precedes](ReferenceContext& c) {
    require_elements(c, searched_dims(c));
    const Tensor& x = c.in();
    const bool real = is_float(x.dtype());
    const auto better = [&](int64_t a, int64_t b) {
      if (!real) return precedes(x.integer(a), x.integer(b));
      return !std::isnan(x.real(b)) && (std::isnan(x.real(a)) || precedes(x.real(a), x.real(b)));
    };
    for_each_result(x, searched_dims(c), [&](int64_t out, const Offsets& elements) {
      c.out().set_integer(out, std::ranges::min_element(elements, better) - elements.begin());
    });
  });
}

// The first place among those of the extreme, or of NaN: the extreme is NaN where there is one, which equals nothing.
LoopsFn search_loops(std::string_view op) {
  return [op](LoopContext& l) {
    const Shape& shape = l.type(0).shape;
    const std::vector<int64_t> dims = searched_dims(l);
    const LoopValue x = l.stretched(l.wide(l.in()), shape, dims);
    const LoopValue found = l.equals_or_is_nan(x, l.fold(op, x, shape, dims, true));
    Expr place = 0;
    for (int64_t dim : dims) place = place * l.type(0).size(dim) + l.at(x.dims[static_cast<size_t>(dim)]);
    const LoopValue none = l.constant(DType::kI64, std::numeric_limits<int64_t>::max());
    const LoopValue places = l.compute("where", {found, l.number(place, x.dims), none});
    l.out(with_elements(l, l.fold("minimum", places, shape, dims, l.flag("keepdim")), dims));
  };
}

OpDef search_op(std::string_view name, std::string_view doc, Semantics semantics, std::string_view elementwise) {
  return {.name = name,
          .family = "reduction",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}},
          .attrs = kSearchAttrs,
          .infer = search_type,
          .semantics = std::move(semantics),
          .gradient = NotDifferentiable{},
          .loops = search_loops(elementwise),
          .role = Role::kFold,
          .peer = torch_is_text("torch.{}(x.byte() if x.dtype == torch.bool else x, dim=dim, keepdim=keepdim)", name),
          .samples = kSearchSamples};
}

const OpDef kSearches[] = {
    search_op(
        "argmax",
        "The index of the largest value along a dimension: the first of equal values; the first NaN if there is a NaN.",
        search([](auto a, auto b) { return a > b; }), "maximum"),
    search_op("argmin",
              "The index of the smallest value along a dimension: the first of equal values; the first NaN if there is "
              "a NaN.",
              search([](auto a, auto b) { return a < b; }), "minimum"),
};

Types extreme_along_type(InferContext& c) {
  const std::vector<int64_t> dims = searched_dims(c);
  require_elements(c, dims);
  const Shape shape = without_dims(c.type(0).shape, dims, c.flag("keepdim"));
  return {{c.type(0).dtype, shape}, {DType::kI64, shape}};
}

Semantics extreme_along(std::string_view extreme, std::string_view search) {
  return composite([=](ExpandContext& e) -> std::vector<Value> {
    const std::vector<int64_t> dims = {e.integer("dim")};
    return {e.op(extreme, {e.in()}, {{"dims", dims}, {"keepdim", e.flag("keepdim")}}),
            e.op(search, {e.in()}, {{"dim", e.integer("dim")}, {"keepdim", e.flag("keepdim")}})};
  });
}

// The whole gradient goes to the element that the index names.
std::vector<Value> gradient_at_index(GradContext& g) {
  if (g.in().rank() == 0) return {g.dout()};
  const int64_t dim = g.dim("dim");
  const Shape kept_shape = without_dims(g.in().shape(), {dim}, true);
  const Value chosen = g.compare("eq", g.iota_along(dim, g.in().shape()), g.reshape(g.out(1), kept_shape));
  return {g.where(chosen, g.reshape(g.dout(), kept_shape), g.scalar(0, g.dout().dtype()))};
}

OpDef extreme_along_op(std::string_view name, std::string_view doc, Semantics semantics, std::string_view torch) {
  return {.name = name,
          .family = "reduction",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x"}},
          .attrs = kAlongAttrs,
          .results = {"values", "indices"},
          .infer = extreme_along_type,
          .semantics = std::move(semantics),
          .gradient = gradient(gradient_at_index),
          .peer = torch_is_text("torch.{}(x, dim, keepdim)", torch),
          .samples = kAlongSamples};
}

const OpDef kExtremesAlong[] = {
    extreme_along_op("max_dim", "The largest value along a dimension and its index, as `amax` and `argmax` give them.",
                     extreme_along("amax", "argmax"), "max"),
    extreme_along_op("min_dim", "The smallest value along a dimension and its index, as `amin` and `argmin` give them.",
                     extreme_along("amin", "argmin"), "min"),
};

}  // namespace

OpRefs reduction_ops() { return records(kSum, kProd, kExtremes, kCountNonzero, kTruths, kSearches, kExtremesAlong); }

const std::vector<AttrDef>& reduction_attrs() {
  static const std::vector<AttrDef> attrs = {
      {"dims", AttrKind::kInts, "the dimensions to reduce; none given means all", Attr(std::vector<int64_t>{})},
      {"keepdim", AttrKind::kBool, "keep them with size 1", Attr(false)}};
  return attrs;
}

const Samples& reduction_samples() {
  static const Samples samples = {"T[3, 4]",
                                  "T[3, 4]; keepdim=true",
                                  "T[3, 4]; dims=[0]",
                                  "T[3, 4]; dims=[-1], keepdim=true",
                                  "T[2, 3, 4]; dims=[0, 2]",
                                  "T[]",
                                  "T[]; dims=[0]",
                                  "T[2, 1, 3]; dims=[1]",
                                  "T[60]; dims=[0]"};
  return samples;
}

const Samples& empty_reduction_samples() {
  static const Samples samples = {"T[0]", "T[2, 0]; dims=[1]", "T[2, 0]; dims=[0]", "T[0, 3]; dims=[0], keepdim=true"};
  return samples;
}

Types reduced_to(InferContext& c, DType dtype) {
  return {{dtype, without_dims(c.type(0).shape, c.dims("dims"), c.flag("keepdim"))}};
}

void require_elements(const OpView& view, const std::vector<int64_t>& dims) {
  const Shape& shape = view.type(0).shape;
  for (int64_t dim : dims) {
    if (shape[static_cast<size_t>(dim)].is_constant(0)) {
      fail("dimension {} of {} has no elements to choose from", dim, to_string(shape));
    }
  }
}

void for_each_result(const Tensor& x, const std::vector<int64_t>& dims,
                     const std::function<void(int64_t, const Offsets&)>& body) {
  Sizes outer = x.shape();
  Sizes inner(outer.size(), 1);
  for (int64_t dim : dims) std::swap(outer[static_cast<size_t>(dim)], inner[static_cast<size_t>(dim)]);
  int64_t result = 0;
  for_each_index(outer, [&](const Sizes& base) {
    Offsets offsets;
    for_each_index(inner, [&](const Sizes& step) { offsets.push_back(x.offset(base) + x.offset(step)); });
    body(result++, offsets);
  });
}

Value kept(GradContext& g, Value reduced) {
  return g.reshape(reduced, without_dims(g.in().shape(), g.dims("dims"), true));
}

}  // namespace tenon::ops
