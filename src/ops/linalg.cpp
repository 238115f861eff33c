// Factors of matrices, and what follows from them: the primitives of linear algebra. Determinants, inverses, systems of
// equations, norms and the like are made of them where PyTorch's calls are read (src/capture/aten/linalg.cpp).
//
// The references are the functions of the runtime. Another implementation would round in another way, and choose other
// vectors of equal values; PyTorch's results, by LAPACK, are what these are tested with.
#include "graph/library_call.h"
#include "ops/common.h"

namespace tenon::ops {
namespace {

constexpr DTypeSet kReals = DType::kF64 | DType::kF32;

// ---- types ----------------------------------------------------------------------------------------------------------

const Expr& rows_of(const TensorType& x) { return x.size(x.rank() - 2); }
const Expr& columns_of(const TensorType& x) { return x.size(x.rank() - 1); }

const TensorType& matrices(const InferContext& c, size_t operand = 0) {
  const TensorType& x = c.type(operand);
  if (x.rank() >= 2) return x;
  fail("{}: operand '{}' must be a batch of matrices, got {}", c.op().name.get(), c.op().operands.get()[operand].name,
       to_string(x));
}

const TensorType& squares(const InferContext& c, size_t operand = 0) {
  const TensorType& x = matrices(c, operand);
  if (c.facts().equal(rows_of(x), columns_of(x))) return x;
  fail("{}: operand '{}' must be a batch of square matrices, got {}", c.op().name.get(),
       c.op().operands.get()[operand].name, to_string(x));
}

Shape batch_shape(const TensorType& x) { return {x.shape.begin(), x.shape.end() - 2}; }

Shape in_batch(const TensorType& x, std::initializer_list<Expr> sizes) {
  Shape shape = batch_shape(x);
  shape.insert(shape.end(), sizes);
  return shape;
}

Expr shorter(const InferContext& c, const TensorType& x) { return c.facts().min(rows_of(x), columns_of(x)); }

void check_batch(const InferContext& c, std::span<const Expr> batch, size_t operand) {
  const std::span<const Expr> other = c.type(operand).shape;
  if (other.size() >= batch.size() && c.facts().equal(batch, other.first(batch.size()))) return;
  fail("{}: operand '{}' must have the batch {}, got {}", c.op().name.get(), c.op().operands.get()[operand].name,
       to_string(batch), to_string(c.type(operand)));
}

// ---- records: the runtime has a function for each op ----------------------------------------------------------------

struct MatrixFunction {
  std::string_view name, doc;
  std::vector<OperandDef> operands = {{"x", kReals}};
  std::vector<AttrDef> attrs = {};
  std::vector<std::string_view> results = {"out"};
  InferFn infer;
  std::string_view torch;
  Samples samples;
  Domain domain = {};
  bool special_values = false;
};

OpDef library_op(const MatrixFunction& f) {
  return {.name = f.name,
          .family = "linalg",
          .doc = f.doc,
          .operands = f.operands,
          .attrs = f.attrs,
          .results = f.results,
          .infer = f.infer,
          .semantics = reference(run_library_function),
          .gradient = NotDifferentiable{},
          .loops = LibraryTask{},
          .peer = torch_is(f.torch),
          .samples = f.samples,
          .domain = f.domain,
          .special_values = f.special_values};
}

// ---- triangular factors ---------------------------------------------------------------------------------------------

const OpDef kCholesky = library_op({
    .name = "cholesky",
    .doc =
        "The lower triangular factor L of symmetric matrices L L', of which the lower triangle is read. `info` is 0; "
        "or the order of the first leading minor that is not positive, and the factor is NaN.",
    .results = {"out", "info"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = squares(c);
      return {x, {DType::kI32, batch_shape(x)}};
    },
    .torch = "(lambda r: (r[0].where(r[1][..., None, None] == 0, math.nan), r[1]))(torch.linalg.cholesky_ex(x))",
    .samples = {"T[1, 1]", "T[20, 2, 2]", "T[3, 7, 3, 3]", "T[0, 0]", "T[0, 2, 2]", "T[2, 2]"},
    .domain = {0, 3},
});

const OpDef kLu = library_op({
    .name = "lu",
    .doc = "P A = L U with partial pivoting: L, whose diagonal is 1, and U in one matrix; pivots, where row i was "
           "exchanged with row pivots[i], counting from 1; and the number of the first pivot that is zero, else 0.",
    .results = {"lu", "pivots", "info"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = matrices(c);
      return {x, {DType::kI32, in_batch(x, {shorter(c, x)})}, {DType::kI32, batch_shape(x)}};
    },
    .torch = "torch.linalg.lu_factor_ex(x)",
    .samples = {"T[3, 3]", "T[2, 4, 3]", "T[2, 3, 5]", "T[2, 2, 1, 1]", "T[0, 0]", "T[3, 0]", "T[0, 2, 2]"},
});

const OpDef kPivotsToPermutation = library_op({
    .name = "pivots_to_permutation",
    .doc = "The order in which the exchanges of `lu` leave rows: row i of P A is row out[i] of A.",
    .operands = {{"pivots", DType::kI32}},
    .attrs = {{"rows", AttrKind::kExpr, "how many rows there are"}},
    .infer = [](InferContext& c) -> Types {
      Shape shape = c.type(0).shape;
      if (shape.empty()) fail("pivots_to_permutation: operand 'pivots' must have a dimension");
      if (!c.facts().less_equal(shape.back(), c.expr("rows"))) {
        fail("pivots_to_permutation: {} pivots are not known to be at most {} rows", shape.back(), c.expr("rows"));
      }
      shape.back() = c.expr("rows");
      return {{DType::kI64, shape}};
    },
    .torch =
        "torch.lu_unpack(pivots.new_zeros(*pivots.shape[:-1], rows, pivots.shape[-1]).float(), pivots)[0].argmax(-2)",
    .samples = {"i32[3] in 3..3; rows=3", "i32[2, 2] in 2..4; rows=4", "i32[5, 1] in 1..3; rows=3"},
    .special_values = true,
});

const OpDef kTriangularSolve = library_op({
    .name = "triangular_solve",
    .doc = "X of A X = B, where A is triangular: the other triangle of A is not read. A zero on the diagonal gives "
           "infinities or NaN.",
    .operands = {{"a", kReals}, {"b", kReals}},
    .attrs = {{"upper", AttrKind::kBool, "whether A is upper triangular; else lower"},
              {"unitriangular", AttrKind::kBool, "the diagonal is 1, and is not read", Attr(false)}},
    .infer = [](InferContext& c) -> Types {
      const TensorType &a = squares(c), &b = matrices(c, 1);
      check_batch(c, std::span<const Expr>(a.shape).first(a.shape.size() - 1), 1);
      if (a.rank() == b.rank() && a.dtype == b.dtype) return {b};
      fail("triangular_solve: {} and {} must have the same dtype and rank", to_string(a), to_string(b));
    },
    .torch = "torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unitriangular)",
    .samples = {"T[3, 3], T[3, 2]; upper=false", "T[3, 3], T[3, 4]; upper=true",
                "T[2, 4, 4], T[2, 4, 1]; upper=false, unitriangular=true",
                "T[2, 2, 2], T[2, 2, 3]; upper=true, unitriangular=true", "T[0, 0], T[0, 3]; upper=true",
                "T[1, 1], T[1, 0]; upper=false"},
    .domain = {1, 2},
});

// ---- orthogonal factors ---------------------------------------------------------------------------------------------

const OpDef kGeqrf = library_op({
    .name = "geqrf",
    .doc =
        "A = Q R: R in the upper triangle and, below it, the vectors of the reflections I - tau v v' whose product is "
        "Q. A vector begins with a 1 that is not stored.",
    .results = {"a", "tau"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = matrices(c);
      return {x, {x.dtype, in_batch(x, {shorter(c, x)})}};
    },
    .torch = "torch.geqrf(x)",
    .samples = {"T[3, 4, 3]", "T[2, 3, 5]", "T[2, 2, 3, 3]", "T[1, 1]", "T[0, 0]", "T[2, 3, 0]", "T[0, 2, 2]"},
});

const OpDef kHouseholderProduct = library_op({
    .name = "householder_product",
    .doc = "The first columns of the product of reflections, as `geqrf` gives them: as many columns as `a` has.",
    .operands = {{"a", kReals}, {"tau", kReals}},
    .infer = [](InferContext& c) -> Types {
      const TensorType &a = matrices(c), &tau = c.type(1);
      check_batch(c, std::span<const Expr>(a.shape).first(a.shape.size() - 2), 1);
      const bool fits = tau.rank() == a.rank() - 1 && tau.dtype == a.dtype &&
                        c.facts().less_equal(tau.shape.back(), columns_of(a)) &&
                        c.facts().less_equal(columns_of(a), rows_of(a));
      if (fits) return {a};
      fail(
          "householder_product: the reflections must be at most the columns, and these at most the rows, got {} and {}",
          to_string(a), to_string(tau));
    },
    .torch = "torch.linalg.householder_product(a, tau)",
    .samples = {"T[3, 3], T[3]", "T[2, 4, 3], T[2, 3]", "T[2, 4, 3], T[2, 1]", "T[1, 1], T[1]", "T[2, 3, 0], T[2, 0]"},
});

// ---- spectra --------------------------------------------------------------------------------------------------------

const OpDef kEigh = library_op({
    .name = "eigh",
    .doc = "Eigenvalues of symmetric matrices, upwards, and eigenvectors in columns. The lower triangle is read. The "
           "largest component of a vector is positive. NaN and infinities are a run-time error.",
    .results = {"values", "vectors"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = squares(c);
      return {{x.dtype, in_batch(x, {rows_of(x)})}, x};
    },
    .torch = "(lambda w, v: (w, v * v.gather(-2, v.abs().argmax(-2, keepdim=True)).sign()))"
             "(*torch.linalg.eigh(x))",
    .samples = {"T[3, 3]", "T[4, 2, 2]", "T[2, 3, 5, 5]", "T[1, 1]", "T[2, 8, 8]", "T[0, 2, 2]"},
});

const OpDef kSvd = library_op({
    .name = "svd",
    .doc =
        "A = U S V': singular values downwards, as many as the shorter side has, and their vectors, in columns of U "
        "and rows of V'. The largest component of each row of V' is positive. NaN and infinities are a run-time error.",
    .results = {"u", "s", "vh"},
    .infer = [](InferContext& c) -> Types {
      const TensorType& x = matrices(c);
      const Expr count = shorter(c, x);
      return {{x.dtype, in_batch(x, {rows_of(x), count})},
              {x.dtype, in_batch(x, {count})},
              {x.dtype, in_batch(x, {count, columns_of(x)})}};
    },
    .torch = "(lambda u, s, v, f: (u * f.mT, s, v * f))(*(r := torch.linalg.svd(x, full_matrices=False)), "
             "r[2].gather(-1, r[2].abs().argmax(-1, keepdim=True)).sign())",
    .samples = {"T[2, 3, 3]", "T[3, 5, 2]", "T[2, 2, 3, 4]", "T[1, 1]", "T[2, 8, 8]", "T[2, 0, 3]"},
});

const OpDef kMatrixExp = library_op({
    .name = "matrix_exp",
    .doc = "The sum of A^k / k! over all k from 0.",
    .infer = [](InferContext& c) -> Types { return {squares(c)}; },
    .torch = "torch.linalg.matrix_exp(x)",
    .samples = {"T[3, 3]", "T[4, 2, 2]", "T[2, 3, 4, 4]", "T[1, 1]", "T[0, 0]", "T[0, 2, 2]"},
    .domain = {-1, 1},
});

// ---- failure --------------------------------------------------------------------------------------------------------

const OpDef kRequireZero{
    .name = "require_zero",
    .family = "linalg",
    .doc =
        "x unchanged if every number of `info` is 0; otherwise a run-time error that names the first nonzero number.",
    .operands = std::vector<OperandDef>{{"x"}, {"info", DType::kI32}},
    .attrs = {{"message", AttrKind::kString, "what a nonzero number means: \"is singular\", said of its matrix"}},
    .infer = [](InferContext& c) -> Types { return {c.type(0)}; },
    .semantics = reference(run_library_function),
    .gradient = gradient([](GradContext& g) -> std::vector<Value> { return {g.dout(), {}}; }),
    .loops = LibraryTask{},
    .peer = torch_is("x"),
    .samples = Samples{R"(T[3, 2, 2], i32[3] in 0..0; message="is singular")",
                       R"(T[4], i32[] in 0..0; message="is odd")", R"(T[0], i32[0] in 0..0; message="is odd")"},
};

}  // namespace

OpRefs linalg_ops() {
  return {&kCholesky, &kLu,  &kPivotsToPermutation, &kTriangularSolve, &kGeqrf, &kHouseholderProduct,
          &kEigh,     &kSvd, &kMatrixExp,           &kRequireZero};
}

}  // namespace tenon::ops
