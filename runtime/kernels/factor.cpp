// Triangular factors, and systems of equations with them.
#include "runtime/kernels/matrix.h"

namespace tenon {
namespace {

// Row by row. Gives the order of the first leading minor that is not positive, 0 where all are.
int32_t factor_cholesky(const Matrix& a, int64_t size) {
  const VectorOps& ops = vector_ops();
  for (int64_t row = 0; row < size; ++row) {
    for (int64_t column = 0; column < row; ++column) {
      a[row][column] = (a[row][column] - ops.dot(a[row], a[column], column)) / a[column][column];
    }
    const double rest = a[row][row] - ops.dot(a[row], a[row], row);
    if (!(rest > 0)) return static_cast<int32_t>(row + 1);  // also of NaN
    a[row][row] = std::sqrt(rest);
    std::fill(a[row] + row + 1, a[row] + size, 0.0);
  }
  return 0;
}

int64_t largest_in_column(const Matrix& a, int64_t rows, int64_t column) {
  int64_t largest = column;
  for (int64_t row = column + 1; row < rows; ++row) {
    if (std::abs(a[row][column]) > std::abs(a[largest][column])) largest = row;
  }
  return largest;
}

// Gives the number, from 1, of the first pivot that is zero, 0 where none is.
int32_t factor_lu(const Matrix& a, int64_t rows, int32_t* pivots) {
  const VectorOps& ops = vector_ops();
  int32_t info = 0;
  for (int64_t k = 0; k < std::min(rows, a.columns); ++k) {
    const int64_t pivot = largest_in_column(a, rows, k);
    pivots[k] = static_cast<int32_t>(pivot + 1);
    if (pivot != k) std::swap_ranges(a[k], a[k] + a.columns, a[pivot]);
    if (a[k][k] == 0) {
      if (info == 0) info = static_cast<int32_t>(k + 1);
      continue;
    }
    for (int64_t row = k + 1; row < rows; ++row) {
      const double factor = a[row][k] /= a[k][k];
      ops.add_scaled(-factor, a[k] + k + 1, a[row] + k + 1, a.columns - k - 1);
    }
  }
  return info;
}

// Row `row` of the solution from those that are there: the ones before it, or after it where `a` is upper.
void solve_row(const Matrix& a, const Matrix& x, int64_t row, int64_t size, bool upper, bool unitriangular) {
  const VectorOps& ops = vector_ops();
  const int64_t begin = upper ? row + 1 : 0, end = upper ? size : row;
  for (int64_t other = begin; other < end; ++other) ops.add_scaled(-a[row][other], x[other], x[row], x.columns);
  if (unitriangular) return;
  for (int64_t column = 0; column < x.columns; ++column) x[row][column] /= a[row][row];
}

// False for a pivot that is no row from its place on.
bool permute(const int32_t* pivots, int64_t count, int64_t* permutation, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) permutation[row] = row;
  for (int64_t place = 0; place < count; ++place) {
    if (pivots[place] < 1 || pivots[place] > rows) return false;
    std::swap(permutation[place], permutation[pivots[place] - 1]);
  }
  return true;
}

BatchWork cholesky_work(int64_t batch, const Batch& matrix) {
  return {batch, matrix.size(), matrix.operations(matrix.rows) / 3};
}

BatchWork lu_work(int64_t batch, const Batch& matrix) {
  return {batch, matrix.size(), matrix.operations(std::min(matrix.rows, matrix.columns))};
}

BatchWork solve_work(int64_t batch, const Batch& triangle, const Batch& solution) {
  return {batch, triangle.size() + solution.size(), solution.operations(triangle.rows)};
}

}  // namespace
}  // namespace tenon

int64_t tenon_cholesky(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                       void* out, int32_t* info) {
  const tenon::Batch matrix{dtype, size, size};
  return tenon::for_each_matrix(services, tenon::cholesky_work(batch, matrix), [&](int64_t number, double* scratch) {
    matrix.load(x, number, scratch);
    info[number] = tenon::factor_cholesky({scratch, size}, size);
    if (info[number] != 0) std::fill_n(scratch, matrix.size(), std::nan(""));
    matrix.store(scratch, out, number);
  });
}

int64_t tenon_lu(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* lu,
                 int32_t* pivots, int32_t* info) {
  const tenon::Batch matrix{dtype, shape.rows, shape.columns};
  const int64_t count = std::min(shape.rows, shape.columns);
  return tenon::for_each_matrix(services, tenon::lu_work(shape.batch, matrix), [&](int64_t number, double* scratch) {
    matrix.load(x, number, scratch);
    info[number] = tenon::factor_lu({scratch, shape.columns}, shape.rows, pivots + number * count);
    matrix.store(scratch, lu, number);
  });
}

int64_t tenon_triangular_solve(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, int upper,
                               int unitriangular, const void* a, const void* b, void* x) {
  const int64_t size = shape.rows;
  const tenon::Batch triangle{dtype, size, size}, solution{dtype, size, shape.columns};
  const tenon::BatchWork work = tenon::solve_work(shape.batch, triangle, solution);
  return tenon::for_each_matrix(services, work, [&](int64_t number, double* scratch) {
    const tenon::Matrix from{scratch, size}, to{scratch + triangle.size(), shape.columns};
    triangle.load(a, number, from.data);
    solution.load(b, number, to.data);
    for (int64_t i = 0; i < size; ++i) {
      tenon::solve_row(from, to, upper ? size - 1 - i : i, size, upper != 0, unitriangular != 0);
    }
    solution.store(to.data, x, number);
  });
}

int64_t tenon_pivots_to_permutation(int64_t batch, int64_t count, int64_t rows, const int32_t* pivots,
                                    int64_t* permutation) {
  for (int64_t number = 0; number < batch; ++number) {
    if (!tenon::permute(pivots + number * count, count, permutation + number * rows, rows)) return kTenonOutOfRange;
  }
  return 0;
}

int64_t tenon_cholesky_scratch(int64_t batch, int64_t size, int64_t threads) {
  return tenon::cholesky_work(batch, {TENON_F64, size, size}).scratch_bytes(threads);
}

int64_t tenon_lu_scratch(tenon_matrices shape, int64_t threads) {
  return tenon::lu_work(shape.batch, {TENON_F64, shape.rows, shape.columns}).scratch_bytes(threads);
}

int64_t tenon_triangular_solve_scratch(tenon_matrices shape, int64_t threads) {
  const tenon::Batch triangle{TENON_F64, shape.rows, shape.rows}, solution{TENON_F64, shape.rows, shape.columns};
  return tenon::solve_work(shape.batch, triangle, solution).scratch_bytes(threads);
}
