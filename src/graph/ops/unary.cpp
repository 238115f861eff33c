// Elementwise ops of one operand.
#include <cmath>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const OpDef kNeg{
    .name = "neg",
    .family = "unary",
    .doc = "-x.",
    .operands = std::vector<OperandDef>{{"x", kNumbers}},
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, [](double x) { return -x; }, [](int64_t x) { return wrap_sub(0, x); }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {-g.dout()}; }),
    .peer = torch_is("torch.neg(x)"),
    .samples = unary_samples()};

const OpDef kExp{
    .name = "exp",
    .family = "unary",
    .doc = "e to the power x.",
    .operands = std::vector<OperandDef>{{"x"}},
    .infer = elementwise_type,
    .semantics = real_elementwise([](double x) { return std::exp(x); }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout() * g.out()}; }),
    .peer = torch_is("torch.exp(x)"),
    .samples = unary_samples()};

}  // namespace

OpFamily unary_ops() {
  static const OpDef* const ops[] = {&kNeg, &kExp};
  return ops;
}

}  // namespace tenon
