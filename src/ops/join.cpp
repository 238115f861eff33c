// Several tensors into one, and one into several.
#include <algorithm>

#include "graph/limits.h"
#include "loops/lower.h"
#include "ops/view.h"

namespace tenon::ops {
namespace {

DType promoted(const OpView& v) { return result_dtype(v.present_types()); }

// ---- concat ---------------------------------------------------------------------------------------------------------

Types concatenated(InferContext& c) {
  if (c.operand_count() == 0) fail("there is nothing to join");
  TensorType type = c.type(0);
  require_dims(c, "join along: stack makes one");
  const auto joined = static_cast<size_t>(c.dim("dim"));
  for (size_t i = 1; i < c.operand_count(); ++i) {
    const Shape& shape = c.type(i).shape;
    bool fits = shape.size() == type.shape.size();
    for (size_t dim = 0; fits && dim < shape.size(); ++dim)
      fits = dim == joined || c.facts().equal(shape[dim], type.shape[dim]);
    if (!fits) {
      fail("operand {} is {} and operand 0 is {}: only dimension {} may differ", i, to_string(c.type(i)),
           to_string(c.type(0)), joined);
    }
    type.shape[joined] += shape[joined];
  }
  type.dtype = promoted(c);
  return {type};
}

void lower_concat(LoopContext& l) {
  const auto joined = static_cast<size_t>(l.dim("dim"));
  const loops::VarRef along = l.var(l.result().shape[joined]);
  std::vector<LoopDims> others;
  for (size_t i = 0; i < l.operand_count(); ++i) {
    others.push_back(l.in(i).dims);
    others.back()[joined] = {};
  }
  LoopView view{l.common_dims(others), {}};
  view.dims[joined] = along;
  Expr start = 0;
  for (size_t i = 0; i < l.operand_count(); ++i) {
    view.pieces.push_back({l.cast(l.in(i), l.result().dtype), l.type(i).shape, l.at(view.dims)});
    view.pieces.back().index[joined] = l.at(along) - start;
    start += l.type(i).shape[joined];
  }
  l.out(l.view(view));
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
    .loops = lower_concat,
    .peer = torch_is("torch.cat(xs, dim)"),
    .samples = Samples{"T[2, 3], T[1, 3]", "T[2, 3], T[2, 1], T[2, 2]; dim=1", "T[2], T[3]; dim=-1", "T[4]",
                       "T[0, 2], T[3, 2]; dim=0", "T[2, 2, 1], T[2, 2, 3]; dim=-1", "T[1], T[1], T[1], T[1]",
                       "f32[2], i64[3]", "u8[2], i8[1]", "bool[1], f16[2], bf16[1]", "i32[2], bool[2]"},
};

// ---- stack ----------------------------------------------------------------------------------------------------------

const OpDef kStack{
    .name = "stack",
    .family = "join",
    .doc = "Joins tensors of one shape along a new dimension. Dtypes are promoted.",
    .operands = std::vector<OperandDef>{{"xs", kAny, Arity::kVariadic}},
    .attrs = {{"dim", AttrKind::kInt, "the new dimension's position in the result", Attr(int64_t{0})}},
    .infer = [](InferContext& c) -> Types {
      if (c.operand_count() == 0) fail("there is nothing to join");
      TensorType type = c.type(0);
      for (size_t i = 1; i < c.operand_count(); ++i) {
        if (c.facts().equal(c.type(i).shape, type.shape)) continue;
        fail("operand {} is {} and operand 0 is {}: the shapes must be the same", i, to_string(c.type(i)),
             to_string(type));
      }
      const int64_t dim = normalize_dim(c.integer("dim"), type.rank() + 1);
      type.shape.insert(type.shape.begin() + dim, c.operand_count());
      type.dtype = promoted(c);
      return {type};
    },
    .semantics = composite([](ExpandContext& e) {
      std::vector<Value> parts;
      for (const Value& x : e.operands()) parts.push_back(e.unsqueeze(x, e.integer("dim")));
      return e.concat(parts, normalize_dim(e.integer("dim"), parts[0].rank()));
    }),
    .gradient = ByExpansion{},
    .peer = torch_is("torch.stack(xs, dim)"),
    .samples = Samples{"T[2, 3], T[2, 3]", "T[2, 3], T[2, 3], T[2, 3]; dim=1", "T[2], T[2]; dim=-1", "T[], T[]; dim=0",
                       "T[0], T[0]", "T[3]; dim=1", "f32[2], i64[2]", "i32[], f16[]"},
};

// ---- split and unbind -----------------------------------------------------------------------------------------------

std::vector<Value> all_cotangents(GradContext& g, size_t count) {
  std::vector<Value> parts;
  for (size_t i = 0; i < count; ++i) parts.push_back(g.dout(i));
  return parts;
}

const OpDef kSplit{
    .name = "split",
    .family = "join",
    .doc = "Cuts a dimension into parts of the given sizes, which must add up to it. One result for each.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"sizes", AttrKind::kExprs, "the sizes of the parts"},
              {"dim", AttrKind::kInt, "the dimension to cut", Attr(int64_t{0})}},
    .results = {"parts"},
    .infer = [](InferContext& c) -> Types {
      require_dims(c, "split");
      const int64_t dim = c.dim("dim");
      Types types;
      Expr total = 0;
      for (const Expr& size : c.exprs("sizes")) {
        if (c.facts().less_equal(size, -1)) fail("size {} is negative", to_string(size));
        total += size;
        types.push_back(c.type(0));
        types.back().shape[static_cast<size_t>(dim)] = size;
      }
      if (c.facts().equal(total, c.type(0).size(dim))) return types;
      fail("sizes {} add up to {}, but dimension {} of {} is {}", to_string(c.exprs("sizes")), to_string(total), dim,
           to_string(c.type(0)), to_string(c.type(0).size(dim)));
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      std::vector<Value> parts;
      Expr start = 0;
      for (const Expr& size : e.exprs("sizes")) {
        parts.push_back(e.slice(e.in(), e.dim("dim"), start, start + size));
        start += size;
      }
      return parts;
    }),
    .gradient =
        gradient([](GradContext& g) { return g.concat(all_cotangents(g, g.exprs("sizes").size()), g.dim("dim")); }),
    .peer = torch_is("torch.split(x, sizes, dim)"),
    .samples = Samples{"T[5, 2]; sizes=[2, 3]", "T[2, 4]; sizes=[1, 1, 2], dim=-1", "T[3]; sizes=[3]",
                       "T[2]; sizes=[0, 2]", "T[0, 2]; sizes=[0]"},
};

