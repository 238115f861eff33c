// Singular values by one-sided Jacobi rotations: columns are rotated in pairs until all are orthogonal. Their lengths
// are the singular values then, to full precision even of the small ones.
//
// What is rotated is a triangular factor, which takes few sweeps. The array, transposed where it is wide, is Q R P'
// with the longest columns first. R' V = U S by rotations, so that it is (Q V) S (P U)'.
#include <limits>
#include <utility>

#include "runtime/kernels/matrix.h"

namespace tenon {
namespace {

constexpr int kMostSweeps = 60;
// Of a column's squares: what is shorter is zero beside a longest element of 1.
constexpr double kZero = std::numeric_limits<double>::min();

// Matrices are transposed in scratch: their columns are rows there. rows >= columns.
class SingularSolver {
 public:
  static int64_t scratch_size(int64_t rows, int64_t columns) {
    return rows * columns + 2 * columns * columns + 4 * columns;
  }

  SingularSolver(double* scratch, int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        a_{scratch, rows},
        rotated_{a_[columns], columns},
        turns_{rotated_[columns], columns},
        taus_(turns_[columns]),
        squares_(taus_ + columns),
        places_(reinterpret_cast<int64_t*>(squares_ + columns)),
        order_(places_ + columns) {}

  double* matrix() const { return a_.data; }

  // False where it is not finite, or does not converge.
  bool solve() {
    if (!scale()) return false;
    factor();
    copy_triangle();
    if (!rotate_all()) return false;
    normalize();
    sort_positions(order_, squares_, columns_, SortOrder::kDescending);
    return true;
  }

  double value(int64_t i) const { return squares_[order_[i]] * scale_; }

  void right_vector(int64_t i, double* to) const {
    for (int64_t j = 0; j < columns_; ++j) to[places_[j]] = rotated_[order_[i]][j];
  }

  void left_vector(int64_t i, double* to) const {
    std::copy_n(turns_[order_[i]], columns_, to);
    std::fill(to + columns_, to + rows_, 0.0);
    for (int64_t k = columns_ - 1; k >= 0; --k) reflect(taus_[k], a_[k] + k, to + k, rows_ - k);
  }

 private:
  bool scale() {
    double largest = 0;
    for (int64_t i = 0; i < rows_ * columns_; ++i) {
      const double size = std::abs(a_.data[i]);
      if (!std::isfinite(size)) return false;
      largest = std::max(largest, size);
    }
    scale_ = largest == 0 ? 1 : largest;
    for (int64_t i = 0; i < rows_ * columns_; ++i) a_.data[i] /= scale_;
    return true;
  }

  void factor() {
    std::iota(places_, places_ + columns_, int64_t{0});
    for (int64_t k = 0; k < columns_; ++k) {
      const int64_t longest = longest_from(k);
      std::swap(places_[k], places_[longest]);
      if (longest != k) std::swap_ranges(a_[k], a_[k] + rows_, a_[longest]);
      taus_[k] = make_reflector(a_[k] + k, rows_ - k);
      for (int64_t j = k + 1; j < columns_; ++j) reflect(taus_[k], a_[k] + k, a_[j] + k, rows_ - k);
    }
  }

  int64_t longest_from(int64_t first) const {
    int64_t longest = first;
    double most = -1;
    for (int64_t j = first; j < columns_; ++j) {
      const double square = vector_ops().dot(a_[j] + first, a_[j] + first, rows_ - first);
      if (square > most) longest = j, most = square;
    }
    return longest;
  }

  // A row of R is a column of R', and so a row of `rotated`.
  void copy_triangle() {
    std::fill_n(rotated_.data, 2 * columns_ * columns_, 0.0);
    for (int64_t row = 0; row < columns_; ++row) {
      for (int64_t column = row; column < columns_; ++column) rotated_[row][column] = a_[column][row];
      turns_[row][row] = 1;
    }
  }

  double square_of(int64_t i) const { return vector_ops().dot(rotated_[i], rotated_[i], columns_); }

  bool rotate_all() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      for (int64_t i = 0; i < columns_; ++i) squares_[i] = square_of(i);
      bool all_orthogonal = true;
      for (int64_t i = 0; i < columns_; ++i) {
        for (int64_t j = i + 1; j < columns_; ++j) all_orthogonal &= !rotate(i, j);
      }
      if (all_orthogonal) return true;
    }
    return false;
  }

