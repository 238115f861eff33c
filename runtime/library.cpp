#include "runtime/library.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "runtime/elements.h"
#include "runtime/error.h"
#include "runtime/kernels/parallel.h"
#include "runtime/library_sizes.h"

namespace tenon::runtime {
namespace {

// ---- what calls share -----------------------------------------------------------------------------------------------

constexpr int64_t kMostElements = int64_t{1} << 48;  // no machine has more, and products of a few sizes stay exact

void check_view(const TensorView& view, std::string_view name) {
  if (tenon_dtype_size(view.dtype) == 0) fail(TENON_BAD_FILE, name, ": a tensor has an unknown dtype");
  check_sizes(view, name);
  if (element_count(view) > 0 && view.data == nullptr) fail(TENON_BAD_FILE, name, ": a tensor has no memory");
}

bool is_joined(Sizes shape, Sizes before, std::initializer_list<int64_t> middle, Sizes after) {
  return shape.size() == before.size() + middle.size() + after.size() &&
         std::ranges::equal(shape.first(before.size()), before) &&
         std::equal(middle.begin(), middle.end(), shape.begin() + static_cast<ptrdiff_t>(before.size())) &&
         std::ranges::equal(shape.last(after.size()), after);
}

// A call, with the rules of its function.
class Call {
 public:
  Call(LibraryCall& call, std::string_view name) : call_(call), name_(name) {}

  const TensorView& in(size_t i = 0) const { return call_.inputs[i]; }
  const TensorView& out(size_t i = 0) const { return call_.outputs[i]; }
  int64_t number(size_t i) const { return call_.numbers[i]; }
  const tenon_services* services() const { return call_.services; }
  std::string_view name() const { return name_; }

  bool flag(size_t i) const {
    if (number(i) != 0 && number(i) != 1) fail(TENON_BAD_FILE, name_, ": ", number(i), " is neither true nor false");
    return number(i) != 0;
  }

  // A dimension of a tensor, from 0; a scalar counts as having one.
  size_t dim(size_t i, Sizes shape) const {
    const auto rank = static_cast<int64_t>(std::max<size_t>(shape.size(), 1));
    if (number(i) < -rank || number(i) >= rank) {
      fail(TENON_BAD_FILE, name_, ": dimension ", number(i), " of a tensor of rank ", shape.size());
    }
    return static_cast<size_t>(number(i) < 0 ? number(i) + rank : number(i));
  }

  void expect(const TensorView& view, tenon_dtype dtype, Sizes before, std::initializer_list<int64_t> middle = {},
              Sizes after = {}) const {
    require(view.dtype == dtype && is_joined(view.shape, before, middle, after), view);
  }

  void require(bool fits, const TensorView& view) const {
    if (fits) return;
    fail(TENON_BAD_FILE, name_, ": ", tenon_dtype_name(view.dtype), view.shape,
         " does not fit the function, or the other tensors of the call, of which the first is ",
         tenon_dtype_name(in().dtype), in().shape);
  }

  void check_memory(int64_t error) const {
    if (error != 0) fail(TENON_OUT_OF_MEMORY, name_, ": there is no memory for its scratch");
  }

