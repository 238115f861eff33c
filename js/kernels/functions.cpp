// The functions that compiled kernels import: the primitives of floats by their names, and what arithmetic.h and
// function.h name. The page hands them on by these names.
#include <cmath>
#include <cstdlib>

#include "graph/dtype.h"
#include "runtime/scalar_functions.h"
#include "symbolic/expr.h"

namespace tenon {
namespace {

using T = double;

double rounded(double product) { return product; }

}  // namespace

extern "C" {

#define EXPORTED(name) __attribute__((export_name("kernel." name)))

// Operands beyond those of a primitive are not read: its function has as many parameters as it has operands.
#define PARAMETERS_1 double a
#define PARAMETERS_2 double a, double b
#define PARAMETERS_3 double a, double b, double c
#define REAL(id, name, count, cost, lanes, real) \
  EXPORTED(name) double tenon_kernel_##id(PARAMETERS_##count) { return real; }
#define BOTH(id, name, count, cost, lanes, real, integer) REAL(id, name, count, cost, lanes, real)
#define INTEGER(id, name, count, cost, lanes, integer)
#include "graph/primitives.inc"

EXPORTED("integer_quotient") int64_t tenon_kernel_quotient(int64_t x, int64_t y) { return integer_quotient(x, y); }
EXPORTED("integer_pow") int64_t tenon_kernel_pow(int64_t x, int64_t y) { return integer_pow(x, y); }

EXPORTED("from_half") float tenon_kernel_from_half(uint32_t bits) {
  const auto half = static_cast<uint16_t>(bits);
  return static_cast<float>(load_real(DType::kF16, reinterpret_cast<const std::byte*>(&half)));
}
EXPORTED("to_half") uint32_t tenon_kernel_to_half(double x) {
  uint16_t half = 0;
  store_real(DType::kF16, reinterpret_cast<std::byte*>(&half), x);
  return half;
}
EXPORTED("to_brain") uint32_t tenon_kernel_to_brain(double x) { return to_brain(x); }

EXPORTED("floordiv") int64_t tenon_kernel_floordiv(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
EXPORTED("floormod") int64_t tenon_kernel_floormod(int64_t a, int64_t b) {
  return b == 0 ? 0 : a - b * tenon_kernel_floordiv(a, b);
}

EXPORTED("allocate") void* tenon_kernel_allocate(uint32_t bytes) { return std::aligned_alloc(64, bytes); }
EXPORTED("release") void tenon_kernel_release(void* memory) { std::free(memory); }

}  // extern "C"
}  // namespace tenon
