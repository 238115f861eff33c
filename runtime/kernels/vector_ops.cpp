#include "runtime/kernels/vector_ops.h"

#include <cstring>

#include "runtime/cpu_features.h"

namespace tenon {
namespace {

constexpr int64_t kLanes = 8;
using Lanes __attribute__((vector_size(kLanes * sizeof(double)))) = double;

[[gnu::always_inline]] inline void add_products(const double* x, const double* y, Lanes& sums) {
  Lanes a, b;
  std::memcpy(&a, x, sizeof a);
  std::memcpy(&b, y, sizeof b);
  sums += a * b;
}

[[gnu::always_inline]] inline double dot(const double* x, const double* y, int64_t size) {
  Lanes even = {}, odd = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
    add_products(x + i, y + i, even);
    add_products(x + i + kLanes, y + i + kLanes, odd);
  }
  even += odd;
  double sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += even[lane];
  for (; i < size; ++i) sum += x[i] * y[i];
  return sum;
}

[[gnu::always_inline]] inline void add_scaled(double factor, const double* __restrict x, double* __restrict y,
                                              int64_t size) {
  for (int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

[[gnu::always_inline]] inline void rotate(double cosine, double sine, double* __restrict x, double* __restrict y,
                                          int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const double a = x[i], b = y[i];
    x[i] = cosine * a - sine * b;
    y[i] = sine * a + cosine * b;
  }
}

constexpr VectorOps kAnywhere = {
    [](const double* x, const double* y, int64_t size) { return dot(x, y, size); },
    [](double factor, const double* x, double* y, int64_t size) { add_scaled(factor, x, y, size); },
    [](double cosine, double sine, double* x, double* y, int64_t size) { rotate(cosine, sine, x, y, size); }};

#ifdef __x86_64__
[[gnu::target("arch=x86-64-v3")]] double dot_v3(const double* x, const double* y, int64_t size) {
  return dot(x, y, size);
}
[[gnu::target("arch=x86-64-v3")]] void add_scaled_v3(double factor, const double* x, double* y, int64_t size) {
  add_scaled(factor, x, y, size);
}
[[gnu::target("arch=x86-64-v3")]] void rotate_v3(double cosine, double sine, double* x, double* y, int64_t size) {
  rotate(cosine, sine, x, y, size);
}

[[gnu::target("arch=x86-64-v4")]] double dot_v4(const double* x, const double* y, int64_t size) {
  return dot(x, y, size);
}
[[gnu::target("arch=x86-64-v4")]] void add_scaled_v4(double factor, const double* x, double* y, int64_t size) {
  add_scaled(factor, x, y, size);
}
[[gnu::target("arch=x86-64-v4")]] void rotate_v4(double cosine, double sine, double* x, double* y, int64_t size) {
  rotate(cosine, sine, x, y, size);
}

VectorOps fastest() {
  if (runtime::has_level(4)) return {dot_v4, add_scaled_v4, rotate_v4};
  if (runtime::has_level(3)) return {dot_v3, add_scaled_v3, rotate_v3};
  return kAnywhere;
}
#else
VectorOps fastest() { return kAnywhere; }
#endif

}  // namespace

const VectorOps& vector_ops() {
  static const VectorOps ops = fastest();
  return ops;
}

}  // namespace tenon