 private:
  LibraryCall& call_;
  std::string_view name_;
};

int64_t* integers(const TensorView& view) { return static_cast<int64_t*>(view.data); }
int32_t* narrow_integers(const TensorView& view) { return static_cast<int32_t*>(view.data); }

// ---- order ----------------------------------------------------------------------------------------------------------

void sort(LibraryCall& arguments) {  // dim, descending
  const Call c(arguments, "sort");
  const TensorView& x = c.in();
  c.expect(c.out(0), x.dtype, x.shape);
  c.expect(c.out(1), TENON_I64, x.shape);
  const tenon_lines lines = lines_of(x.shape, c.dim(0, x.shape));
  const bool descending = c.flag(1);
  if (element_count(x) == 0) return;
  c.check_memory(tenon_sort(c.services(), x.dtype, lines, descending, x.data, c.out(0).data, integers(c.out(1))));
}

void argsort(LibraryCall& arguments) {  // dim, descending
  const Call c(arguments, "argsort");
  const TensorView& x = c.in();
  c.expect(c.out(), TENON_I64, x.shape);
  const tenon_lines lines = lines_of(x.shape, c.dim(0, x.shape));
  const bool descending = c.flag(1);
  if (element_count(x) == 0) return;
  c.check_memory(tenon_sort(c.services(), x.dtype, lines, descending, x.data, nullptr, integers(c.out())));
}

void check_rank(const Call& c, int64_t k, int64_t low, int64_t length) {
  if (k < low || k > length) fail(TENON_RUN_FAILED, c.name(), ": k = ", k, " is not in [", low, ", ", length, "]");
}

void topk(LibraryCall& arguments) {  // k, dim, largest, sorted
  const Call c(arguments, "topk");
  const TensorView& x = c.in();
  const int64_t k = c.number(0);
  const size_t dim = c.dim(1, x.shape);
  const bool largest = c.flag(2);
  const tenon_lines lines = lines_of(x.shape, dim);
  check_rank(c, k, x.shape.empty() ? 1 : 0, lines.length);
  for (const auto& [i, dtype] : {std::pair(0, x.dtype), std::pair(1, TENON_I64)}) {
    if (x.shape.empty()) c.expect(c.out(i), dtype, {});
    if (!x.shape.empty()) c.expect(c.out(i), dtype, x.shape.first(dim), {k}, x.shape.subspan(dim + 1));
  }
  if (element_count(c.out()) == 0) return;
  c.check_memory(tenon_topk(c.services(), x.dtype, lines, k, largest, x.data, c.out(0).data, integers(c.out(1))));
}

void kthvalue(LibraryCall& arguments) {  // k, dim, keepdim
  const Call c(arguments, "kthvalue");
  const TensorView& x = c.in();
  const int64_t k = c.number(0);
  const size_t dim = c.dim(1, x.shape);
  const bool keeps = c.flag(2);
  const tenon_lines lines = lines_of(x.shape, dim);
  check_rank(c, k, 1, lines.length);
  for (const auto& [i, dtype] : {std::pair(0, x.dtype), std::pair(1, TENON_I64)}) {
    if (x.shape.empty()) {
      c.expect(c.out(i), dtype, {});
    } else if (keeps) {
      c.expect(c.out(i), dtype, x.shape.first(dim), {1}, x.shape.subspan(dim + 1));
    } else {
      c.expect(c.out(i), dtype, x.shape.first(dim), {}, x.shape.subspan(dim + 1));
    }
  }
  if (element_count(c.out()) == 0) return;
  c.check_memory(tenon_kthvalue(c.services(), x.dtype, lines, k, x.data, c.out(0).data, integers(c.out(1))));
}

void nonzero(LibraryCall& arguments) {  // count, or kAnyCount
  const Call c(arguments, "nonzero");
  const TensorView& x = c.in();
  int64_t starts[TENON_NONZERO_PARTS];
  const int64_t found = tenon_nonzero_count(c.services(), x.dtype, element_count(x), x.data, starts);
  if (c.number(0) != kAnyCount && c.number(0) != found) {
    fail(TENON_RUN_FAILED, found, " elements are not zero, where ", c.number(0), " are expected");
  }
  const std::array shape = {found, static_cast<int64_t>(x.shape.size())};
  TensorView& out = arguments.outputs[0];
  out = arguments.make_output(arguments.context, 0, shape);
  c.expect(out, TENON_I64, shape);
  if (found == 0) return;
  tenon_nonzero_write(c.services(), x.dtype, x.shape.data(), shape[1], x.data, starts, integers(out));
}

void searchsorted(LibraryCall& arguments) {  // right
  const Call c(arguments, "searchsorted");
  const TensorView &sequence = c.in(0), &values = c.in(1);
  c.require(!sequence.shape.empty(), sequence);
  const Sizes lines = sequence.shape.first(sequence.shape.size() - 1);
  const Sizes last = values.shape.last(values.shape.empty() ? 0 : 1);
  c.expect(values, sequence.dtype, lines.empty() ? values.shape : lines, {}, lines.empty() ? lines : last);
  c.expect(c.out(), TENON_I64, values.shape);
  const bool right = c.flag(0);
  const int64_t size = element_count(values), count = product(lines);
  if (size == 0) return;
  tenon_searchsorted(c.services(), sequence.dtype, {count, sequence.shape.back(), size / count}, right, sequence.data,
                     values.data, integers(c.out()));
}

void bincount(LibraryCall& arguments) {  // minlength, count or kAnyCount
  const Call c(arguments, "bincount");
  const TensorView& x = c.in();
  const int64_t size = element_count(x), minlength = c.number(0);
  c.require(x.shape.size() == 1 && !is_float(x.dtype), x);
  int64_t least = 0, most = 0;
  if (size > 0) tenon_integer_range(x.dtype, size, x.data, &least, &most);
  if (least < 0) fail(TENON_RUN_FAILED, "bincount: ", least, " is among the integers: they must not be negative");
  if (std::max(most, minlength) >= kMostElements || minlength < 0) {
    fail(TENON_RUN_FAILED, "bincount: ", std::max(most, minlength), " is too large: each integer up to it has a count");
  }
  const int64_t bins = std::max(size > 0 ? most + 1 : 0, minlength);
  if (c.number(1) != kAnyCount && c.number(1) != bins) {
    fail(TENON_RUN_FAILED, "bincount: there are ", bins, " counts, where ", c.number(1), " are expected");
  }
  TensorView& out = arguments.outputs[0];
  out = arguments.make_output(arguments.context, 0, {&bins, 1});
  c.expect(out, TENON_I64, {&bins, 1});
  tenon_bincount(x.dtype, size, x.data, bins, integers(out));
}

// ---- products by groups ---------------------------------------------------------------------------------------------

// The end of each group, and the sizes of x and w: matrices of one floating-point dtype. An offset that is below an
// earlier one, or past the last row, counts as the nearest valid end.
class Groups {
 public:
  explicit Groups(const Call& c) : ends_(c.services(), element_count(c.in(2)) + 1) {
    const TensorView &x = c.in(0), &offsets = c.in(2);
    c.require(x.shape.size() == 2 && is_float(x.dtype), x);
    c.require(offsets.shape.size() == 1 && (offsets.dtype == TENON_I32 || offsets.dtype == TENON_I64), offsets);
    c.check_memory(ends_.get() ? 0 : kTenonOutOfMemory);
    int64_t end = 0;
    for (int64_t i = 0; i < offsets.shape[0]; ++i) {
      const int64_t offset = offsets.dtype == TENON_I64 ? integers(offsets)[i] : narrow_integers(offsets)[i];
      ends_.get()[i] = end = std::clamp(offset, end, x.shape[0]);
    }
    groups_ = {offsets.shape[0], x.shape[0], ends_.get()};
  }

