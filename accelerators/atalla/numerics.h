// Atalla's arithmetic, as every body does it: IEEE single precision, rounded to nearest even, with two simplifications
// that save hardware. A subnormal number is a zero of the same sign, as operand and as result; every NaN is kNan.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace atalla {

inline constexpr uint32_t kNan = 0x7fc00000;

// Without branches, so that loops of it become vector instructions.
inline float flush(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(bits & ((bits & 0x7f800000U) != 0 ? 0xffffffffU : 0x80000000U));
}

inline uint32_t canonical(float x) { return x != x ? kNan : std::bit_cast<uint32_t>(x); }

inline float from_bf16(uint16_t x) { return flush(std::bit_cast<float>(static_cast<uint32_t>(x) << 16)); }

inline uint16_t to_bf16(float x) {
  const uint32_t bits = canonical(x);
  if (bits == kNan) return kNan >> 16;
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

// The nearest integer, of two the even one, plus the zero point, within int8. A NaN counts as 0.
inline int8_t to_i8(float x, int zero_point) {
  const float bounded = x != x ? 0.0F : x < -512.0F ? -512.0F : x > 512.0F ? 512.0F : x;
  const int value = static_cast<int>(std::nearbyint(bounded)) + zero_point;
  return static_cast<int8_t>(value < -128 ? -128 : value > 127 ? 127 : value);
}

inline int32_t wrapping_add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

}  // namespace atalla
