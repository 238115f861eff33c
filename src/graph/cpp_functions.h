// What the text of cpp_text.h calls: a file of functions to be put into other texts, like scalar_functions.h, after the
// typedefs that cpp_text.h names.

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

// ---- f16, as bits: C++17 has no name for it, compilers have
// -----------------------------------------------------------

inline f32 from_half(f16 x) { return static_cast<f32>(bits_as<_Float16>(x)); }

template <class T>
f16 to_half(T x) {
  return bits_as<f16>(static_cast<_Float16>(x));
}