  const tenon_groups& get() const { return groups_; }

 private:
  ScratchArray<int64_t> ends_;
  tenon_groups groups_;
};

void grouped_matmul(LibraryCall& arguments) {  // transposed
  const Call c(arguments, "grouped_matmul");
  const TensorView &x = c.in(0), &w = c.in(1);
  const Groups groups(c);
  const bool transposed = c.flag(0);
  c.require(w.shape.size() == 3, w);
  const int64_t depth = x.shape[1], columns = w.shape[transposed ? 1 : 2];
  c.expect(w, x.dtype, {}, {groups.get().count, transposed ? columns : depth, transposed ? depth : columns});
  c.expect(c.out(), x.dtype, {}, {x.shape[0], columns});
  if (element_count(c.out()) == 0) return;
  c.check_memory(tenon_grouped_matmul(c.services(), x.dtype, groups.get(), depth, columns, transposed, x.data, w.data,
                                      c.out().data));
}

void grouped_outer(LibraryCall& arguments) {
  const Call c(arguments, "grouped_outer");
  const TensorView &x = c.in(0), &y = c.in(1);
  const Groups groups(c);
  c.require(y.shape.size() == 2, y);
  const int64_t rows = x.shape[1], columns = y.shape[1];
  c.expect(y, x.dtype, {}, {x.shape[0], columns});
  c.expect(c.out(), x.dtype, {}, {groups.get().count, rows, columns});
  if (element_count(c.out()) == 0) return;
  c.check_memory(tenon_grouped_outer(c.services(), x.dtype, groups.get(), rows, columns, x.data, y.data, c.out().data));
}

// ---- random ---------------------------------------------------------------------------------------------------------

const int64_t* key_of(const Call& c) {
  const int64_t two[] = {2};
  c.expect(c.in(), TENON_I64, two);
  return integers(c.in());
}

void philox(LibraryCall& arguments) {
  const Call c(arguments, "philox");
  const int64_t* const key = key_of(c);
  c.expect(c.out(), TENON_I64, c.out().shape);
  tenon_philox(c.services(), key, element_count(c.out()), integers(c.out()));
}

void uniform(LibraryCall& arguments) {
  const Call c(arguments, "uniform");
  const int64_t* const key = key_of(c);
  c.require(is_float(c.out().dtype), c.out());
  tenon_uniform(c.services(), c.out().dtype, key, element_count(c.out()), c.out().data);
}

// Calls fill(i64 array) -> error, and converts the result to the dtype of the output.
template <class Fill>
void fill_integers(const Call& c, Fill fill) {
  if (element_count(c.out()) == 0) return;
  if (c.out().dtype == TENON_I64) return c.check_memory(fill(integers(c.out())));
  const ScratchArray<int64_t> result(c.services(), element_count(c.out()));
  c.check_memory(result.get() ? fill(result.get()) : int64_t{kTenonOutOfMemory});
  const Places to{static_cast<std::byte*>(c.out().data), 0, 1, nullptr};
  store_integers(c.out().dtype, to, element_count(c.out()), result.get(), 1);
}

void randint(LibraryCall& arguments) {  // low, high
  const Call c(arguments, "randint");
  const int64_t* const key = key_of(c);
  int64_t range = 0;
  if (__builtin_sub_overflow(c.number(1), c.number(0), &range) || range < 1) {
    fail(TENON_RUN_FAILED, "randint: low ", c.number(0), " is not less than high ", c.number(1),
         ", or too far from it");
  }
  fill_integers(c, [&](int64_t* to) -> int64_t {
    return tenon_randint(c.services(), key, c.number(0), range, element_count(c.out()), to), 0;
  });
}

void randperm(LibraryCall& arguments) {  // n
  const Call c(arguments, "randperm");
  const int64_t* const key = key_of(c);
  const int64_t n = c.number(0);
  c.expect(c.out(), c.out().dtype, {}, {n});
  fill_integers(c, [&](int64_t* to) -> int64_t {
    const ScratchArray<int64_t> draws(c.services(), n);
    if (!draws.get()) return kTenonOutOfMemory;
    tenon_randint(c.services(), key, 0, int64_t{1} << 59, n, draws.get());
    return tenon_sort(c.services(), TENON_I64, {1, n, 1}, 0, draws.get(), nullptr, to);
  });
}

// ---- matrices -------------------------------------------------------------------------------------------------------

// A batch of matrices of f32 or f64.
struct Matrices {
  Sizes batch;
  tenon_dtype dtype;
  tenon_matrices shape;
  int64_t shorter;

