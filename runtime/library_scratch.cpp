// The scratch of library functions: their kernels' (kernels.h), and what library.cpp takes itself. A test runs each
// function and compares.
#include <algorithm>

#include "runtime/elements.h"
#include "runtime/library_sizes.h"

namespace tenon::runtime {
namespace {

constexpr auto kInteger = static_cast<int64_t>(sizeof(int64_t));

struct Question {
  std::span<const TensorView> in, out;
  std::span<const int64_t> numbers;
  int64_t threads;

  tenon_lines lines(size_t dim_number) const {
    const Sizes shape = in[0].shape;
    const int64_t rank = std::max<int64_t>(std::ssize(shape), 1), dim = numbers[dim_number];
    return lines_of(shape, static_cast<size_t>(dim < 0 ? dim + rank : dim));
  }
  tenon_matrices matrices(size_t operand = 0) const { return matrices_of(in[operand].shape); }
};

int64_t of_sort(const Question& q) { return tenon_sort_scratch(q.in[0].dtype, q.lines(0), q.threads); }

int64_t of_selection(const Question& q) {
  const tenon_lines lines = q.lines(1);
  return tenon_select_scratch(q.in[0].dtype, lines, std::clamp<int64_t>(q.numbers[0], 0, lines.length), q.threads);
}

// The ends of the groups are copied.
int64_t of_groups(const Question& q, bool is_outer) {
  const Sizes x = q.in[0].shape;
  const int64_t groups = q.in[2].shape[0];
  return (groups + 1) * kInteger +
         tenon_grouped_scratch(q.in[0].dtype, groups, x[0], x[1], is_outer ? 1 : 0, q.threads);
}

// Other integers than i64 are converted from it.
int64_t of_integers(const Question& q) { return q.out[0].dtype == TENON_I64 ? 0 : element_count(q.out[0]) * kInteger; }

int64_t of_permutation(const Question& q) {
  const int64_t count = element_count(q.out[0]);
  return of_integers(q) + count * kInteger + tenon_sort_scratch(TENON_I64, {1, count, 1}, q.threads);
}

// One error for each matrix.
int64_t of_errors(const tenon_matrices& shape) {
  return std::max<int64_t>(shape.batch, 1) * static_cast<int64_t>(sizeof(int32_t));
}

struct Row {
  std::string_view name;
  int64_t (*bytes)(const Question& q);
};

constexpr Row kRows[] = {
    {"argsort", of_sort},
    {"cholesky",
     [](const Question& q) { return tenon_cholesky_scratch(q.matrices().batch, q.matrices().rows, q.threads); }},
    {"eigh",
     [](const Question& q) {
       const tenon_matrices shape = q.matrices();
       return of_errors(shape) + tenon_eigh_scratch(shape.batch, shape.rows, q.threads);
     }},
    {"geqrf", [](const Question& q) { return tenon_geqrf_scratch(q.matrices(), q.threads); }},
    {"grouped_matmul", [](const Question& q) { return of_groups(q, false); }},
    {"grouped_outer", [](const Question& q) { return of_groups(q, true); }},
    {"householder_product",
     [](const Question& q) {
       return tenon_householder_product_scratch(q.matrices(), q.in[1].shape.back(), q.threads);
     }},
    {"kthvalue", of_selection},
    {"lu", [](const Question& q) { return tenon_lu_scratch(q.matrices(), q.threads); }},
    {"matrix_exp",
     [](const Question& q) { return tenon_matrix_exp_scratch(q.matrices().batch, q.matrices().rows, q.threads); }},
    {"randint", of_integers},
    {"randperm", of_permutation},
    {"sort", of_sort},
    {"svd", [](const Question& q) { return of_errors(q.matrices()) + tenon_svd_scratch(q.matrices(), q.threads); }},
    {"topk", of_selection},
    {"triangular_solve", [](const Question& q) { return tenon_triangular_solve_scratch(q.matrices(1), q.threads); }},
};

}  // namespace

int64_t scratch_of(const LibraryFunction& function, const LibraryCall& call, int64_t threads) {
  for (const TensorView& view : call.inputs) check_sizes(view, function.name);
  for (const TensorView& view : call.outputs) check_sizes(view, function.name);
  const auto* const row = std::ranges::find(kRows, std::string_view(function.name), &Row::name);
  return row == std::end(kRows) ? 0 : row->bytes({call.inputs, call.outputs, call.numbers, threads});
}

}  // namespace tenon::runtime
