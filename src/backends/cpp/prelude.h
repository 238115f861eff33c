// A kernel in C++. These types are the same in all of them; the functions are those that this one uses.
#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

// clang-format off
typedef double f64;
typedef float f32;
typedef uint16_t f16, bf16;  // bits: only moved and cast
typedef uint8_t b8;          // 0 or 1
typedef int64_t i64; typedef int32_t i32; typedef int16_t i16; typedef int8_t i8;
typedef uint64_t u64; typedef uint32_t u32; typedef uint16_t u16; typedef uint8_t u8;
// clang-format on

// Calls the body for stretches that make up [begin, end), until one returns an error.
typedef i64 (*tenon_parallel_for)(i64 begin, i64 end, i64 (*body)(void* context, i64 begin, i64 end), void* context);

enum { kOutOfRange = 1, kDivisionByZero, kOutOfMemory };

// ---- functions ------------------------------------------------------------------------------------------------------

// The first of several threads tells.
inline i64 failed(i64* error, i64 kind, i64 node, i64 value, i64 bound) {
  i64 none = 0;
  if (!__atomic_compare_exchange_n(&error[0], &none, kind, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return kind;
  error[1] = node, error[2] = value, error[3] = bound;
  return kind;
}

template <class Body>
i64 in_parallel(tenon_parallel_for parallel, i64 begin, i64 end, Body body) {
  if (begin >= end) return 0;
  if (!parallel) return body(begin, end);
  return parallel(begin, end, [](void* context, i64 b, i64 e) { return (*static_cast<Body*>(context))(b, e); }, &body);
}
