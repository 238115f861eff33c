#include "runtime/elements.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/scalar_functions.h"

namespace tenon::runtime {
namespace {

// ---- one element of each dtype --------------------------------------------------------------------------------------

double from_half(uint16_t bits) {
  const uint64_t sign = static_cast<uint64_t>(bits >> 15) << 63, fraction = bits & 0x3ff, exponent = bits >> 10 & 0x1f;
  if (exponent == 0) return std::copysign(static_cast<double>(fraction) * 0x1p-24, bits_as<double>(sign));
  const uint64_t wide_exponent = exponent == 0x1f ? 0x7ff : exponent + (1023 - 15);
  return bits_as<double>(sign | wide_exponent << 52 | fraction << 42);
}

uint16_t to_half(double value) {
  constexpr int kDropped = 52 - 10;  // bits of the fraction
  const double magnitude = std::fabs(value);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24));
  uint64_t bits = bits_as<uint64_t>(magnitude);
  bits += (uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  return static_cast<uint16_t>(sign | ((bits >> kDropped) - ((1023 - 15) << 10)));
}

// A conversion out of float's range is undefined in C++; IEEE-754 gives the infinity.
float to_float(double value) {
  constexpr double kRoundsToInfinity = 0x1.FFFFFFp127;
  if (std::fabs(value) >= kRoundsToInfinity) return value < 0 ? -HUGE_VALF : HUGE_VALF;
  return static_cast<float>(value);
}

struct F64 {
  using Stored = double;
  static double real(double x) { return x; }
  static double from_real(double x) { return x; }
};

struct F32 {
  using Stored = float;
  static double real(float x) { return x; }
  static float from_real(double x) { return to_float(x); }
  static float from_integer(int64_t x) { return static_cast<float>(x); }  // not through double, which would round twice
};

struct F16 {
  using Stored = uint16_t;
  static double real(uint16_t x) { return from_half(x); }
  static uint16_t from_real(double x) { return to_half(x); }
};

struct BF16 {
  using Stored = uint16_t;
  static double real(uint16_t x) { return from_brain(x); }
  static uint16_t from_real(double x) { return to_brain(x); }
};

template <class T>
struct Integer {
  using Stored = T;
  static int64_t integer(T x) { return x; }
  static T from_integer(int64_t x) { return static_cast<T>(x); }
};

struct Bool {
  using Stored = uint8_t;
  static int64_t integer(uint8_t x) { return x != 0; }
  static uint8_t from_integer(int64_t x) { return x != 0; }
  static uint8_t from_real(double x) { return x != 0; }
};

// ---- the conversions that a dtype does not state itself -------------------------------------------------------------

template <class Element>
concept Floating = requires(typename Element::Stored x) { Element::real(x); };

template <class Element>
double real_of(typename Element::Stored x) {
  if constexpr (Floating<Element>)
    return Element::real(x);
  else
    return static_cast<double>(Element::integer(x));
}

template <class Element>
int64_t integer_of(typename Element::Stored x) {
  if constexpr (Floating<Element>)
    return to_integer(Element::real(x));
  else
    return Element::integer(x);
}

template <class Element>
typename Element::Stored from_real(double x) {
  if constexpr (requires { Element::from_real(x); })
    return Element::from_real(x);
  else
    return Element::from_integer(to_integer(x));
}

template <class Element>
typename Element::Stored from_integer(int64_t x) {
  if constexpr (requires { Element::from_integer(x); })
    return Element::from_integer(x);
  else
    return Element::from_real(static_cast<double>(x));
}

template <class Visit>
auto visit_float(tenon_dtype dtype, Visit with) {
  if (dtype == TENON_F64) return with(F64());
  if (dtype == TENON_F32) return with(F32());
  if (dtype == TENON_F16) return with(F16());
  return with(BF16());
}

template <class Visit>
auto visit_integer(tenon_dtype dtype, Visit with) {
  if (dtype == TENON_I64) return with(Integer<int64_t>());
  if (dtype == TENON_I32) return with(Integer<int32_t>());
  if (dtype == TENON_I16) return with(Integer<int16_t>());
  if (dtype == TENON_I8) return with(Integer<int8_t>());
  if (dtype == TENON_U8) return with(Integer<uint8_t>());
  return with(Bool());
}

template <class Visit>
auto visit(tenon_dtype dtype, Visit with) {
  return is_float(dtype) ? visit_float(dtype, with) : visit_integer(dtype, with);
}

template <class T>
T read(const std::byte* memory, int64_t position) {
  T value;
  std::memcpy(&value, memory + position * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <class T>
void write(std::byte* memory, int64_t position, T value) {
  std::memcpy(memory + position * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

// Calls `use` with each position.
template <class Use>
void for_each(const Places& places, int64_t count, Use use) {
  if (places.offsets) {
    for (int64_t i = 0; i < count; ++i) use(i, places.offsets[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) use(i, places.first + i * places.stride);
  }
}

// Likewise, with a loop for neighbours: loads gain from one.
template <class Use>
void for_each_read(const Places& places, int64_t count, Use use) {
  if (places.offsets || places.stride != 1) return for_each(places, count, use);
  for (int64_t i = 0; i < count; ++i) use(i, places.first + i);
}

}  // namespace

double load_real(tenon_dtype dtype, const std::byte* element) {
  return visit(dtype, [&]<class E>(E) { return real_of<E>(read<typename E::Stored>(element, 0)); });
}

int64_t load_integer(tenon_dtype dtype, const std::byte* element) {
  return visit(dtype, [&]<class E>(E) { return integer_of<E>(read<typename E::Stored>(element, 0)); });
}

void store_real(tenon_dtype dtype, std::byte* element, double value) {
  visit(dtype, [&]<class E>(E) { write(element, 0, from_real<E>(value)); });
}

void store_integer(tenon_dtype dtype, std::byte* element, int64_t value) {
  visit(dtype, [&]<class E>(E) { write(element, 0, from_integer<E>(value)); });
}

double round_to(tenon_dtype dtype, double value) {
  return visit_float(dtype, [&]<class E>(E) { return real_of<E>(from_real<E>(value)); });
}

void load_reals(tenon_dtype dtype, const Places& from, int64_t count, double* values) {
  visit_float(dtype, [&]<class E>(E) {
    for_each_read(from, count,
                  [&](int64_t i, int64_t at) { values[i] = real_of<E>(read<typename E::Stored>(from.memory, at)); });
  });
}

void load_integers(tenon_dtype dtype, const Places& from, int64_t count, int64_t* values) {
  visit_integer(dtype, [&]<class E>(E) {
    for_each_read(from, count,
                  [&](int64_t i, int64_t at) { values[i] = integer_of<E>(read<typename E::Stored>(from.memory, at)); });
  });
}

void store_reals(tenon_dtype dtype, const Places& to, int64_t count, const double* values, int64_t step) {
  visit(dtype, [&]<class E>(E) {
    for_each(to, count, [&](int64_t i, int64_t at) { write(to.memory, at, from_real<E>(values[i * step])); });
  });
}

void store_integers(tenon_dtype dtype, const Places& to, int64_t count, const int64_t* values, int64_t step) {
  visit(dtype, [&]<class E>(E) {
    for_each(to, count, [&](int64_t i, int64_t at) { write(to.memory, at, from_integer<E>(values[i * step])); });
  });
}

void round_all_to(tenon_dtype dtype, double* values, int64_t count) {
  if (dtype == TENON_F64) return;
  visit_float(dtype, [&]<class E>(E) {
    for (int64_t i = 0; i < count; ++i) values[i] = real_of<E>(from_real<E>(values[i]));
  });
}

void wrap_all_to(tenon_dtype dtype, int64_t* values, int64_t count) {
  if (dtype == TENON_I64) return;
  visit_integer(dtype, [&]<class E>(E) {
    for (int64_t i = 0; i < count; ++i) values[i] = integer_of<E>(from_integer<E>(values[i]));
  });
}

}  // namespace tenon::runtime
