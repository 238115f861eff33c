// Reductions over dimensions.
#include <cmath>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

const std::vector<AttrDef> kReductionAttrs = {
    {"dims", AttrKind::kInts, "the dimensions to reduce; none given means all", Attr(std::vector<int64_t>{})},
    {"keepdim", AttrKind::kBool, "keep them with size 1", Attr(false)}};

const Samples kReductionSamples = {"T[3, 4]",
                                   "T[3, 4]; dims=[0]",
                                   "T[3, 4]; dims=[-1], keepdim=true",
                                   "T[2, 3, 4]; dims=[0, 2]",
                                   "T[]",
                                   "T[]; dims=[0]",
                                   "T[2, 1, 3]; dims=[1]",
                                   "T[60]; dims=[0]"};
const Samples kEmptyReductionSamples = {"T[0]", "T[2, 0]; dims=[1]", "T[2, 0]; dims=[0]", "T[0, 3]; dims=[0], keepdim=true"};

// Integers and bool add up in i64, as in PyTorch.
DType sum_dtype(DType dtype) { return is_integral(dtype) ? DType::kI64 : dtype; }

// Visits each result with the elements that it reduces: start(out), then step(in) for each, then finish(out).
void reduce(ReferenceContext& c, const std::function<void(int64_t)>& start, const std::function<void(int64_t)>& step,
            const std::function<void(int64_t)>& finish) {
  const std::vector<int64_t> dims = c.dims("dims");
  const Tensor& x = c.in();
  Sizes kept;
  Sizes reduced;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    const bool is_reduced = std::binary_search(dims.begin(), dims.end(), dim);
    kept.push_back(is_reduced ? 1 : x.size(dim));
    reduced.push_back(is_reduced ? x.size(dim) : 1);
  }
  int64_t position = 0;
  for_each_index(kept, [&](const Sizes& outer) {
    start(position);
    for_each_index(reduced, [&](const Sizes& inner) { step(x.offset(outer) + x.offset(inner)); });
    finish(position++);
  });
}

// A gradient of the reduced shape, stretched over the operand.
Value unreduce(GradContext& g, Value grad) {
  const Shape kept = without_dims(g.in().shape(), g.dims("dims"), true);
  return g.expand(g.reshape(grad, kept), g.in().shape());
}

const OpDef kSum{
    .name = "sum",
    .family = "reduction",
    .doc = "The sum over dimensions. Integers and bool add up in i64.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = kReductionAttrs,
    .infer = [](InferContext& c) -> Types {
      return {{sum_dtype(c.type(0).dtype), without_dims(c.type(0).shape, c.dims("dims"), c.flag("keepdim"))}};
    },
    .semantics = reference([](ReferenceContext& c) {
      double real = 0;
      int64_t integer = 0;
      const bool in_reals = is_float(c.out().dtype());
      reduce(
          c, [&](int64_t) { real = 0, integer = 0; },
          [&](int64_t at) { in_reals ? void(real += c.in().real(at)) : void(integer = wrap_add(integer, c.in().integer(at))); },
          [&](int64_t out) { in_reals ? c.out().set_real(out, real) : c.out().set_integer(out, integer); });
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {unreduce(g, g.dout())}; }),
    .peer = torch_is("torch.sum(x, dim=dims or None, keepdim=keepdim)"),
    .samples = kReductionSamples + kEmptyReductionSamples};

}  // namespace

OpFamily reduction_ops() {
  static const OpDef* const ops[] = {&kSum};
  return ops;
}

}  // namespace tenon
