// exp(A) = exp(A / 2^s)^(2^s), where s makes the norm small enough for a short series of Taylor's.
#include <utility>

#include "runtime/kernels/matrix.h"

namespace tenon {
namespace {

constexpr double kSmallNorm = 0.5;  // 0.5^17 / 17! is below the precision of a double
constexpr int64_t kStride = 4;      // the series in powers of A^4, with factors of 4 terms each: 16 terms
constexpr int64_t kMatrices = kStride + 2;

void multiply(const Matrix& a, const Matrix& b, const Matrix& out) {
  const int64_t size = a.columns;
  std::fill_n(out.data, size * size, 0.0);
  for (int64_t row = 0; row < size; ++row) {
    for (int64_t k = 0; k < size; ++k) vector_ops().add_scaled(a[row][k], b[k], out[row], size);
  }
}

// The largest sum of a row's magnitudes; NaN where an element is.
double norm_of(const Matrix& a) {
  double norm = 0;
  for (int64_t row = 0; row < a.columns; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < a.columns; ++column) sum += std::abs(a[row][column]);
    if (!(sum <= norm)) norm = sum;
    if (std::isnan(sum)) return sum;
  }
  return norm;
}

double inverse_factorial(int64_t n) {
  double result = 1;
  for (int64_t i = 2; i <= n; ++i) result /= static_cast<double>(i);
  return result;
}

// out += the four terms from `first` on, divided by A^first.
void add_terms(int64_t first, const Matrix* powers, const Matrix& out) {
  const int64_t size = out.columns;
  for (int64_t i = 0; i < size; ++i) out[i][i] += inverse_factorial(first);
  for (int64_t power = 1; power < kStride; ++power) {
    vector_ops().add_scaled(inverse_factorial(first + power), powers[power - 1].data, out.data, size * size);
  }
}

// The exponential of `power[0]`, in one of the two last matrices.
Matrix sum_series(Matrix* powers, Matrix sum, Matrix other) {
  const int64_t size = sum.columns;
  for (int64_t power = 1; power < kStride; ++power) multiply(powers[power - 1], powers[0], powers[power]);
  std::fill_n(sum.data, size * size, 0.0);
  for (int64_t i = 0; i < size; ++i) sum[i][i] = inverse_factorial(kStride * kStride);
  for (int64_t first = kStride * (kStride - 1); first >= 0; first -= kStride) {
    multiply(sum, powers[kStride - 1], other);
    add_terms(first, powers, other);
    std::swap(sum, other);
  }
  return sum;
}

// `a` is the first of kMatrices in scratch. Gives the one that holds the result.
Matrix exponential(const Matrix& a) {
  const int64_t size = a.columns;
  Matrix matrices[kMatrices];
  for (int64_t i = 0; i < kMatrices; ++i) matrices[i] = {a.data + i * size * size, size};
  const double norm = norm_of(a);
  if (!std::isfinite(norm)) {
    std::fill_n(a.data, size * size, std::nan(""));
    return a;
  }
  const int squarings = norm > kSmallNorm ? std::ilogb(norm / kSmallNorm) + 1 : 0;
  for (int64_t i = 0; i < size * size; ++i) a.data[i] = std::ldexp(a.data[i], -squarings);
  Matrix result = sum_series(matrices, matrices[kStride], matrices[kStride + 1]);
  Matrix other = result.data == matrices[kStride].data ? matrices[kStride + 1] : matrices[kStride];
  for (int i = 0; i < squarings; ++i) {
    multiply(result, result, other);
    std::swap(result, other);
  }
  return result;
}

BatchWork exponential_work(int64_t batch, const Batch& matrix) {
  return {batch, kMatrices * matrix.size(), 8 * matrix.operations(matrix.rows)};
}

}  // namespace
}  // namespace tenon

int64_t tenon_matrix_exp(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                         void* out) {
  const tenon::Batch matrix{dtype, size, size};
  return tenon::for_each_matrix(services, tenon::exponential_work(batch, matrix), [&](int64_t number, double* scratch) {
    matrix.load(x, number, scratch);
    matrix.store(tenon::exponential({scratch, size}).data, out, number);
  });
}

int64_t tenon_matrix_exp_scratch(int64_t batch, int64_t size, int64_t threads) {
  return tenon::exponential_work(batch, {TENON_F64, size, size}).scratch_bytes(threads);
}
