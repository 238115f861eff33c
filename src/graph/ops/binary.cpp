// Elementwise arithmetic of two operands.
#include <cmath>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const std::vector<OperandDef> kTwo = {{"x"}, {"y"}};
const Samples kArithmeticSamples = binary_samples() + promoting_samples();

const OpDef kAdd{
    .name = "add",
    .family = "binary",
    .doc = "x + y.",
    .operands = kTwo,
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, [](double x, double y) { return x + y; }, wrap_add),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), g.dout()}; }),
    .peer = torch_is("torch.add(x, y)"),
    .samples = kArithmeticSamples};

const OpDef kMul{
    .name = "mul",
    .family = "binary",
    .doc = "x * y.",
    .operands = kTwo,
    .infer = elementwise_type,
    .semantics = elementwise(Compute::kPromote, [](double x, double y) { return x * y; }, wrap_mul),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout() * g.in(1), g.dout() * g.in(0)}; }),
    .peer = torch_is("torch.mul(x, y)"),
    .samples = kArithmeticSamples};

}  // namespace

OpFamily binary_ops() {
  static const OpDef* const ops[] = {&kAdd, &kMul};
  return ops;
}

}  // namespace tenon
