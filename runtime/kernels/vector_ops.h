// The inner loops of the matrix kernels, chosen for the CPU.
#pragma once

#include <cstdint>

namespace tenon {

struct VectorOps {
  double (*dot)(const double* x, const double* y, int64_t size);
  void (*add_scaled)(double factor, const double* x, double* y, int64_t size);     // y += factor * x
  void (*rotate)(double cosine, double sine, double* x, double* y, int64_t size);  // x = c x - s y, y = s x + c y
};

const VectorOps& vector_ops();

}  // namespace tenon