const OpDef kUnbind{
    .name = "unbind",
    .family = "join",
    .doc = "One result for each index of a dimension, which goes away. Its size must be a constant.",
    .operands = std::vector<OperandDef>{{"x"}},
    .attrs = {{"dim", AttrKind::kInt, "the dimension", Attr(int64_t{0})}},
    .results = {"parts"},
    .infer = [](InferContext& c) -> Types {
      require_dims(c, "unbind");
      const int64_t dim = c.dim("dim");
      const Expr& size = c.type(0).size(dim);
      if (!size.is_constant()) fail("the number of results, {}, must be a constant", to_string(size));
      check_part_count(size.constant(), "results");
      const TensorType part{c.type(0).dtype, without_dims(c.type(0).shape, {dim}, false)};
      return Types(static_cast<size_t>(size.constant()), part);
    },
    .semantics = composite([](ExpandContext& e) -> std::vector<Value> {
      std::vector<Value> parts;
      const int64_t dim = e.dim("dim");
      for (int64_t i = 0; i < e.in().size(dim).constant(); ++i)
        parts.push_back(e.squeeze(e.slice(e.in(), dim, i, i + 1), dim));
      return parts;
    }),
    .gradient = gradient([](GradContext& g) {
      const int64_t dim = g.dim("dim");
      return g.op("stack", all_cotangents(g, static_cast<size_t>(g.in().size(dim).constant())), {{"dim", dim}});
    }),
    .peer = torch_is("torch.unbind(x, dim)"),
    .samples = Samples{"T[3, 2]", "T[2, 3]; dim=-1", "T[2]", "T[1, 0]"},
};

}  // namespace

OpRefs join_ops() { return {&kConcat, &kStack, &kSplit, &kUnbind}; }

}  // namespace tenon::ops
