// Padding: elements around a tensor.
#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const std::vector<AttrDef> kAmounts = {{"low", AttrKind::kExprs, "how many before, one for each dimension; negative ones crop"},
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
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      return {g.pad(g.dout(), negated(g.exprs("low")), negated(g.exprs("high")))};
    }),
    .peer = torch_is("F.pad(x, [n for pair in reversed(list(zip(low, high))) for n in pair], value=value)"),
    .samples = Samples{"T[3, 2]; low=[1, 0], high=[0, 2]", "T[3]; low=[2], high=[1], value=1", "T[]; low=[], high=[]",
                       "T[4, 3]; low=[-1, 1], high=[1, -2], value=2", "T[0, 2]; low=[1, 0], high=[1, 0], value=-1",
                       "T[5]; low=[-2], high=[-3]", "f32[2, 2]; low=[1, 0], high=[0, 0], value=0.1",
                       "f16[2]; low=[1], high=[1], value=inf", "T[2, 1, 2]; low=[0, 1, 0], high=[1, 0, 0]"}};

}  // namespace

OpFamily pad_ops() {
  static const OpDef* const ops[] = {&kPad};
  return ops;
}

}  // namespace tenon
