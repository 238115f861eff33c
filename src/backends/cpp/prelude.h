// What kernels in C++ begin with. The types are in every one of them; below the line, a paragraph is there where the
// kernel uses the function that it defines.
#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

typedef double f64;
typedef float f32;
typedef uint16_t f16;   // bits: only moved and cast
typedef uint16_t bf16;  // likewise
typedef int64_t i64;
typedef int32_t i32;
typedef int16_t i16;
typedef int8_t i8;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
typedef uint8_t b8;  // 0 or 1

enum { kOutOfRange = 1, kDivisionByZero, kOutOfMemory };

// Calls body(context, b, e) for stretches [b, e) that make up [begin, end), until one returns an error.
typedef i64 (*tenon_parallel_for)(i64 begin, i64 end, i64 (*body)(void* context, i64 begin, i64 end), void* context);

// ---- functions ------------------------------------------------------------------------------------------------------

inline i64 floordiv(i64 a, i64 b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

inline i64 floormod(i64 a, i64 b) { return a - b * floordiv(a, b); }

inline i64 least(i64 a, i64 b) { return a < b ? a : b; }

inline i64 most(i64 a, i64 b) { return a < b ? b : a; }

// The first of several threads tells.
inline i64 failed(i64* error, i64 kind, i64 node, i64 value, i64 bound) {
  i64 none = 0;
  if (!__atomic_compare_exchange_n(&error[0], &none, kind, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return kind;
  error[1] = node;
  error[2] = value;
  error[3] = bound;
  return kind;
}

template <class Body>
i64 in_parallel(tenon_parallel_for parallel, i64 begin, i64 end, Body body) {
  if (begin >= end) return 0;
  if (!parallel) return body(begin, end);
  return parallel(begin, end, [](void* context, i64 b, i64 e) { return (*static_cast<Body*>(context))(b, e); }, &body);
}

template <class T>
struct Scratch {
  T* data = nullptr;  // stays null where memory runs out
  explicit Scratch(std::initializer_list<i64> extents) {
    i64 bytes = sizeof(T);
    for (i64 extent : extents) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return;
    }
    if (bytes < INT64_MAX - 64)
      data = static_cast<T*>(std::aligned_alloc(64, (static_cast<u64>(bytes) + 64) / 64 * 64));
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { std::free(data); }
};

template <class V, class T>
V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V, class T>
void store(T* to, V v) {
  std::memcpy(to, &v, sizeof v);
}

// Of x - 0 rather than x + 0, as -0 stays -0.
template <class V, class T>
V splat(T x) {
  return x - V{};
}

template <class V, class F>
V each_lane(i64 first, F f) {
  V v;
  for (i64 lane = 0; lane < i64(sizeof v / sizeof v[0]); ++lane) v[lane] = f(first + lane, lane);
  return v;
}

template <class V, class T>
V gather(const T* from, i64 stride) {
  return each_lane<V>(0, [&](i64 lane, i64) { return from[lane * stride]; });
}

template <class V, class T>
void spread(T* to, i64 stride, V v) {
  for (i64 lane = 0; lane < i64(sizeof v / sizeof v[0]); ++lane) to[lane * stride] = v[lane];
}

template <class V, class F, class... X>
V map(F f, X... x) {
  return each_lane<V>(0, [&](i64 lane, i64) { return f(x[lane]...); });
}

template <class V, class M>
V to_bools(M mask) {
  return __builtin_convertvector(-mask, V);
}

// A product that gcc does not fuse with the sum that it feeds; clang fuses nothing across statements.
#ifdef __clang__
#define rounded(x) (x)
#else
#define rounded(x) __builtin_assoc_barrier(x)
#endif

template <class V>
V mul_add(V a, V b, V c) {
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
  return a * b + c;
}

template <class T, class X>
T bits_as(X x) {
  T t;
  static_assert(sizeof t == sizeof x, "only the type changes");
  std::memcpy(&t, &x, sizeof t);
  return t;
}

inline i64 to_integer(f64 x) { return x >= -0x1p63 && x < 0x1p63 ? static_cast<i64>(x) : INT64_MIN; }

inline f32 from_half(f16 x) { return static_cast<f32>(bits_as<_Float16>(x)); }

template <class T>
f16 to_half(T x) {
  return bits_as<f16>(static_cast<_Float16>(x));
}

inline f32 from_brain(bf16 x) { return bits_as<f32>(static_cast<u32>(x) << 16); }

// Rounds once: first to an odd f32, whose last bit remembers that something was cut off.
inline bf16 to_brain(f64 x) {
  if (x != x) return 0x7fc0;
  const f32 close = static_cast<f32>(x);
  u32 bits = bits_as<u32>(close);
  if (close != x) bits = (bits - (std::fabs(static_cast<f64>(close)) > std::fabs(x))) | 1;
  return static_cast<bf16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
