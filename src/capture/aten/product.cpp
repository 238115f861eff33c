// Products of matrices and vectors, and distances. Attention and recurrent networks have files of their own.
#include <fmt/format.h>

#include <cmath>

#include "capture/aten/common.h"
#include "capture/aten/einsum.h"

namespace tenon::aten {
namespace {

// ---- matrix products ------------------------------------------------------------------------------------------------

AtenFn product_of(std::string a, std::string b) {
  return [a, b](AtenCall& c) { return c.matmul(c.tensor(a), c.tensor(b)); };
}

// In the dtype of the result from the start.
AtenFn product_in(std::string a, std::string b) {
  return [a, b](AtenCall& c) {
    const DType dtype = *c.dtype("out_dtype");
    return c.matmul(c.cast(c.tensor(a), dtype), c.cast(c.tensor(b), dtype));
  };
}

// beta * self + alpha * product. With beta 0 self is not read, so that its NaN does not spread.
Value scaled_sum(AtenCall& c, Value self, Value product) {
  const Value scaled = times(c, product, "alpha");
  if (c.is_run_time_number("beta")) {
    const Value beta = c.number("beta", self.dtype());
    return c.op("add", {c.where(c.compare("eq", beta, 0), c.full_like(beta, 0), beta * self), scaled});
  }
  if (!is_zero(c.argument("beta"))) return c.op("add", {times(c, self, "beta"), scaled});
  return c.expand(scaled, broadcast(self.shape(), scaled.shape()));
}

Value addmm_of(AtenCall& c, Value self, Value a, Value b) {
  if (c.is_run_time_number("beta") || c.is_run_time_number("alpha")) return scaled_sum(c, self, c.matmul(a, b));
  return c.op("addmm", {self, a, b}, {{"beta", c.number("beta")}, {"alpha", c.number("alpha")}});
}

AtenFn addmm_in(Value (*build)(AtenCall&, Value, Value, Value), std::string a, std::string b) {
  return [=](AtenCall& c) {
    const DType dtype = *c.dtype("out_dtype");
    return build(c, c.cast(c.tensor(), dtype), c.cast(c.tensor(a), dtype), c.cast(c.tensor(b), dtype));
  };
}

Value baddbmm_of(AtenCall& c, Value self, Value a, Value b) { return scaled_sum(c, self, c.matmul(a, b)); }

Value outer(Builder& b, Value x, Value y) { return b.op("mul", {b.unsqueeze(x, 1), b.unsqueeze(y, 0)}); }

AtenArg addr(AtenCall& c) { return scaled_sum(c, c.tensor(), outer(c, c.tensor("vec1"), c.tensor("vec2"))); }

AtenArg linear(AtenCall& c) {
  const Value x = c.tensor("input"), weight = c.tensor("weight"), bias = c.tensor_or_none("bias");
  if (weight.rank() > 1) return c.op("linear", {x, weight, bias});
  const Value product = c.matmul(x, weight);
  return bias ? c.op("add", {product, bias}) : product;
}

AtenArg inner(AtenCall& c) {
  const Value x = c.tensor(), y = c.tensor("other");
  if (x.rank() == 0 || y.rank() == 0) return c.op("mul", {x, y});
  return tensordot(c, x, y, {-1}, {-1});
}

Value chain(AtenCall& c, const std::vector<Value>& matrices) {
  Value product = matrices.at(0);
  for (size_t i = 1; i < matrices.size(); ++i) product = c.matmul(product, matrices[i]);
  return product;
}

// By squaring; a negative power is that of the inverse.
AtenArg matrix_power(AtenCall& c) {
  const int64_t n = std::abs(c.integer("n"));
  Value base = c.tensor();
  if (c.integer("n") < 0) base = c.call("aten.linalg_inv.default", {base}).get<AtenTensor>()->value;
  const Expr& rows = base.size(base.rank() - 1);
  if (n == 0) {
    return c.expand(c.op("eye", {}, {{"rows", rows}, {"columns", rows}, {"dtype", base.dtype()}}), base.shape());
  }
  Value result;
  for (int64_t rest = n; rest > 0; rest /= 2) {
    if (rest % 2 == 1) result = result ? c.matmul(result, base) : base;
    if (rest > 1) base = c.matmul(base, base);
  }
  return result;
}

void add_matrix_entries(AtenTable& table) {
  table.add("aten.{mm,bmm}.default(self, mat2)", product_of("self", "mat2"));
  table.add("aten.{mm,bmm}.dtype(self, mat2, out_dtype)", product_in("self", "mat2"));
  table.add("aten.{matmul,linalg_matmul,vdot}.default(self, other)", product_of("self", "other"));
  table.add("aten.mv.default(self, vec)", product_of("self", "vec"));
  table.add("aten.dot.default(self, tensor)", product_of("self", "tensor"));
  table.add("aten.inner.default(self, other)", inner);
  table.add("aten.{outer,ger}.default(self, vec2)", [](AtenCall& c) { return outer(c, c.tensor(), c.tensor("vec2")); });
  table.add("aten.addmm.default(self, mat1, mat2, *, beta=1, alpha=1)",
            [](AtenCall& c) { return addmm_of(c, c.tensor(), c.tensor("mat1"), c.tensor("mat2")); });
  table.add("aten.addmm.dtype(self, mat1, mat2, out_dtype, *, beta=1, alpha=1)", addmm_in(addmm_of, "mat1", "mat2"));
  table.add("aten.baddbmm.default(self, batch1, batch2, *, beta=1, alpha=1)",
            [](AtenCall& c) { return baddbmm_of(c, c.tensor(), c.tensor("batch1"), c.tensor("batch2")); });
  table.add("aten.baddbmm.dtype(self, batch1, batch2, out_dtype, *, beta=1, alpha=1)",
            addmm_in(baddbmm_of, "batch1", "batch2"));
  table.add("aten.addbmm.default(self, batch1, batch2, *, beta=1, alpha=1)", [](AtenCall& c) {
    return scaled_sum(c, c.tensor(), c.contract(c.tensor("batch1"), c.tensor("batch2"), "bij,bjk->ik"));
  });
  table.add("aten.addmv.default(self, mat, vec, *, beta=1, alpha=1)",
            [](AtenCall& c) { return scaled_sum(c, c.tensor(), c.matmul(c.tensor("mat"), c.tensor("vec"))); });
  table.add("aten.addr.default(self, vec1, vec2, *, beta=1, alpha=1)", addr);
  table.add("aten.linear.default(input, weight, bias=None)", linear);
  table.add("aten.chain_matmul.default(matrices)", [](AtenCall& c) { return chain(c, c.tensors("matrices")); });
  table.add("aten.linalg_multi_dot.default(tensors)", [](AtenCall& c) { return chain(c, c.tensors("tensors")); });
  table.add("aten.{matrix_power,linalg_matrix_power}.default(self, n)", matrix_power);
}

// ---- sums of products -----------------------------------------------------------------------------------------------

AtenArg bilinear(AtenCall& c) {
  const Value product = einsum(c, "...i,oij,...j->...o", {c.tensor("input1"), c.tensor("weight"), c.tensor("input2")});
  return c.given("bias") ? c.op("add", {product, c.tensor("bias")}) : product;
}

AtenArg trace_backward(AtenCall& c) {
  const Value grad = c.tensor("grad");
  const Shape sizes = c.sizes("sizes");
  const Expr count = min(sizes.at(0), sizes.at(1));
  return c.op("diagonal_scatter", {c.full(Expr(0), sizes, grad.dtype()), c.expand(grad, {count})});
}

// Element i is x[i + 1] * y[i + 2] - x[i + 2] * y[i + 1], around three.
Value cross(AtenCall& c, Value x, Value y, int64_t dim) {
  const Shape shape = broadcast(x.shape(), y.shape());
  const auto turned = [&](Value v, int64_t by) {
    return c.op("roll", {c.expand(v, shape)}, {{"shifts", Shape{-by}}, {"dims", std::vector<int64_t>{dim}}});
  };
  return c.op("sub", {c.op("mul", {turned(x, 1), turned(y, 2)}), c.op("mul", {turned(x, 2), turned(y, 1)})});
}

int64_t first_of_three(const Shape& shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim].is_constant(3)) return static_cast<int64_t>(dim);
  }
  fail("cross: no dimension of {} has size 3", to_string(shape));
}

