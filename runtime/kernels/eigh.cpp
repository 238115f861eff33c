// Eigenvalues of symmetric matrices: reflections make the matrix tridiagonal, then implicit QL steps with a shift make
// it diagonal. The vectors are rows in scratch, so that both work on stretches of memory.
#include <limits>
#include <utility>

#include "runtime/kernels/matrix.h"

namespace tenon {
namespace {

constexpr int kMostSteps = 60;  // for one eigenvalue, which mostly takes two

class SymmetricSolver {
 public:
  // Scratch for a matrix, its vectors and four lines.
  static int64_t scratch_size(int64_t size) { return 2 * size * size + 4 * size; }

  SymmetricSolver(double* scratch, int64_t size)
      : size_(size),
        a_{scratch, size},
        vectors_{scratch + size * size, size},
        diagonal_(vectors_[size]),
        beside_(diagonal_ + size),
        taus_(beside_ + size),
        line_(taus_ + size) {}

  double* matrix() const { return a_.data; }  // of which the lower triangle is read
  double value(int64_t i) const { return diagonal_[i]; }
  const double* values() const { return diagonal_; }
  const double* vector(int64_t i) const { return vectors_[i]; }

  // False where it is not finite, or does not converge.
  bool solve() {
    if (!scale()) return false;
    make_tridiagonal();
    make_vectors();
    for (int64_t i = 0; i < size_; ++i) {
      if (!isolate(i)) return false;
    }
    for (int64_t i = 0; i < size_; ++i) diagonal_[i] *= scale_;
    return true;
  }

 private:
  // Fills the upper triangle, and keeps squares from overflow.
  bool scale() {
    double largest = 0;
    for (int64_t row = 0; row < size_; ++row) {
      for (int64_t column = 0; column <= row; ++column) {
        const double size = std::abs(a_[row][column]);
        if (!std::isfinite(size)) return false;
        largest = std::max(largest, size);
      }
    }
    scale_ = largest == 0 ? 1 : largest;
    for (int64_t row = 0; row < size_; ++row) {
      for (int64_t column = 0; column <= row; ++column) a_[column][row] = a_[row][column] /= scale_;
    }
    return true;
  }

  // A reflection of the rows and columns behind k, for each k; row k keeps its vector.
  void make_tridiagonal() {
    for (int64_t k = 0; k < size_; ++k) {
      diagonal_[k] = a_[k][k];
      const int64_t rest = size_ - k - 1;
      if (rest == 0) break;
      double* const v = a_[k] + k + 1;
      taus_[k] = make_reflector(v, rest);
      beside_[k] = v[0];
      v[0] = 1;
      if (taus_[k] != 0) reflect_both_sides(v, taus_[k], k + 1, rest);
    }
    if (size_ > 0) beside_[size_ - 1] = 0;
  }

  // A - v w' - w v', where w = tau A v - tau^2 (v' A v) v / 2.
  void reflect_both_sides(const double* v, double tau, int64_t first, int64_t count) {
    const VectorOps& ops = vector_ops();
    for (int64_t i = 0; i < count; ++i) line_[i] = tau * ops.dot(a_[first + i] + first, v, count);
    ops.add_scaled(-0.5 * tau * ops.dot(line_, v, count), v, line_, count);
    for (int64_t i = 0; i < count; ++i) {
      ops.add_scaled(-v[i], line_, a_[first + i] + first, count);
      ops.add_scaled(-line_[i], v, a_[first + i] + first, count);
    }
  }

  void make_vectors() {
    std::fill_n(vectors_.data, size_ * size_, 0.0);
    for (int64_t i = 0; i < size_; ++i) vectors_[i][i] = 1;
    for (int64_t k = size_ - 2; k >= 0; --k) {
      const int64_t first = k + 1;
      for (int64_t j = first; j < size_; ++j) reflect(taus_[k], a_[k] + first, vectors_[j] + first, size_ - first);
    }
  }

