// Orthogonal factors, as products of Householder's reflections. A matrix is transposed in scratch: its columns, which
// are reflected, are rows there.
#include "runtime/kernels/matrix.h"

namespace tenon {
namespace {

// The factors of `count` reflections, and a matrix or two.
BatchWork reflections_work(int64_t batch, const Batch& matrix, int64_t matrices, int64_t count) {
  return {batch, matrices * matrix.size() + count, matrix.operations(count)};
}

}  // namespace
}  // namespace tenon

int64_t tenon_geqrf(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* a,
                    void* tau) {
  const int64_t rows = shape.rows, columns = shape.columns, count = std::min(rows, columns);
  const tenon::Batch matrix{dtype, rows, columns}, taus{dtype, count, 1};
  const auto factor = [&](int64_t number, double* scratch) {
    const tenon::Matrix column{scratch, rows};
    double* const found = scratch + matrix.size();
    matrix.load_transposed(x, number, scratch);
    for (int64_t k = 0; k < count; ++k) {
      found[k] = tenon::make_reflector(column[k] + k, rows - k);
      for (int64_t j = k + 1; j < columns; ++j) tenon::reflect(found[k], column[k] + k, column[j] + k, rows - k);
    }
    matrix.store_transposed(scratch, a, number);
    taus.store(found, tau, number);
  };
  return tenon::for_each_matrix(services, tenon::reflections_work(shape.batch, matrix, 1, count), factor);
}

int64_t tenon_householder_product(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape,
                                  int64_t count, const void* a, const void* tau, void* q) {
  const int64_t rows = shape.rows, columns = shape.columns;
  const tenon::Batch matrix{dtype, rows, columns}, taus{dtype, count, 1};
  const auto multiply = [&](int64_t number, double* scratch) {
    const tenon::Matrix reflector{scratch, rows}, column{scratch + matrix.size(), rows};
    double* const factors = scratch + 2 * matrix.size();
    matrix.load_transposed(a, number, reflector.data);
    taus.load(tau, number, factors);
    std::fill_n(column.data, matrix.size(), 0.0);
    for (int64_t j = 0; j < columns; ++j) column[j][j] = 1;
    for (int64_t k = count - 1; k >= 0; --k) {  // the columns before k are zero where this one reflects
      for (int64_t j = k; j < columns; ++j) tenon::reflect(factors[k], reflector[k] + k, column[j] + k, rows - k);
    }
    matrix.store_transposed(column.data, q, number);
  };
  return tenon::for_each_matrix(services, tenon::reflections_work(shape.batch, matrix, 2, count), multiply);
}

int64_t tenon_geqrf_scratch(tenon_matrices shape, int64_t threads) {
  const tenon::Batch matrix{TENON_F64, shape.rows, shape.columns};
  const int64_t count = std::min(shape.rows, shape.columns);
  return tenon::reflections_work(shape.batch, matrix, 1, count).scratch_bytes(threads);
}

int64_t tenon_householder_product_scratch(tenon_matrices shape, int64_t count, int64_t threads) {
  const tenon::Batch matrix{TENON_F64, shape.rows, shape.columns};
  return tenon::reflections_work(shape.batch, matrix, 2, count).scratch_bytes(threads);
}
