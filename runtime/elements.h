// Reads and writes elements in memory, in the two domains of op semantics: double for floating-point dtypes, int64 for
// integers and bool. Conversion to a narrower float rounds once, to nearest even. Conversion to an integer truncates;
// NaN and values outside of 64 bits give the smallest int64, which then wraps. Conversion to bool tests for non-zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenon/tenon.h"

namespace tenon::runtime {

constexpr bool is_float(tenon_dtype dtype) { return dtype <= TENON_BF16; }

inline constexpr int8_t kElementBytes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};  // by tenon_dtype

constexpr int64_t size_of(tenon_dtype dtype) { return kElementBytes[dtype]; }

double load_real(tenon_dtype dtype, const std::byte* element);
int64_t load_integer(tenon_dtype dtype, const std::byte* element);
void store_real(tenon_dtype dtype, std::byte* element, double value);
void store_integer(tenon_dtype dtype, std::byte* element, int64_t value);
double round_to(tenon_dtype dtype, double value);  // rounds to the nearest value of a floating-point dtype

// Elements of memory, `stride` apart, or at `offsets`.
struct Places {
  std::byte* memory;
  int64_t first;
  int64_t stride;
  const int64_t* offsets;  // null, or the position of each element

  int64_t operator[](int64_t i) const { return offsets ? offsets[i] : first + i * stride; }
};

// Loads and stores many elements: reals of floating-point dtypes, integers of the others. A store converts. Values to
// store are `step` apart; a step of 0 stores one value everywhere.
void load_reals(tenon_dtype dtype, const Places& from, int64_t count, double* values);
void load_integers(tenon_dtype dtype, const Places& from, int64_t count, int64_t* values);
void store_reals(tenon_dtype dtype, const Places& to, int64_t count, const double* values, int64_t step);
void store_integers(tenon_dtype dtype, const Places& to, int64_t count, const int64_t* values, int64_t step);
void round_all_to(tenon_dtype dtype, double* values, int64_t count);
void wrap_all_to(tenon_dtype dtype, int64_t* values, int64_t count);  // modulo 2^bits; for bool, value != 0

}  // namespace tenon::runtime