  // Makes two columns orthogonal; false where they are.
  bool rotate(int64_t i, int64_t j) {
    const VectorOps& ops = vector_ops();
    const double product = ops.dot(rotated_[i], rotated_[j], columns_);
    const double limit = std::numeric_limits<double>::epsilon() * std::sqrt(static_cast<double>(columns_));
    const double lengths = std::sqrt(std::max(squares_[i], 0.0)) * std::sqrt(std::max(squares_[j], 0.0));
    if (std::abs(product) <= limit * lengths || std::abs(product) < kZero) return false;
    const double half = (squares_[j] - squares_[i]) / (2 * product);
    const double tangent = std::copysign(1.0, half) / (std::abs(half) + std::hypot(half, 1.0));
    const double cosine = 1 / std::sqrt(1 + tangent * tangent), sine = cosine * tangent;
    ops.rotate(cosine, sine, rotated_[i], rotated_[j], columns_);
    ops.rotate(cosine, sine, turns_[i], turns_[j], columns_);
    squares_[i] -= tangent * product;
    squares_[j] += tangent * product;
    return true;
  }

  // Columns of length 1, and the lengths in place of the squares. A zero column becomes any that is orthogonal.
  void normalize() {
    for (int64_t i = 0; i < columns_; ++i) {
      const double square = square_of(i);
      squares_[i] = square < kZero ? 0 : std::sqrt(square);
      const double factor = square < kZero ? 0 : 1 / squares_[i];
      for (int64_t j = 0; j < columns_; ++j) rotated_[i][j] *= factor;
    }
    for (int64_t i = 0; i < columns_; ++i) {
      if (squares_[i] == 0) complete(i);
    }
  }

  // From the axis that the other columns have least of; twice, for what rounding left.
  void complete(int64_t i) {
    const VectorOps& ops = vector_ops();
    rotated_[i][axis_with_least()] = 1;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < columns_; ++j) {
        if (j != i) ops.add_scaled(-ops.dot(rotated_[j], rotated_[i], columns_), rotated_[j], rotated_[i], columns_);
      }
      const double factor = 1 / std::sqrt(square_of(i));
      for (int64_t j = 0; j < columns_; ++j) rotated_[i][j] *= factor;
    }
  }

  int64_t axis_with_least() const {
    int64_t least = 0;
    double fewest = std::numeric_limits<double>::infinity();
    for (int64_t axis = 0; axis < columns_; ++axis) {
      double sum = 0;
      for (int64_t j = 0; j < columns_; ++j) sum += rotated_[j][axis] * rotated_[j][axis];
      if (sum < fewest) least = axis, fewest = sum;
    }
    return least;
  }

  int64_t rows_, columns_;
  Matrix a_, rotated_, turns_;
  double *taus_, *squares_;
  int64_t *places_, *order_;
  double scale_ = 1;
};

// The results in order follow in scratch: left vectors, right vectors, values.
BatchWork svd_work(const tenon_matrices& shape) {
  const int64_t rows = std::max(shape.rows, shape.columns), columns = std::min(shape.rows, shape.columns);
  const int64_t sorted = rows * columns + columns * columns + columns;
  return {shape.batch, SingularSolver::scratch_size(rows, columns) + sorted,
          30 * Batch{TENON_F64, rows, columns}.operations(columns)};
}

}  // namespace
}  // namespace tenon

int64_t tenon_svd(const tenon_services* services, tenon_dtype dtype, tenon_matrices shape, const void* x, void* u,
                  void* s, void* vh, int32_t* info) {
  using Solver = tenon::SingularSolver;
  const bool wide = shape.rows < shape.columns;
  const int64_t rows = std::max(shape.rows, shape.columns), columns = std::min(shape.rows, shape.columns);
  const tenon::Batch matrix{dtype, shape.rows, shape.columns}, lengths{dtype, columns, 1};
  const tenon::Batch left{dtype, shape.rows, columns}, right{dtype, columns, shape.columns};
  const int64_t own = Solver::scratch_size(rows, columns);
  const auto solve = [&](int64_t number, double* scratch) {
    Solver solver(scratch, rows, columns);
    wide ? matrix.load(x, number, solver.matrix()) : matrix.load_transposed(x, number, solver.matrix());
    info[number] = solver.solve() ? 0 : 1;
    if (info[number] != 0) return;
    const tenon::Matrix tall{scratch + own, rows}, small{tall[columns], columns};
    double* const values = small[columns];
    for (int64_t i = 0; i < columns; ++i) {
      values[i] = solver.value(i);
      solver.right_vector(i, small[i]);
      solver.left_vector(i, tall[i]);
      const double sign = tenon::sign_of_largest(wide ? tall[i] : small[i], shape.columns);
      for (int64_t j = 0; j < columns; ++j) small[i][j] *= sign;
      for (int64_t j = 0; j < rows; ++j) tall[i][j] *= sign;
    }
    lengths.store(values, s, number);
    left.store_transposed(wide ? small.data : tall.data, u, number);
    right.store(wide ? tall.data : small.data, vh, number);
  };
  return tenon::for_each_matrix(services, tenon::svd_work(shape), solve);
}

int64_t tenon_svd_scratch(tenon_matrices shape, int64_t threads) {
  return tenon::svd_work(shape).scratch_bytes(threads);
}