  Matrices(const Call& c, const TensorView& x) : dtype(x.dtype) {
    c.require(x.shape.size() >= 2 && (dtype == TENON_F32 || dtype == TENON_F64), x);
    batch = x.shape.first(x.shape.size() - 2);
    shape = matrices_of(x.shape);
    shorter = std::min(shape.rows, shape.columns);
  }
};

Matrices squares(const Call& c, const TensorView& x) {
  const Matrices m(c, x);
  c.require(m.shape.rows == m.shape.columns, x);
  return m;
}

void cholesky(LibraryCall& arguments) {
  const Call c(arguments, "cholesky");
  const Matrices m = squares(c, c.in());
  c.expect(c.out(0), m.dtype, c.in().shape);
  c.expect(c.out(1), TENON_I32, m.batch);
  c.check_memory(tenon_cholesky(c.services(), m.dtype, m.shape.batch, m.shape.rows, c.in().data, c.out(0).data,
                                narrow_integers(c.out(1))));
}

void lu(LibraryCall& arguments) {
  const Call c(arguments, "lu");
  const Matrices m(c, c.in());
  c.expect(c.out(0), m.dtype, c.in().shape);
  c.expect(c.out(1), TENON_I32, m.batch, {m.shorter});
  c.expect(c.out(2), TENON_I32, m.batch);
  c.check_memory(tenon_lu(c.services(), m.dtype, m.shape, c.in().data, c.out(0).data, narrow_integers(c.out(1)),
                          narrow_integers(c.out(2))));
}

void pivots_to_permutation(LibraryCall& arguments) {  // rows
  const Call c(arguments, "pivots_to_permutation");
  const TensorView& pivots = c.in();
  const int64_t rows = c.number(0);
  c.require(!pivots.shape.empty() && pivots.dtype == TENON_I32 && pivots.shape.back() <= rows, pivots);
  const Sizes batch = pivots.shape.first(pivots.shape.size() - 1);
  c.expect(c.out(), TENON_I64, batch, {rows});
  const int64_t error = tenon_pivots_to_permutation(product(batch), pivots.shape.back(), rows, narrow_integers(pivots),
                                                    integers(c.out()));
  if (error != 0) fail(TENON_RUN_FAILED, "pivots_to_permutation: a pivot is not in [1, ", rows, "]");
}

void triangular_solve(LibraryCall& arguments) {  // upper, unitriangular
  const Call c(arguments, "triangular_solve");
  const Matrices a = squares(c, c.in(0)), b(c, c.in(1));
  c.expect(c.in(1), a.dtype, a.batch, {a.shape.rows, b.shape.columns});
  c.expect(c.out(), a.dtype, c.in(1).shape);
  const bool upper = c.flag(0), unitriangular = c.flag(1);
  c.check_memory(tenon_triangular_solve(c.services(), a.dtype, b.shape, upper, unitriangular, c.in(0).data,
                                        c.in(1).data, c.out().data));
}

void geqrf(LibraryCall& arguments) {
  const Call c(arguments, "geqrf");
  const Matrices m(c, c.in());
  c.expect(c.out(0), m.dtype, c.in().shape);
  c.expect(c.out(1), m.dtype, m.batch, {m.shorter});
  c.check_memory(tenon_geqrf(c.services(), m.dtype, m.shape, c.in().data, c.out(0).data, c.out(1).data));
}

void householder_product(LibraryCall& arguments) {
  const Call c(arguments, "householder_product");
  const Matrices a(c, c.in(0));
  const TensorView& tau = c.in(1);
  const int64_t count = tau.shape.empty() ? 0 : tau.shape.back();
  c.expect(tau, a.dtype, a.batch, {count});
  c.expect(c.out(), a.dtype, c.in(0).shape);
  if (count > a.shape.columns || a.shape.columns > a.shape.rows) {
    fail(TENON_RUN_FAILED, "householder_product: ", count, " reflections of ", tenon_dtype_name(c.in(0).dtype),
         c.in(0).shape, " must be at most its columns, and these at most its rows");
  }
  c.check_memory(
      tenon_householder_product(c.services(), a.dtype, a.shape, count, c.in(0).data, tau.data, c.out().data));
}

// Calls compute(info) -> error. `info` has a number for each matrix: 0 if it succeeded.
template <class Compute>
void check_converged(const Call& c, int64_t batch, Compute compute) {
  const ScratchArray<int32_t> info(c.services(), std::max<int64_t>(batch, 1));
  c.check_memory(info.get() ? compute(info.get()) : int64_t{kTenonOutOfMemory});
  const int32_t* const end = info.get() + batch;
  const int32_t* const first =
      std::find_if(static_cast<const int32_t*>(info.get()), end, [](int32_t i) { return i != 0; });
  if (first == end) return;
  fail(TENON_RUN_FAILED, c.name(), ": matrix ", first - info.get(),
       " of the batch has NaN or infinite elements, or its iteration did not converge");
}

void eigh(LibraryCall& arguments) {
  const Call c(arguments, "eigh");
  const Matrices m = squares(c, c.in());
  c.expect(c.out(0), m.dtype, m.batch, {m.shape.rows});
  c.expect(c.out(1), m.dtype, c.in().shape);
  check_converged(c, m.shape.batch, [&](int32_t* info) {
    return tenon_eigh(c.services(), m.dtype, m.shape.batch, m.shape.rows, c.in().data, c.out(0).data, c.out(1).data,
                      info);
  });
}

void svd(LibraryCall& arguments) {
  const Call c(arguments, "svd");
  const Matrices m(c, c.in());
  c.expect(c.out(0), m.dtype, m.batch, {m.shape.rows, m.shorter});
  c.expect(c.out(1), m.dtype, m.batch, {m.shorter});
  c.expect(c.out(2), m.dtype, m.batch, {m.shorter, m.shape.columns});
  check_converged(c, m.shape.batch, [&](int32_t* info) {
    return tenon_svd(c.services(), m.dtype, m.shape, c.in().data, c.out(0).data, c.out(1).data, c.out(2).data, info);
  });
}

void matrix_exp(LibraryCall& arguments) {
  const Call c(arguments, "matrix_exp");
  const Matrices m = squares(c, c.in());
  c.expect(c.out(), m.dtype, c.in().shape);
  c.check_memory(tenon_matrix_exp(c.services(), m.dtype, m.shape.batch, m.shape.rows, c.in().data, c.out().data));
}

void require_zero(LibraryCall& arguments) {  // the text: what a non-zero value means
  const Call c(arguments, "require_zero");
  const TensorView &x = c.in(0), &info = c.in(1);
  c.expect(info, TENON_I32, info.shape);
  c.expect(c.out(), x.dtype, x.shape);
  for (int64_t i = 0; i < element_count(info); ++i) {
    const int32_t value = narrow_integers(info)[i];
    if (value == 0) continue;
    const std::string which = info.shape.empty() ? "the matrix" : text_of("matrix ", i, " of the batch");
    fail(TENON_RUN_FAILED, which, " ", arguments.text, " (info = ", value, ")");
  }
  const size_t bytes = static_cast<size_t>(element_count(x)) * tenon_dtype_size(x.dtype);
  if (bytes > 0) std::memcpy(c.out().data, x.data, bytes);
}

// ---- the table ------------------------------------------------------------------------------------------------------

constexpr LibraryFunction kFunctions[] = {
    // inputs, outputs, numbers, takes_text, makes_output
    {"argsort", 1, 1, 2, false, false, argsort},
    {"bincount", 1, 1, 2, false, true, bincount},
    {"cholesky", 1, 2, 0, false, false, cholesky},
    {"eigh", 1, 2, 0, false, false, eigh},
    {"geqrf", 1, 2, 0, false, false, geqrf},
    {"grouped_matmul", 3, 1, 1, false, false, grouped_matmul},
    {"grouped_outer", 3, 1, 0, false, false, grouped_outer},
    {"householder_product", 2, 1, 0, false, false, householder_product},
    {"kthvalue", 1, 2, 3, false, false, kthvalue},
    {"lu", 1, 3, 0, false, false, lu},
    {"matrix_exp", 1, 1, 0, false, false, matrix_exp},
    {"nonzero", 1, 1, 1, false, true, nonzero},
    {"philox", 1, 1, 0, false, false, philox},
    {"pivots_to_permutation", 1, 1, 1, false, false, pivots_to_permutation},
    {"randint", 1, 1, 2, false, false, randint},
    {"randperm", 1, 1, 1, false, false, randperm},
    {"require_zero", 2, 1, 0, true, false, require_zero},
    {"searchsorted", 2, 1, 1, false, false, searchsorted},
    {"sort", 1, 2, 2, false, false, sort},
    {"svd", 1, 3, 0, false, false, svd},
    {"topk", 1, 2, 4, false, false, topk},
    {"triangular_solve", 2, 1, 2, false, false, triangular_solve},
    {"uniform", 1, 1, 0, false, false, uniform},
};

void check_count(const LibraryFunction& function, size_t given, uint32_t expected, std::string_view what) {
  if (given == expected) return;
  fail(TENON_BAD_FILE, function.name, " takes ", expected, " ", what, ", got ", given);
}

}  // namespace

void check_sizes(const TensorView& view, std::string_view function) {
  int64_t most = 1;
  for (const int64_t size : view.shape) {
    if (size < 0 || size > kMostElements || most > kMostElements / std::max<int64_t>(size, 1)) {
      fail(TENON_BAD_FILE, function, ": a tensor has the sizes ", tenon_dtype_name(view.dtype), view.shape);
    }
    most *= std::max<int64_t>(size, 1);
  }
}

std::span<const LibraryFunction> library_functions() { return kFunctions; }

const LibraryFunction* find_library_function(std::string_view name) {
  const auto* const found = std::ranges::find(kFunctions, name, &LibraryFunction::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

void run(const LibraryFunction& function, LibraryCall& call) {
  check_count(function, call.inputs.size(), function.inputs, "inputs");
  check_count(function, call.outputs.size(), function.outputs, "outputs");
  check_count(function, call.numbers.size(), function.numbers, "numbers");
  for (const TensorView& view : call.inputs) check_view(view, function.name);
  if (!function.makes_output) {
    for (const TensorView& view : call.outputs) check_view(view, function.name);
  }
  function.body(call);
}

}  // namespace tenon::runtime
