// Vectors of GNU C++, and f16: functions for emitted text. Like runtime/scalar_functions.h this is a file to be put
// into other texts, there after the typedefs that cpp_text.h names.

// ---- vectors --------------------------------------------------------------------------------------------------------

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
V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V, class T>
void store(T* to, V v) {
  std::memcpy(to, &v, sizeof v);
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

// ---- f16, as bits --------------------------------------------------------------------------------------------------

inline f32 from_half(f16 x) { return static_cast<f32>(bits_as<_Float16>(x)); }

template <class T>
f16 to_half(T x) {
  return bits_as<f16>(static_cast<_Float16>(x));
}
