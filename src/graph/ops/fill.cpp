// Values from nothing: fills and index sequences.
#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const OpDef kFull{
    .name = "full",
    .family = "fill",
    .doc = "A tensor of one value. The value may be symbolic: that is how a size becomes data.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"value", AttrKind::kScalar, "an integer expression or a real"},
              {"shape", AttrKind::kExprs, "the result's shape"},
              {"dtype", AttrKind::kDType, "the result's dtype"}},
    .infer = [](InferContext& c) -> Types {
      const auto shape = c.exprs("shape");
      return {{c.dtype("dtype"), {shape.begin(), shape.end()}}};
    },
    .semantics = reference([](ReferenceContext& c) {
      const auto* real = std::get_if<double>(&c.attr("value"));
      for (int64_t i = 0; i < c.out().numel(); ++i) {
        real ? c.out().set_real(i, *real) : c.out().set_integer(i, c.size("value"));
      }
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.full(shape, value, dtype=dtype)"),
    .samples = Samples{"; value=2.5, shape=[2, 3], dtype=f32", "; value=7, shape=[], dtype=i64",
                       "; value=-1, shape=[0, 2], dtype=i8", "; value=1, shape=[3], dtype=bool",
                       "; value=0.1, shape=[2], dtype=bf16"}};

const OpDef kIota{
    .name = "iota",
    .family = "fill",
    .doc = "The integers 0, 1, ... size-1 as a vector.",
    .operands = std::vector<OperandDef>{},
    .attrs = {{"size", AttrKind::kExpr, "how many"}, {"dtype", AttrKind::kDType, "the result's dtype", Attr(DType::kI64)}},
    .infer = [](InferContext& c) -> Types { return {{c.dtype("dtype"), {c.expr("size")}}}; },
    .semantics = reference([](ReferenceContext& c) {
      for (int64_t i = 0; i < c.out().numel(); ++i) c.out().set_integer(i, i);
    }),
    .gradient = NotDifferentiable{},
    .peer = torch_is("torch.arange(size, dtype=dtype)"),
    .samples = Samples{"; size=5", "; size=0", "; size=1, dtype=f32", "; size=100, dtype=i8"}};

}  // namespace

OpFamily fill_ops() {
  static const OpDef* const ops[] = {&kFull, &kIota};
  return ops;
}

}  // namespace tenon