  // Where the block that begins here ends: what stands beside the diagonal there is negligible.
  int64_t end_of_block(int64_t begin) const {
    int64_t end = begin;
    while (end + 1 < size_) {
      const double size = std::abs(diagonal_[end]) + std::abs(diagonal_[end + 1]);
      if (std::abs(beside_[end]) <= std::numeric_limits<double>::epsilon() * size) break;
      if (std::abs(beside_[end]) < std::numeric_limits<double>::min()) break;
      ++end;
    }
    return end;
  }

  bool isolate(int64_t first) {
    for (int step = 0; step < kMostSteps; ++step) {
      const int64_t last = end_of_block(first);
      if (last == first) return true;
      ql_step(first, last);
    }
    return false;
  }

  // Chases a rotation from the end of the block to its beginning.
  void ql_step(int64_t first, int64_t last) {
    const double half = (diagonal_[first + 1] - diagonal_[first]) / (2 * beside_[first]);
    const double shift = beside_[first] / (half + std::copysign(std::hypot(half, 1.0), half));
    double pushed = diagonal_[last] - diagonal_[first] + shift;
    double sine = 1, cosine = 1, taken = 0;
    for (int64_t i = last - 1; i >= first; --i) {
      const double outside = sine * beside_[i], inside = cosine * beside_[i];
      const double length = std::hypot(outside, pushed);
      beside_[i + 1] = length;
      if (length == 0) {  // the block falls apart here
        diagonal_[i + 1] -= taken;
        beside_[last] = 0;
        return;
      }
      sine = outside / length;
      cosine = pushed / length;
      const double before = diagonal_[i + 1] - taken;
      const double turned = (diagonal_[i] - before) * sine + 2 * cosine * inside;
      taken = sine * turned;
      diagonal_[i + 1] = before + taken;
      pushed = cosine * turned - inside;
      vector_ops().rotate(cosine, sine, vectors_[i], vectors_[i + 1], size_);
    }
    diagonal_[first] -= taken;
    beside_[first] = pushed;
    beside_[last] = 0;
  }

  int64_t size_;
  Matrix a_, vectors_;
  double *diagonal_, *beside_, *taus_, *line_;
  double scale_ = 1;
};

// The eigenvalues in order follow in scratch: vectors, values, positions.
BatchWork eigh_work(int64_t batch, const Batch& matrix) {
  const int64_t size = matrix.rows, sorted = matrix.size() + 2 * size;
  return {batch, SymmetricSolver::scratch_size(size) + sorted, 9 * matrix.operations(size)};
}

}  // namespace
}  // namespace tenon

int64_t tenon_eigh(const tenon_services* services, tenon_dtype dtype, int64_t batch, int64_t size, const void* x,
                   void* values, void* vectors, int32_t* info) {
  using Solver = tenon::SymmetricSolver;
  const tenon::Batch matrix{dtype, size, size}, line{dtype, size, 1};
  const auto solve = [&](int64_t number, double* scratch) {
    Solver solver(scratch, size);
    matrix.load(x, number, solver.matrix());
    info[number] = solver.solve() ? 0 : 1;
    if (info[number] != 0) return;
    double* const sorted_vectors = scratch + Solver::scratch_size(size);
    double* const sorted = sorted_vectors + matrix.size();
    auto* const order = reinterpret_cast<int64_t*>(sorted + size);
    tenon::sort_positions(order, solver.values(), size, tenon::SortOrder::kAscending);
    for (int64_t i = 0; i < size; ++i) {
      sorted[i] = solver.value(order[i]);
      const double* const vector = solver.vector(order[i]);
      const double sign = tenon::sign_of_largest(vector, size);
      for (int64_t j = 0; j < size; ++j) sorted_vectors[i * size + j] = sign * vector[j];
    }
    line.store(sorted, values, number);
    matrix.store_transposed(sorted_vectors, vectors, number);
  };
  return tenon::for_each_matrix(services, tenon::eigh_work(batch, matrix), solve);
}

int64_t tenon_eigh_scratch(int64_t batch, int64_t size, int64_t threads) {
  return tenon::eigh_work(batch, {TENON_F64, size, size}).scratch_bytes(threads);
}
