// Element types: their names, sizes, PyTorch's promotion rules, and exact conversions between them and the two domains
// in which the reference semantics compute (double for floating types, int64 for integers and bool).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

inline constexpr std::array kAllDTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                                          DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

std::string_view name_of(DType dtype);                    // "f32"
std::optional<DType> dtype_named(std::string_view name);  // the inverse
int64_t size_of(DType dtype);                             // in bytes

constexpr bool is_float(DType dtype) { return dtype <= DType::kBF16; }
constexpr bool is_integral(DType dtype) { return !is_float(dtype); }  // bool included
constexpr bool is_narrow_float(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
// f32 for f16 and bf16, whose arithmetic is done in f32; other dtypes as they are.
constexpr DType wide(DType dtype) { return is_narrow_float(dtype) ? DType::kF32 : dtype; }

// A set of dtypes, as the op table uses it.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType dtype) : bits_(1u << static_cast<unsigned>(dtype)) {}  // NOLINT: one dtype is a set
  constexpr bool contains(DType dtype) const { return (bits_ >> static_cast<unsigned>(dtype)) & 1u; }
  constexpr DTypeSet operator|(DTypeSet other) const { return DTypeSet(bits_ | other.bits_, 0); }
  constexpr bool operator==(const DTypeSet&) const = default;

 private:
  constexpr DTypeSet(unsigned bits, int) : bits_(bits) {}
  unsigned bits_ = 0;
};

constexpr DTypeSet operator|(DType a, DType b) { return DTypeSet(a) | DTypeSet(b); }

inline constexpr DTypeSet kFloats = DType::kF64 | DType::kF32 | DType::kF16 | DType::kBF16;
inline constexpr DTypeSet kInts = DTypeSet(DType::kI64) | DType::kI32 | DType::kI16 | DType::kI8 | DType::kU8;
inline constexpr DTypeSet kBools = DTypeSet(DType::kBool);
inline constexpr DTypeSet kIndices = DType::kI64 | DType::kI32;
inline constexpr DTypeSet kNumbers = kFloats | kInts;
inline constexpr DTypeSet kIntegers = kInts | kBools;
inline constexpr DTypeSet kAny = kNumbers | kBools;

std::string to_string(DTypeSet set, std::string_view separator);  // "f32, f16"

// The smallest dtype that PyTorch promotes both to (u8 with i8 is i16, f16 with bf16 is f32, i64 with f16 is f16).
DType promote(DType a, DType b);

// One element in memory, read and written in the reference domains. Reading a float as an integer truncates; NaN and
// what does not fit 64 bits give the smallest int64. Storing an integer wraps; storing into a bool tests for non-zero.
// Storing a double into a narrower float rounds once, to nearest even.
double load_real(DType dtype, const std::byte* element);
int64_t load_integer(DType dtype, const std::byte* element);
void store_real(DType dtype, std::byte* element, double value);
void store_integer(DType dtype, std::byte* element, int64_t value);

int64_t truncate_to_integer(double value);    // as load_integer does
double round_to(DType dtype, double value);   // the nearest value of a floating dtype, ties to even
int64_t wrap_to(DType dtype, int64_t value);  // modulo 2^bits; for bool, value != 0

}  // namespace tenon
