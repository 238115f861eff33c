// Shared by the matrix kernels, which compute in double in scratch memory, for arrays of any dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "runtime/kernels.h"
#include "runtime/kernels/parallel.h"
#include "runtime/kernels/vector_ops.h"

namespace tenon {

// A matrix of doubles, row by row.
struct Matrix {
  double* data;
  int64_t columns;
  double* operator[](int64_t row) const { return data + row * columns; }
};

// Calls body(element) with a pointer to the elements from `first` on.
template <class Body>
void with_reals(tenon_dtype dtype, void* array, int64_t first, Body body) {
  if (dtype == TENON_F64) return body(static_cast<double*>(array) + first);
  body(static_cast<float*>(array) + first);
}
template <class Body>
void with_reals(tenon_dtype dtype, const void* array, int64_t first, Body body) {
  if (dtype == TENON_F64) return body(static_cast<const double*>(array) + first);
  body(static_cast<const float*>(array) + first);
}

// One array of a batch: an f32 or f64 matrix, read and written in double.
struct Batch {
  tenon_dtype dtype;
  int64_t rows, columns;

  int64_t size() const { return rows * columns; }
  double operations(int64_t for_each) const { return static_cast<double>(size()) * static_cast<double>(for_each); }

  void load(const void* array, int64_t number, double* to) const {
    with_reals(dtype, array, number * size(), [&](const auto* from) { std::copy_n(from, size(), to); });
  }
  void store(const double* from, void* array, int64_t number) const {
    with_reals(dtype, array, number * size(), [&](auto* to) {
      for (int64_t i = 0; i < size(); ++i) to[i] = static_cast<std::decay_t<decltype(*to)>>(from[i]);
    });
  }

  // Copies the transposed matrix into scratch: a column of the array becomes a row.
  void load_transposed(const void* array, int64_t number, double* to) const {
    with_reals(dtype, array, number * size(), [&](const auto* from) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) to[column * rows + row] = from[row * columns + column];
      }
    });
  }
  void store_transposed(const double* from, void* array, int64_t number) const {
    with_reals(dtype, array, number * size(), [&](auto* to) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          to[row * columns + column] = static_cast<std::decay_t<decltype(*to)>>(from[column * rows + row]);
        }
      }
    });
  }
};

// What a kernel does for a batch of matrices.
struct BatchWork {
  int64_t batch;
  int64_t scratch_size;  // doubles, for one matrix
  double operations;     // for one matrix: an estimate

  int64_t all_operations() const {
    return static_cast<int64_t>(std::min(static_cast<double>(batch) * operations, 0x1p62));
  }
  int64_t scratch_bytes(int64_t threads) const {
    return workers(batch, all_operations(), threads) * scratch_size * static_cast<int64_t>(sizeof(double));
  }
};

// Calls body(number, scratch) for each matrix.
template <class Body>
int64_t for_each_matrix(const tenon_services* services, const BatchWork& work, Body body) {
  const auto run = [&](int64_t begin, int64_t end) -> int64_t {
    const ScratchArray<double> scratch(services, work.scratch_size);
    if (!scratch.get()) return kTenonOutOfMemory;
    for (int64_t number = begin; number < end; ++number) body(number, scratch.get());
    return 0;
  };
  return in_parallel(services, 0, work.batch, work.all_operations(), run);
}

// Makes a reflection I - tau v v' that takes x to (beta, 0, ...), with v[0] = 1. Leaves beta in x[0] and the rest of v
// after it; returns tau. Signs are LAPACK's: beta has the opposite sign of x[0], and a vector that is zero already is
// not reflected.
inline double make_reflector(double* x, int64_t size) {
  double scale = 0;
  for (int64_t i = 1; i < size; ++i) scale = std::max(scale, std::abs(x[i]));
  if (size <= 1 || scale == 0) return 0;
  scale = std::max(scale, std::abs(x[0]));
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += (x[i] / scale) * (x[i] / scale);
  const double alpha = x[0], beta = -std::copysign(scale * std::sqrt(sum), alpha);
  for (int64_t i = 1; i < size; ++i) x[i] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// Reflects x. v[0] counts as 1, whatever it holds.
inline void reflect(double tau, const double* v, double* x, int64_t size) {
  if (tau == 0) return;
  const VectorOps& ops = vector_ops();
  const double factor = -tau * (x[0] + ops.dot(v + 1, x + 1, size - 1));
  x[0] += factor;
  ops.add_scaled(factor, v + 1, x + 1, size - 1);
}

// The sign that makes the largest component of a vector positive; the first of equal components counts.
inline double sign_of_largest(const double* x, int64_t size) {
  const auto smaller = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const double* const largest = std::max_element(x, x + size, smaller);
  return size > 0 && *largest < 0 ? -1 : 1;
}

enum class SortOrder { kAscending, kDescending };

// The positions of `size` numbers in sorted order. Stable. By insertion: what made the numbers took size^3 steps.
inline void sort_positions(int64_t* positions, const double* numbers, int64_t size, SortOrder order) {
  const double sign = order == SortOrder::kAscending ? 1 : -1;
  for (int64_t i = 0; i < size; ++i) {
    int64_t at = i;
    for (; at > 0 && sign * numbers[i] < sign * numbers[positions[at - 1]]; --at) positions[at] = positions[at - 1];
    positions[at] = i;
  }
}

}  // namespace tenon