AtenArg cross_of(AtenCall& c) {
  const Value x = c.tensor(), y = c.tensor("other");
  const Shape shape = broadcast(x.shape(), y.shape());
  const int64_t dim = c.given("dim") ? normalize_dim(c.integer("dim"), std::ssize(shape)) : first_of_three(shape);
  return cross(c, x, y, dim);
}

AtenArg kron(AtenCall& c) {
  Value x = c.tensor(), y = c.tensor("other");
  while (x.rank() < y.rank()) x = c.unsqueeze(x, 0);
  while (y.rank() < x.rank()) y = c.unsqueeze(y, 0);
  Shape outer_shape, inner_shape, merged;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    outer_shape.insert(outer_shape.end(), {x.size(dim), 1});
    inner_shape.insert(inner_shape.end(), {1, y.size(dim)});
    merged.push_back(x.size(dim) * y.size(dim));
  }
  return c.reshape(c.op("mul", {c.reshape(x, outer_shape), c.reshape(y, inner_shape)}), merged);
}

// Powers by a running product, as PyTorch computes them.
Value vander(AtenCall& c, Value x, const Expr& columns) {
  Shape shape = x.shape();
  shape.push_back(columns - 1);
  const Value factors = c.expand(c.unsqueeze(x, -1), shape);
  const Value powers = c.op("cumprod", {factors}, {{"dim", int64_t{-1}}});
  shape.back() = 1;
  return c.concat({c.full(Expr(1), shape, powers.dtype()), powers}, -1);
}

