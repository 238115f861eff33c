// softmax and log_softmax.
#include "ops/common.h"

namespace tenon::ops {
namespace {

const Samples kSoftmaxSamples = {"T[3, 4]; dim=-1", "T[3, 4]; dim=0", "T[]; dim=0",     "T[]; dim=-1",
                                 "T[1]; dim=0",     "T[2, 0]; dim=1", "T[2, 0]; dim=0", "T[2, 3, 4]; dim=1",
                                 "T[2, 1]; dim=1",  "T[40]; dim=0"};

Types along_dim(InferContext& c) {
  c.dim("dim");
  return {c.type(0)};
}

// The operand less its largest element, so that no exponential overflows. A line of -inf becomes NaN, as in PyTorch.
Value shifted(ExpandContext& e) {
  const Value x = e.in_wide();
  return x -
         e.op("amax", {x}, {{"dims", std::vector<int64_t>{e.dim("dim")}}, {"keepdim", true}, {"allow_empty", true}});
}

template <class Context>
Value sum_along(Context& c, Value x) {
  return c.sum(x, {c.dim("dim")}, true);
}

OpDef softmax_op(std::string_view name, std::string_view doc, Semantics semantics, Gradient gradient) {
  return {.name = name,
          .family = "softmax",
          .doc = doc,
          .operands = std::vector<OperandDef>{{"x", kFloats}},
          .attrs = {{"dim", AttrKind::kInt, "the dimension that sums to one"}},
          .infer = along_dim,
          .semantics = std::move(semantics),
          .gradient = std::move(gradient),
          .role = Role::kRows,
          .peer = torch_is_text("torch.{}(x, dim)", name),
          .samples = kSoftmaxSamples};
}

const OpDef kSoftmaxes[] = {
    softmax_op("softmax", "exp(x) / sum(exp(x)) along a dimension.", composite([](ExpandContext& e) {
                 const Value exps = e.exp(shifted(e));
                 return e.cast(exps / sum_along(e, exps), e.in().dtype());
               }),
               gradient([](GradContext& g) {
                 const Value out = widen(g, g.out());
                 const Value weighted = widen(g, g.dout()) * out;
                 return weighted - out * sum_along(g, weighted);
               })),
    softmax_op("log_softmax",
               "x - log(sum(exp(x))) along a dimension: the logarithm of `softmax`, exact where that underflows.",
               composite([](ExpandContext& e) {
                 const Value x = shifted(e);
                 return e.cast(x - e.log(sum_along(e, e.exp(x))), e.in().dtype());
               }),
               gradient([](GradContext& g) {
                 const Value dout = widen(g, g.dout());
                 return dout - g.exp(widen(g, g.out())) * sum_along(g, dout);
               })),
};

}  // namespace

OpRefs softmax_ops() { return records(kSoftmaxes); }

}  // namespace tenon::ops
