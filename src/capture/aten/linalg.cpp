// Linear algebra: what PyTorch computes by LAPACK, made of the factors that the op table has.
//
// PyTorch's results that are for its backward alone, of a matrix or its transpose as they lie in memory
// (_linalg_det, _linalg_slogdet, _linalg_solve_ex), have no entries; the functions that users call have.
#include <limits>

#include "capture/aten/common.h"

namespace tenon::aten {
namespace {

// ---- batches of matrices --------------------------------------------------------------------------------------------

Value transposed(Builder& b, Value x) { return b.transpose(x, -2, -1); }
const Expr& rows_of(Value x) { return x.size(x.rank() - 2); }
const Expr& columns_of(Value x) { return x.size(x.rank() - 1); }
std::span<const Expr> batch_of(Value x, size_t own = 2) { return std::span(x.shape()).first(x.shape().size() - own); }

Value in_batch(Builder& b, Value x, std::span<const Expr> batch, size_t own = 2) {
  Shape shape(batch.begin(), batch.end());
  shape.insert(shape.end(), x.shape().end() - static_cast<std::ptrdiff_t>(own), x.shape().end());
  return b.expand(x, shape);
}

Value identity_like(Builder& b, Value x) {
  const Expr& size = rows_of(x);
  const Value one = b.op("eye", {}, {{"rows", size}, {"columns", size}, {"dtype", x.dtype()}});
  return in_batch(b, one, batch_of(x));
}

Value first_columns(Builder& b, Value x, const Expr& count) { return b.slice(x, x.rank() - 1, 0, count); }
Value first_rows(Builder& b, Value x, const Expr& count) { return b.slice(x, x.rank() - 2, 0, count); }
Value upper_of(Builder& b, Value x) { return b.op("triu", {x}); }
Value diagonal_of(Builder& b, Value x) { return b.op("diagonal", {x}, {{"dim1", int64_t{-2}}, {"dim2", int64_t{-1}}}); }

// A result, and for each matrix 0 or the number of what went wrong.
struct Outcome {
  Value value, info;
  const char* problem;
};

Value checked(Builder& b, const Outcome& outcome) {
  return b.op("require_zero", {outcome.value, outcome.info}, {{"message", std::string(outcome.problem)}});
}

AtenFn checked(Outcome (*of)(AtenCall&)) {
  return [of](AtenCall& c) { return checked(c, of(c)); };
}

// The overloads that leave the check to the caller.
AtenFn with_info(Outcome (*of)(AtenCall&)) {
  return [of](AtenCall& c) {
    const Outcome outcome = of(c);
    return std::vector<Value>{c.flag("check_errors") ? checked(c, outcome) : outcome.value, outcome.info};
  };
}

void check_square(const AtenCall& c, Value x) {
  if (x.rank() >= 2 && Facts(c.graph().symbols()).equal(rows_of(x), columns_of(x))) return;
  fail("{}: a batch of square matrices is needed, got {}", c.target(), to_string(x.type()));
}

// ---- triangles ------------------------------------------------------------------------------------------------------

struct Triangle {
  Value matrix;
  bool upper = false;
  bool unitriangular = false;
};

Triangle transposed(Builder& b, const Triangle& a) { return {transposed(b, a.matrix), !a.upper, a.unitriangular}; }

// X of A X = B. Batches broadcast.
Value solve(Builder& b, const Triangle& a, Value right) {
  const Shape batch = broadcast(batch_of(a.matrix), batch_of(right));
  return b.op("triangular_solve", {in_batch(b, a.matrix, batch), in_batch(b, right, batch)},
              {{"upper", a.upper}, {"unitriangular", a.unitriangular}});
}

AtenArg solve_triangular(AtenCall& c) {
  const Triangle a{c.tensor(), c.flag("upper"), c.flag("unitriangular")};
  if (c.flag("left")) return solve(c, a, c.tensor("B"));
  return transposed(c, solve(c, transposed(c, a), transposed(c, c.tensor("B"))));
}

AtenArg triangular_solve(AtenCall& c) {
  const Triangle a{c.tensor("A"), c.flag("upper"), c.flag("unitriangular")};
  const Value solution = solve(c, c.flag("transpose") ? transposed(c, a) : a, c.tensor());
  return std::vector<Value>{solution, in_batch(c, a.matrix, batch_of(solution))};
}

// ---- Cholesky -------------------------------------------------------------------------------------------------------

Outcome cholesky_of(AtenCall& c) {
  const Value x = c.tensor();
  const bool upper = c.flag("upper");
  const std::vector<Value> found = c.results("cholesky", {upper ? transposed(c, x) : x});
  return {upper ? transposed(c, found[0]) : found[0], found[1],
          "is not positive definite: a leading minor is not positive"};
}

// Of A = L L' or U' U.
Value solve_by_cholesky(AtenCall& c, Value factor, Value right) {
  const Triangle given{factor, c.flag("upper")};
  const Triangle lower = given.upper ? transposed(c, given) : given;
  return solve(c, transposed(c, lower), solve(c, lower, right));
}

AtenArg cholesky_solve(AtenCall& c) { return solve_by_cholesky(c, c.tensor("input2"), c.tensor()); }
AtenArg cholesky_inverse(AtenCall& c) {
  check_square(c, c.tensor());
  return solve_by_cholesky(c, c.tensor(), identity_like(c, c.tensor()));
}

void add_triangle_entries(AtenTable& table) {
  table.add("aten.linalg_solve_triangular.default(self, B, *, upper, left=True, unitriangular=False)",
            solve_triangular);
  table.add("aten.triangular_solve.default(self, A, upper=True, transpose=False, unitriangular=False)",
            triangular_solve);
  table.add("aten.cholesky.default(self, upper=False)", checked(cholesky_of));
  table.add("aten.linalg_cholesky.default(self, *, upper=False)", checked(cholesky_of));
  table.add("aten.linalg_cholesky_ex.default(self, *, upper=False, check_errors=False)", with_info(cholesky_of));
  table.add("aten.cholesky_solve.default(self, input2, upper=False)", cholesky_solve);
  table.add("aten.cholesky_inverse.default(self, upper=False)", cholesky_inverse);
}

// ---- LU -------------------------------------------------------------------------------------------------------------

struct Lu {
  Value factors, pivots, info;
};

Lu lu_of(Builder& b, Value x) {
  const std::vector<Value> found = b.results("lu", {x});
  return {found[0], found[1], found[2]};
}

constexpr auto kSingular = "is singular: a pivot is zero";

Value permutation_of(Builder& b, Value pivots, const Expr& rows) {
  return b.op("pivots_to_permutation", {pivots}, {{"rows", rows}});
}

// Row i is row order[i] of x.
Value in_order(Builder& b, Value x, Value order) {
  const Value index = b.expand(b.unsqueeze(order, -1), x.shape());
  return b.op("gather", {x, index}, {{"dim", x.rank() - 2}});
}

// X of A X = B, or of A' X = B.
Value solve(Builder& b, const Lu& lu, Value right, bool adjoint) {
  const Shape batch = broadcast(batch_of(lu.factors), batch_of(right));
  const Value x = in_batch(b, right, batch);
  const Value order = in_batch(b, permutation_of(b, lu.pivots, rows_of(lu.factors)), batch, 1);
  const Triangle lower{lu.factors, false, true}, upper{lu.factors, true};
  if (!adjoint) return solve(b, upper, solve(b, lower, in_order(b, x, order)));
  const Value turned = solve(b, transposed(b, lower), solve(b, transposed(b, upper), x));
  return in_order(b, turned, b.op("argsort", {order}));
}

Value solve(Builder& b, const Lu& lu, Value right, bool adjoint, bool left) {
  if (left) return solve(b, lu, right, adjoint);
  return transposed(b, solve(b, lu, transposed(b, right), !adjoint));
}

Lu pivoted(AtenCall& c) {
  if (!c.flag("pivot")) c.decline("it is without pivots");
  return lu_of(c, c.tensor("A"));
}

AtenArg lu_factor(AtenCall& c) {
  const Lu lu = pivoted(c);
  return std::vector<Value>{checked(c, {lu.factors, lu.info, kSingular}), lu.pivots};
}

AtenArg lu_factor_ex(AtenCall& c) {
  const Lu lu = pivoted(c);
  const Value factors = c.flag("check_errors") ? checked(c, {lu.factors, lu.info, kSingular}) : lu.factors;
  return std::vector<Value>{factors, lu.pivots, lu.info};
}

// A = P L U: column i of P has its 1 in row order[i].
Value permutation_matrix(Builder& b, const Lu& lu) {
  const Value order = permutation_of(b, lu.pivots, rows_of(lu.factors));
  const Value rows = b.unsqueeze(b.iota(rows_of(lu.factors)), -1);
  return b.cast(b.compare("eq", b.unsqueeze(order, -2), rows), lu.factors.dtype());
}

Value lower_factor(Builder& b, const Lu& lu) {
  const Value part = first_columns(b, lu.factors, lu.pivots.shape().back());
  const Value below = b.op("tril", {part}, {{"diagonal", Expr(-1)}});
  const Value eye = b.op("eye", {}, {{"rows", rows_of(part)}, {"columns", columns_of(part)}, {"dtype", part.dtype()}});
  return b.op("add", {below, eye});
}

Value upper_factor(Builder& b, const Lu& lu) {
  return upper_of(b, first_rows(b, lu.factors, lu.pivots.shape().back()));
}

AtenArg lu(AtenCall& c) {
  const Lu found = pivoted(c);
  return std::vector<Value>{permutation_matrix(c, found), lower_factor(c, found), upper_factor(c, found)};
}

AtenArg lu_unpack(AtenCall& c) {
  const Lu given{c.tensor("LU_data"), c.tensor("LU_pivots"), {}};
  const bool data = c.flag("unpack_data"), pivots = c.flag("unpack_pivots");
  const Value empty = nothing(c, given.factors.dtype());
  return std::vector<Value>{pivots ? permutation_matrix(c, given) : empty, data ? lower_factor(c, given) : empty,
                            data ? upper_factor(c, given) : empty};
}

AtenArg lu_solve(AtenCall& c) {
  const Lu given{c.tensor("LU"), c.tensor("pivots"), {}};
  return solve(c, given, c.tensor("B"), c.flag("adjoint"), c.flag("left"));
}

void add_lu_entries(AtenTable& table) {
  table.add("aten.linalg_lu_factor.default(A, *, pivot=True)", lu_factor);
  table.add("aten.linalg_lu_factor_ex.default(A, *, pivot=True, check_errors=False)", lu_factor_ex);
  table.add("aten.linalg_lu.default(A, *, pivot=True)", lu);
  table.add("aten.lu_unpack.default(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True)", lu_unpack);
  table.add("aten.linalg_lu_solve.default(LU, pivots, B, *, left=True, adjoint=False)", lu_solve);
}

// ---- systems of equations, inverses, determinants -------------------------------------------------------------------

// PyTorch's rule for a right side of vectors: one vector for all matrices, or one for each.
bool is_of_vectors(Value a, Value right) {
  if (right.rank() == 1) return true;
  return right.rank() == a.rank() - 1 && right.shape() == Shape(a.shape().begin(), a.shape().end() - 1);
}

Outcome solution_of(AtenCall& c) {
  const Value a = c.tensor("A"), right = c.tensor("B");
  check_square(c, a);
  const Lu found = lu_of(c, a);
  const bool vectors = is_of_vectors(a, right);
  const Value x = solve(c, found, vectors ? c.unsqueeze(right, -1) : right, false, vectors || c.flag("left"));
  return {vectors ? c.squeeze(x, -1) : x, found.info, kSingular};
}

Outcome inverse_of(AtenCall& c, Value a) {
  check_square(c, a);
  const Lu found = lu_of(c, a);
  return {solve(c, found, identity_like(c, a), false), found.info, kSingular};
}

Outcome inverse(AtenCall& c) { return inverse_of(c, c.tensor(c.takes("A") ? "A" : "self")); }

AtenArg tensorinv(AtenCall& c) {
  const Value x = c.tensor();
  const auto split = static_cast<size_t>(c.integer("ind"));
  if (split == 0 || split > x.shape().size()) fail("linalg.tensorinv: ind must be in [1, {}], got {}", x.rank(), split);
  const std::span<const Expr> left = std::span(x.shape()).first(split), right = std::span(x.shape()).subspan(split);
  Shape shape(right.begin(), right.end());
  shape.insert(shape.end(), left.begin(), left.end());
  const Value matrix = c.reshape(x, {element_count(left), element_count(right)});
  return c.reshape(checked(c, inverse_of(c, matrix)), shape);
}

AtenArg tensorsolve(AtenCall& c) {
  const Value right = c.tensor("other");
  Value a = c.tensor();
  if (c.given("dims")) {
    std::vector<int64_t> last = c.ints("dims");
    for (int64_t& dim : last) dim = normalize_dim(dim, a.rank());
    std::vector<int64_t> order = other_dims(a.rank(), last);
    order.insert(order.end(), last.begin(), last.end());
    a = c.permute(a, order);
  }
  const Shape shape(a.shape().begin() + right.rank(), a.shape().end());
  const Value matrix = c.reshape(a, {element_count(right.shape()), element_count(shape)});
  check_square(c, matrix);
  const Lu found = lu_of(c, matrix);
  const Value x = solve(c, found, c.reshape(right, {element_count(right.shape()), 1}), false);
  return c.reshape(checked(c, {x, found.info, kSingular}), shape);
}

Value product_of_last(Builder& b, Value x) { return b.op("prod", {x}, {{"dims", std::vector<int64_t>{-1}}}); }

// -1 for an odd number of exchanges.
Value sign_of_permutation(Builder& b, Value pivots, DType dtype) {
  const Value own = b.cast(b.iota(pivots.shape().back()) + 1, DType::kI32);
  const Value moved = b.compare("ne", pivots, own);
  return product_of_last(b, b.where(moved, b.scalar(-1, dtype), b.scalar(1, dtype)));
}

Value det(AtenCall& c, Value a) {
  check_square(c, a);
  const Lu found = lu_of(c, a);
  return sign_of_permutation(c, found.pivots, a.dtype()) * product_of_last(c, diagonal_of(c, found.factors));
}

// The sign, and the logarithm of the absolute value.
std::vector<Value> slogdet(AtenCall& c, Value a) {
  check_square(c, a);
  const Lu found = lu_of(c, a);
  const Value diagonal = diagonal_of(c, found.factors);
  const Value sign = sign_of_permutation(c, found.pivots, a.dtype()) * product_of_last(c, c.sign(diagonal));
  return {sign, c.sum(c.log(c.abs(diagonal)), {-1})};
}

AtenArg logdet(AtenCall& c) {
  const std::vector<Value> found = slogdet(c, c.tensor());
  return c.log(found[0]) + found[1];
}

void add_solution_entries(AtenTable& table) {
  table.add("aten.linalg_solve.default(A, B, *, left=True)", checked(solution_of));
  table.add("aten.linalg_solve_ex.default(A, B, *, left=True, check_errors=False)", with_info(solution_of));
  table.add("aten.linalg_inv.default(A)", checked(inverse));
  table.add("aten.inverse.default(self)", checked(inverse));
  table.add("aten.linalg_inv_ex.default(A, *, check_errors=False)", with_info(inverse));
  table.add("aten.linalg_tensorinv.default(self, ind=2)", tensorinv);
  table.add("aten.linalg_tensorsolve.default(self, other, dims=None)", tensorsolve);
  table.add("aten.linalg_det.default(A)", [](AtenCall& c) { return det(c, c.tensor("A")); });
  table.add("aten.det.default(self)", [](AtenCall& c) { return det(c, c.tensor()); });
  table.add("aten.linalg_slogdet.default(A)", [](AtenCall& c) { return slogdet(c, c.tensor("A")); });
  table.add("aten.slogdet.default(self)", [](AtenCall& c) { return slogdet(c, c.tensor()); });
  table.add("aten.logdet.default(self)", logdet);
}

// ---- QR -------------------------------------------------------------------------------------------------------------

// The whole orthogonal matrix that reflections make.
Value whole_product(Builder& b, Value reflectors, Value tau) {
  const Expr& count = tau.shape().back();
  const Value used = first_columns(b, reflectors, count);
  std::vector<Expr> low(static_cast<size_t>(used.rank()), 0), high = low;
  high.back() = rows_of(used) - count;
  return b.op("householder_product", {b.pad(used, low, high), tau});
}

AtenArg qr(AtenCall& c) {
  const std::string mode = c.string("mode");
  const std::vector<Value> found = c.results("geqrf", {c.tensor("A")});
  const Value a = found[0], tau = found[1];
  const Expr& count = tau.shape().back();
  if (mode == "complete") return std::vector<Value>{whole_product(c, a, tau), upper_of(c, a)};
  const Value upper = upper_of(c, first_rows(c, a, count));
  if (mode == "r") return std::vector<Value>{nothing(c, a.dtype()), upper};
  if (mode != "reduced") fail("linalg.qr: mode must be reduced, complete or r, got {}", mode);
  return std::vector<Value>{c.op("householder_product", {first_columns(c, a, count), tau}), upper};
}

AtenArg ormqr(AtenCall& c) {
  const Value whole = whole_product(c, c.tensor(), c.tensor("input2")), other = c.tensor("input3");
  const Value factor = c.flag("transpose") ? transposed(c, whole) : whole;
  return c.flag("left") ? c.matmul(factor, other) : c.matmul(other, factor);
}

void add_qr_entries(AtenTable& table) {
  table.add(R"(aten.linalg_qr.default(A, mode="reduced"))", qr);
  table.op("aten.geqrf.default(self)", "geqrf");
  table.op("aten.linalg_householder_product.default(input, tau)", "householder_product");
  table.add("aten.ormqr.default(self, input2, input3, left=True, transpose=False)", ormqr);
}

// ---- spectra --------------------------------------------------------------------------------------------------------

AtenArg eigh(AtenCall& c) {
  const std::string triangle = c.string("UPLO");
  if (triangle != "L" && triangle != "U") fail("linalg.eigh: UPLO must be L or U, got {}", triangle);
  const Value a = c.tensor("A");
  std::vector<Value> found = c.results("eigh", {triangle == "L" ? a : transposed(c, a)});
  if (!c.flag("compute_v")) found[1] = nothing(c, a.dtype());
  return found;
}

// Orthonormal columns, and those that complete them to a basis.
Value completed(Builder& b, Value columns) {
  const std::vector<Value> found = b.results("geqrf", {columns});
  const Value basis = whole_product(b, found[0], found[1]);
  return b.concat({columns, b.slice(basis, -1, columns_of(columns), rows_of(columns))}, -1);
}

AtenArg svd(AtenCall& c) {
  std::vector<Value> found = c.results("svd", {c.tensor("A")});
  if (!c.flag("compute_uv")) found[0] = found[2] = nothing(c, found[1].dtype());
  if (!c.flag("compute_uv") || !c.flag("full_matrices")) return found;
  return std::vector<Value>{completed(c, found[0]), found[1], transposed(c, completed(c, transposed(c, found[2])))};
}

double epsilon_of(DType dtype) {
  return dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                              : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// Singular values up to the tolerance count as zero. Without rtol it is the rounding error, unless atol is positive.
Value tolerance(AtenCall& c, Value x, Value largest) {
  const Value atol = c.given("atol") ? c.tensor("atol") : c.scalar(0, x.dtype());
  Value rtol = c.tensor_or_none("rtol");
  if (!rtol) {
    const Value rounding = c.full(Attr(max(rows_of(x), columns_of(x))), {}, x.dtype()) * epsilon_of(x.dtype());
    rtol = c.given("atol") ? c.where(c.compare("gt", atol, 0), c.scalar(0, x.dtype()), rounding) : rounding;
  }
  return c.maximum(c.unsqueeze(atol, -1), c.op("mul", {c.unsqueeze(rtol, -1), largest}));
}

AtenArg pinv(AtenCall& c) {
  const Value x = c.tensor();
  Shape shape(x.shape());
  std::swap(shape.at(shape.size() - 1), shape.at(shape.size() - 2));
  if (element_count(shape).is_constant(0)) return c.full(Expr(0), shape, x.dtype());
  Value left, values, right;
  if (c.flag("hermitian")) {
    const std::vector<Value> found = c.results("eigh", {x});
    values = found[0], left = right = found[1];
  } else {
    const std::vector<Value> found = c.results("svd", {x});
    left = found[0], values = found[1], right = transposed(c, found[2]);
  }
  const Value sizes = c.abs(values);
  const Value counts = c.compare("gt", sizes, tolerance(c, x, c.amax(sizes, {-1}, true)));
  const Value inverted = c.where(counts, c.unary("reciprocal", values), c.scalar(0, values.dtype()));
  return c.matmul(right * c.unsqueeze(inverted, -2), transposed(c, left));
}

void add_spectrum_entries(AtenTable& table) {
  table.add(R"(aten._linalg_eigh.default(A, UPLO="L", compute_v=True))", eigh);
  table.add("aten._linalg_svd.default(A, full_matrices=False, compute_uv=True, *, driver=None)", svd);
  table.add("aten.linalg_pinv.atol_rtol_tensor(self, *, atol=None, rtol=None, hermitian=False)", pinv);
  table.add("aten.linalg_matrix_exp.default(self)",
            [](AtenCall& c) { return c.cast(c.op("matrix_exp", {to_wide(c, c.tensor())}), c.tensor().dtype()); });
}

}  // namespace

void add_linalg_entries(AtenTable& table) {
  for (const auto add :
       {add_triangle_entries, add_lu_entries, add_solution_entries, add_qr_entries, add_spectrum_entries})
    add(table);
}

}  // namespace tenon::aten
