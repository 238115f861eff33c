// Several tensors into one, and one into several.
#include <algorithm>

#include "graph/ops/common.h"

namespace tenon {
namespace {

using namespace ops;

// ---- concat ------------------------------------------------------------------------------------------------------------

Types concatenated(InferContext& c) {
  if (c.operand_count() == 0) fail("there is nothing to join");
  TensorType type = c.type(0);
  if (type.rank() == 0) fail("a scalar has no dimension to join along: stack makes one");
  const auto joined = static_cast<size_t>(c.dim("dim"));
  for (size_t i = 1; i < c.operand_count(); ++i) {
    const Shape& shape = c.type(i).shape;
    bool fits = shape.size() == type.shape.size();
    for (size_t dim = 0; fits && dim < shape.size(); ++dim) fits = dim == joined || c.facts().equal(shape[dim], type.shape[dim]);
    if (!fits) {
      fail("operand {} is {} and operand 0 is {}: only dimension {} may differ", i, to_string(c.type(i)),
           to_string(c.type(0)), joined);
    }
    type.shape[joined] += shape[joined];
  }
  type.dtype = result_dtype(c.present_types());
  return {type};
}

const OpDef kConcat{
    .name = "concat",
    .family = "join",
    .doc = "Joins tensors along a dimension that they have. Dtypes are promoted.",
    .operands = std::vector<OperandDef>{{"xs", kAny, Arity::kVariadic}},
    .attrs = {{"dim", AttrKind::kInt, "the dimension to join along", Attr(int64_t{0})}},
    .infer = concatenated,
    .semantics = reference([](ReferenceContext& c) {
      const auto dim = static_cast<size_t>(c.dim("dim"));
      int64_t start = 0;
      for (size_t i = 0; i < c.operand_count(); ++i) {
        const Tensor& part = c.in(i);
        for_each_index(part.shape(), [&](Sizes index) {
          const int64_t from = part.offset(index);
          index[dim] += start;
          copy_element(c.out(), c.out().offset(index), part, from);
        });
        start += part.shape()[dim];
      }
    }),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> {
      const int64_t dim = g.dim("dim");
      std::vector<Value> parts;
      Expr start = 0;
      for (const Value& x : g.operands()) {
        parts.push_back(g.slice(g.dout(), dim, start, start + x.size(dim)));
        start += x.size(dim);
      }
      return parts;
    }),
    .peer = torch_is("torch.cat(xs, dim)"),
    .samples = Samples{"T[2, 3], T[1, 3]", "T[2, 3], T[2, 1], T[2, 2]; dim=1", "T[2], T[3]; dim=-1", "T[4]",
                       "T[0, 2], T[3, 2]; dim=0", "T[2, 2, 1], T[2, 2, 3]; dim=-1", "T[1], T[1], T[1], T[1]",
                       "f32[2], i64[3]", "u8[2], i8[1]", "bool[1], f16[2], bf16[1]", "i32[2], bool[2]"}};

}  // namespace

OpFamily join_ops() {
  static const OpDef* const ops[] = {&kConcat};
  return ops;
}

}  // namespace tenon
