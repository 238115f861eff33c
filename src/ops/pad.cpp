// Padding: elements around a tensor.
#include "loops/lower.h"
#include "ops/index.h"
#include "support/checked.h"

namespace tenon::ops {
namespace {

const std::vector<AttrDef> kAmounts = {
    {"low", AttrKind::kExprs, "how many before, one for each dimension; negative ones crop"},
    {"high", AttrKind::kExprs, "how many after, likewise"}};

Types padded(InferContext& c) {
  TensorType type = c.type(0);
  const auto low = c.exprs("low");
  const auto high = c.exprs("high");
  if (low.size() != type.shape.size() || high.size() != type.shape.size()) {
    fail("{} and {} amounts are given for {}", low.size(), high.size(), to_string(type));
  }
  for (size_t dim = 0; dim < low.size(); ++dim) {
    const Expr size = type.shape[dim] + low[dim] + high[dim];
    if (c.facts().less_equal(size, -1)) {
      fail("{} padded by {} and {} in dimension {} has the negative size {}", to_string(c.type(0)), to_string(low[dim]),
           to_string(high[dim]), dim, to_string(size));
    }
    type.shape[dim] = size;
  }
  return {type};
}

std::vector<Expr> negated(std::span<const Expr> amounts) {
  std::vector<Expr> result;
  for (const Expr& amount : amounts) result.push_back(-amount);
  return result;
}

// The index in x of an index in the padded tensor; false when it is in the padding.
bool unpad(const Sizes& low, const Sizes& shape, Sizes& index) {
  for (size_t dim = 0; dim < low.size(); ++dim) {
    index[dim] -= low[dim];
    if (index[dim] < 0 || index[dim] >= shape[dim]) return false;
  }
  return true;
}

void lower_pad(LoopContext& l) {
  LoopView view{l.in().dims, {l.whole(l.in(), l.type(0).shape)}};
  for (size_t dim = 0; dim < view.dims.size(); ++dim) {
    if (l.exprs("low")[dim].is_constant(0) && l.exprs("high")[dim].is_constant(0)) continue;
    view.dims[dim] = l.var(l.result().shape[dim]);
    view.pieces[0].index[dim] = l.at(view.dims[dim]) - l.exprs("low")[dim];
  }
  view.fill = scalar_in(l.result().dtype, l.attr("value"));
  l.out(l.view(view));
}

const OpDef kPad{
    .name = "pad",
    .family = "pad",
    .doc = "Surrounds x with a constant. Negative amounts crop.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {kAmounts[0], kAmounts[1], {"value", AttrKind::kScalar, "the constant, in the dtype of x", Attr(Expr(0))}},
    .infer = padded,
    .semantics = reference([](ReferenceContext& c) {
      const Sizes low = c.sizes("low");
      const auto* real = std::get_if<double>(&c.attr("value"));
      int64_t position = 0;
      for_each_index(c.out().shape(), [&](Sizes index) {
        const int64_t to = position++;
        if (unpad(low, c.in().shape(), index)) return copy_element(c.out(), to, c.in(), c.in().offset(index));
        real ? c.out().set_real(to, *real) : c.out().set_integer(to, c.size("value"));
      });
    }),
    .gradient =
        gradient([](GradContext& g) { return g.pad(g.dout(), negated(g.exprs("low")), negated(g.exprs("high"))); }),
    .loops = lower_pad,
    .role = Role::kBorder,
    .peer = torch_is("F.pad(x, [n for pair in reversed(list(zip(low, high))) for n in pair], value=value)"),
    .samples = Samples{"T[3, 2]; low=[1, 0], high=[0, 2]", "T[3]; low=[2], high=[1], value=1", "T[]; low=[], high=[]",
                       "T[4, 3]; low=[-1, 1], high=[1, -2], value=2", "T[0, 2]; low=[1, 0], high=[1, 0], value=1",
                       "T[5]; low=[-2], high=[-3]", "f32[2, 2]; low=[1, 0], high=[0, 0], value=0.1",
                       "f16[2]; low=[1], high=[1], value=inf", "T[2, 1, 2]; low=[0, 1, 0], high=[1, 0, 0]"},
};

// ---- padding with elements of x -------------------------------------------------------------------------------------

// Each dimension by itself: the padded index i, less `low`, is mapped to the index of x that it repeats.
using Fold = Value (*)(Builder& b, Value i, const Expr& size);

Value reflected(Builder& b, Value i, const Expr& size) {
  const Value last = symbolic_scalar(b, size - 1);
  return last - b.abs(last - b.abs(i));
}

Value replicated(Builder& b, Value i, const Expr& size) {
  return b.minimum(b.maximum(i, b.integer(0)), symbolic_scalar(b, size - 1));
}

Value wrapped(Builder& b, Value i, const Expr& size) { return b.op("remainder", {i, symbolic_scalar(b, size)}); }

Value fold_all(ExpandContext& e, Value x, std::span<const Expr> low, std::span<const Expr> high, Fold fold) {
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const Expr& before = low[static_cast<size_t>(dim)];
    const Expr& after = high[static_cast<size_t>(dim)];
    if (before.is_constant(0) && after.is_constant(0)) continue;
    const Expr size = x.size(dim);
    const Value places = fold(e, e.iota(size + before + after) - symbolic_scalar(e, before), size);
    x = index(e, x, index_along(e, dim, places));
  }
  return x;
}

Semantics pad_by(Fold fold) {
  return composite([fold](ExpandContext& e) { return fold_all(e, e.in(), e.exprs("low"), e.exprs("high"), fold); });
}

// Cropped elements do not appear in the padding.
std::vector<Value> expand_circular(ExpandContext& e) {
  const auto parts = [&](std::string_view attr, Expr (Facts::*choose)(const Expr&, const Expr&) const) {
    std::vector<Expr> amounts;
    for (const Expr& amount : e.exprs(attr)) amounts.push_back((e.facts().*choose)(amount, 0));
    return amounts;
  };
  const Value cropped = e.pad(e.in(), parts("low", &Facts::min), parts("high", &Facts::min));
  return {fold_all(e, cropped, parts("low", &Facts::max), parts("high", &Facts::max), wrapped)};
}

// The rule of a padding that can repeat at most `reach(size)` elements on each side.
InferFn padded_within(Expr (*reach)(const Expr& size)) {
  return [reach](InferContext& c) -> Types {
    Types types = padded(c);
    for (size_t dim = 0; dim < types[0].shape.size(); ++dim) {
      const Expr most = reach(c.type(0).shape[dim]);
      for (const Expr& amount : {c.exprs("low")[dim], c.exprs("high")[dim]}) {
        if (!c.facts().less_equal(1, amount) || !c.facts().less_equal(most + 1, amount)) continue;
        fail("{} cannot be padded by {} in dimension {}: at most by {}", to_string(c.type(0)), to_string(amount), dim,
             to_string(most));
      }
    }
    return types;
  };
}

const Samples kFoldSamples = {"T[4]; low=[1], high=[2]",           "T[3, 4]; low=[1, 0], high=[1, 3]",
                              "T[2, 3]; low=[1, -1], high=[0, 1]", "T[2, 2, 3]; low=[1, 1, 2], high=[0, 1, 2]",
                              "T[5]; low=[-2], high=[-1]",         "T[3]; low=[0], high=[0]"};

OpDef pad_op(std::string_view name, std::string_view mode, std::string_view doc, InferFn infer, Semantics semantics,
             const Samples& more = {}) {
  return {
      .name = name,
      .family = "pad",
      .doc = doc,
      .operands = std::vector<OperandDef>{{"x"}},
      .attrs = kAmounts,
      .infer = std::move(infer),
      .semantics = std::move(semantics),
      .gradient = ByExpansion{},
      .peer = torch_is_text(
          "F.pad(x[None, None], [n for pair in reversed(list(zip(low, high))) for n in pair], mode='{}')[0, 0]", mode),
      .samples = kFoldSamples + more};
}

const OpDef kPadsByElements[] = {
    pad_op("pad_reflect", "reflect",
           "Surrounds x with its reflection in its outer elements, which are not repeated. Negative amounts crop.",
           padded_within([](const Expr& size) { return size - 1; }), pad_by(reflected)),
    pad_op("pad_replicate", "replicate", "Surrounds x with its outer elements, repeated. Negative amounts crop.",
           padded_within([](const Expr& size) { return size.is_constant(0) ? size : Expr(kInt64Max - 1); }),
           pad_by(replicated), {"T[2]; low=[5], high=[0]"}),
    pad_op("pad_circular", "circular", "Surrounds x with repetitions of itself. Negative amounts crop x first.",
           padded_within([](const Expr& size) { return size; }), composite(expand_circular),
           {"T[2]; low=[2], high=[1]"}),
};

}  // namespace

OpRefs pad_ops() { return records(kPad, kPadsByElements); }

}  // namespace tenon::ops
