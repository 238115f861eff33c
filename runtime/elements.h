// Elements in memory, read and written in the two domains in which semantics are stated: double for floating dtypes,
// int64 for integers and bool. Conversions are exact: to a narrower float they round once, to nearest even; to an
// integer they truncate, and NaN and what does not fit 64 bits give the smallest int64, which wraps; to a bool they
// test for non-zero.
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
double round_to(tenon_dtype dtype, double value);  // the nearest value of a floating dtype

// Elements of memory: `stride` apart from the first on, or where `offsets` says.
struct Places {
  std::byte* memory;
  int64_t first;
  int64_t stride;
  const int64_t* offsets;  // null, or the position of each

  int64_t operator[](int64_t i) const { return offsets ? offsets[i] : first + i * stride; }
};

// Many at once, reals of floating dtypes and integers of the others; a store converts. Values to store are `step`
// apart: 0 stores one value everywhere.
void load_reals(tenon_dtype dtype, const Places& from, int64_t count, double* values);
void load_integers(tenon_dtype dtype, const Places& from, int64_t count, int64_t* values);
void store_reals(tenon_dtype dtype, const Places& to, int64_t count, const double* values, int64_t step);
void store_integers(tenon_dtype dtype, const Places& to, int64_t count, const int64_t* values, int64_t step);
void round_all_to(tenon_dtype dtype, double* values, int64_t count);
void wrap_all_to(tenon_dtype dtype, int64_t* values, int64_t count);  // modulo 2^bits; for bool, value != 0

}  // namespace tenon::runtime
