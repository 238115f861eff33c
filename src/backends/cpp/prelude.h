// The types are the same in all kernels; the functions are those that this one uses.
#include <math.h>

#include <cfloat>
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

// ---- functions ------------------------------------------------------------------------------------------------------

// The first of several threads tells.
inline i64 failed(i64* error, i64 kind, i64 node, i64 value, i64 bound) {
  i64 none = 0;
  if (!__atomic_compare_exchange_n(&error[0], &none, kind, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return kind;
  error[1] = node, error[2] = value, error[3] = bound;
  return kind;
}

template <class Body>
i64 in_parallel(const tenon_services* services, i64 begin, i64 end, Body body) {
  const auto run = [](void* context, i64 b, i64 e) { return (*static_cast<Body*>(context))(b, e); };
  return services->parallel_for(services, begin, end, run, &body);
}

template <class T>
struct Scratch {
  const tenon_services* services;
  T* data = nullptr;  // stays null where memory runs out
  Scratch(const tenon_services* from, std::initializer_list<i64> extents) : services(from) {
    i64 bytes = sizeof(T);
    for (i64 extent : extents) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return;
    }
    data = static_cast<T*>(services->allocate(services, bytes));
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { services->release(services, data); }
};
