#include "graph/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/scalar_functions.h"
#include "support/diagnostic.h"

namespace tenon {
namespace {

struct Info {
  std::string_view name;
  int64_t size;
};

constexpr std::array<Info, 10> kInfo = {{{"f64", 8},
                                         {"f32", 4},
                                         {"f16", 2},
                                         {"bf16", 2},
                                         {"i64", 8},
                                         {"i32", 4},
                                         {"i16", 2},
                                         {"i8", 1},
                                         {"u8", 1},
                                         {"bool", 1}}};

const Info& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

// A binary floating format: bits of significand with the hidden one, and the exponent of its smallest step.
struct Format {
  int precision;
  int smallest_step;
  double largest;
};

constexpr Format kHalf = {11, -24, 65504.0};
constexpr Format kBrain = {8, -133, 0x1.FEp127};

double round_to_format(const Format& format, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int step = std::max(exponent - format.precision, format.smallest_step);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -step)), step);
  if (std::abs(rounded) > format.largest) return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

double decode_half(uint16_t bits) {
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  if (exponent == 31) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction | 0x400, exponent - 25);
}

uint16_t encode_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::abs(round_to_format(kHalf, value));
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  int exponent;
  const double significand = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto fraction = static_cast<uint16_t>(std::ldexp(significand, 11)) & 0x3ff;
  return static_cast<uint16_t>(sign | (exponent + 14) << 10 | fraction);
}

template <class T>
T read(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <class T>
void write(std::byte* element, T value) {
  std::memcpy(element, &value, sizeof value);
}

}  // namespace

std::string_view name_of(DType dtype) { return info(dtype).name; }
int64_t size_of(DType dtype) { return info(dtype).size; }

std::optional<DType> dtype_named(std::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    const bool two_halves = size_of(a) == 2 && size_of(b) == 2;
    return two_halves ? DType::kF32 : std::min(a, b);
  }
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  const bool mixed_bytes = size_of(a) == 1 && size_of(b) == 1;
  return mixed_bytes ? DType::kI16 : std::min(a, b);
}

double load_real(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kF64:
      return read<double>(element);
    case DType::kF32:
      return read<float>(element);
    case DType::kF16:
      return decode_half(read<uint16_t>(element));
    case DType::kBF16:
      return from_brain(read<uint16_t>(element));
    default:
      return static_cast<double>(load_integer(dtype, element));
  }
}

int64_t load_integer(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kI64:
      return read<int64_t>(element);
    case DType::kI32:
      return read<int32_t>(element);
    case DType::kI16:
      return read<int16_t>(element);
    case DType::kI8:
      return read<int8_t>(element);
    case DType::kU8:
      return read<uint8_t>(element);
    case DType::kBool:
      return read<uint8_t>(element) != 0;
    default:
      return truncate_to_integer(load_real(dtype, element));
  }
}

void store_real(DType dtype, std::byte* element, double value) {
  switch (dtype) {
    case DType::kF64:
      return write(element, value);
    case DType::kF32:
      return write(element, static_cast<float>(round_to(DType::kF32, value)));
    case DType::kF16:
      return write(element, encode_half(value));
    case DType::kBF16:
      return write(element, to_brain(value));
    case DType::kBool:
      return write<uint8_t>(element, value != 0);
    default:
      return store_integer(dtype, element, truncate_to_integer(value));
  }
}

void store_integer(DType dtype, std::byte* element, int64_t value) {
  switch (dtype) {
    case DType::kI64:
      return write(element, value);
    case DType::kI32:
      return write(element, static_cast<int32_t>(value));
    case DType::kI16:
      return write(element, static_cast<int16_t>(value));
    case DType::kI8:
      return write(element, static_cast<int8_t>(value));
    case DType::kU8:
      return write(element, static_cast<uint8_t>(value));
    case DType::kBool:
      return write<uint8_t>(element, value != 0);
    case DType::kF32:
      return write(element, static_cast<float>(value));  // not through double: it would round twice
    default:
      return store_real(dtype, element, static_cast<double>(value));
  }
}

int64_t truncate_to_integer(double value) { return to_integer(value); }

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return value;
    case DType::kF32: {
      // A conversion out of float's range is undefined in C++; the format's rule gives the infinity.
      constexpr double kRoundsToInfinity = 0x1.FFFFFFp127;
      if (std::abs(value) >= kRoundsToInfinity) return std::copysign(HUGE_VAL, value);
      return static_cast<float>(value);
    }
    case DType::kF16:
      return round_to_format(kHalf, value);
    case DType::kBF16:
      return round_to_format(kBrain, value);
    default:
      break;
  }
  check(false, "round_to({}): not a floating dtype", name_of(dtype));
  return value;
}

int64_t wrap_to(DType dtype, int64_t value) {
  std::byte element[8] = {};
  store_integer(dtype, element, value);
  return load_integer(dtype, element);
}

}  // namespace tenon