AtenArg vander_of(AtenCall& c) {
  const Value x = c.tensor("x");
  const Value widened = is_float(x.dtype()) ? x : c.cast(x, DType::kI64);
  const Value powers = vander(c, widened, c.given("N") ? c.size("N") : x.size(0));
  return c.flag("increasing") ? powers : c.op("flip", {powers}, {{"dims", std::vector<int64_t>{-1}}});
}

AtenArg vecdot(AtenCall& c) {
  const Value product = c.op("mul", {c.tensor("x"), c.tensor("y")});
  return c.cast(c.sum(product, {c.integer("dim")}), product.dtype());
}

void add_sum_entries(AtenTable& table) {
  table.add("aten.einsum.default(equation, tensors, *, path=None)",
            [](AtenCall& c) { return einsum(c, c.string("equation"), c.tensors("tensors")); });
  table.add("aten.tensordot.default(self, other, dims_self, dims_other)", [](AtenCall& c) {
    return tensordot(c, c.tensor(), c.tensor("other"), c.ints("dims_self"), c.ints("dims_other"));
  });
  table.add("aten.bilinear.default(input1, input2, weight, bias=None)", bilinear);
  table.add("aten.trace_backward.default(grad, sizes)", trace_backward);
  table.add("aten.cross.default(self, other, dim=None)", cross_of);
  table.add("aten.linalg_cross.default(self, other, *, dim=-1)", cross_of);
  table.add("aten.kron.default(self, other)", kron);
  table.add("aten.vander.default(x, N=None, increasing=False)", vander_of);
  table.add("aten.linalg_vander.default(x, *, N=None)", [](AtenCall& c) {
    const Value x = at_least_1d(c, c.tensor("x"));
    return vander(c, x, c.given("N") ? c.size("N") : x.shape().back());
  });
  table.add("aten.linalg_vecdot.default(x, y, *, dim=-1)", vecdot);
}

// ---- distances ------------------------------------------------------------------------------------------------------

Value norm_of(Builder& b, Value x, double p, bool keepdim = false) {
  return b.op("norm", {x}, {{"p", p}, {"dims", std::vector<int64_t>{-1}}, {"keepdim", keepdim}});
}

// From each row of x to each row of y.
Value distances(Builder& b, Value x, Value y, double p) {
  return norm_of(b, b.unsqueeze(x, -2) - b.unsqueeze(y, -3), p);
}

AtenArg cdist(AtenCall& c) { return distances(c, c.tensor("x1"), c.tensor("x2"), c.real("p")); }

// Of each pair of rows once: the distances above the diagonal. A sort brings their places to the front.
Value pair_distances(Builder& b, Value x, double p) {
  const Expr& rows = x.size(0);
  const Value is_above = b.op("triu", {b.full(Expr(1), {rows, rows}, DType::kBool)}, {{"diagonal", Expr(1)}});
  const Value order = b.op("argsort", {b.reshape(is_above, {rows * rows})}, {{"descending", true}});
  const Value pairs = b.slice(order, 0, 0, floordiv(rows * (rows - 1), 2));
  return b.op("index", {b.reshape(distances(b, x, x, p), {rows * rows}), pairs});
}

void add_distance_entries(AtenTable& table) {
  table.add("aten.cdist.default(x1, x2, p=2.0, compute_mode=None)", cdist);
  table.add("aten._cdist_forward.default(x1, x2, p, compute_mode)", cdist);
  table.add("aten._euclidean_dist.default(x1, x2)",
            [](AtenCall& c) { return distances(c, c.tensor("x1"), c.tensor("x2"), 2); });
  table.add("aten._cdist_backward.default(grad, x1, x2, p, cdist)", [](AtenCall& c) {
    const double p = c.real("p");
    const auto forward = [p](Builder& b, const std::vector<Value>& in) { return distances(b, in[0], in[1], p); };
    return gradients(c, forward, {c.tensor("x1"), c.tensor("x2")}, c.tensor("grad"))[0];
  });
  table.add("aten.{pdist,_pdist_forward}.default(self, p=2.0)",
            [](AtenCall& c) { return pair_distances(c, c.tensor(), c.real("p")); });
  table.add("aten._pdist_backward.default(grad, self, p, pdist)", [](AtenCall& c) {
    const double p = c.real("p");
    const auto forward = [p](Builder& b, const std::vector<Value>& in) { return pair_distances(b, in[0], p); };
    return gradients(c, forward, {c.tensor()}, c.tensor("grad"))[0];
  });
  table.add("aten.pairwise_distance.default(x1, x2, p=2.0, eps=1e-06, keepdim=False)", [](AtenCall& c) {
    const Value difference = c.op("sub", {c.tensor("x1"), c.tensor("x2")}) + c.real("eps");
    return norm_of(c, difference, c.real("p"), c.flag("keepdim"));
  });
}

}  // namespace

void add_product_entries(AtenTable& table) {
  for (const auto add : {add_matrix_entries, add_sum_entries, add_distance_entries, add_attention_entries,
                         add_recurrent_entries, add_grouped_entries})
    add(table);
}

}  // namespace tenon::aten
