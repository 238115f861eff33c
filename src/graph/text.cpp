#include "graph/text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "graph/attr.h"
#include "support/text.h"

namespace tenon {
namespace {

void parse_nan_bits(Cursor& cursor, Tensor& tensor, int64_t offset) {
  const Location where = cursor.here();
  cursor.expect("0x");
  const std::string_view digits = cursor.name("the bits of the NaN");
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  const int width = static_cast<int>(size_of(tensor.dtype())) * 8;
  const bool fits = width == 64 || bits >> width == 0;
  if (error != std::errc() || end != digits.data() + digits.size() || !fits) fail_at(where, "not the bits of a NaN");
  std::memcpy(tensor.data() + offset * size_of(tensor.dtype()), &bits, static_cast<size_t>(width / 8));
  if (!std::isnan(tensor.real(offset))) fail_at(where, "0x{} is not a NaN", digits);
  cursor.expect(")");
}

}  // namespace

uint64_t element_bits(const Tensor& tensor, int64_t offset) {
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data() + offset * size_of(tensor.dtype()), static_cast<size_t>(size_of(tensor.dtype())));
  return bits;
}

std::string element_to_string(const Tensor& tensor, int64_t offset) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kBool) return tensor.integer(offset) != 0 ? "true" : "false";
  if (is_integral(dtype)) return std::to_string(tensor.integer(offset));
  const double value = tensor.real(offset);
  if (std::isnan(value)) {
    const Tensor usual = Tensor::scalar(dtype, std::nan(""));
    const uint64_t bits = element_bits(tensor, offset);
    return bits == element_bits(usual, 0) ? "nan" : fmt::format("nan(0x{:x})", bits);
  }
  if (dtype == DType::kF64 || std::isinf(value)) return real_to_string(value);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr;
  return with_point(std::string(buffer, end));
}

void parse_element(Cursor& cursor, Tensor& tensor, int64_t offset) {
  const Location where = cursor.here();
  const std::string_view text = cursor.number("a number");
  const DType dtype = tensor.dtype();
  if (dtype == DType::kBool) {
    if (text != "true" && text != "false") fail_at(where, "'{}' is not true or false", text);
    return tensor.set_integer(offset, text == "true");
  }
  if (is_integral(dtype)) {
    const auto value = parse_number<int64_t>(text, where);
    if (wrap_to(dtype, value) != value) fail_at(where, "{} does not fit {}", value, name_of(dtype));
    return tensor.set_integer(offset, value);
  }
  if (text == "nan" && cursor.accept("(")) return parse_nan_bits(cursor, tensor, offset);
  if (dtype == DType::kF64) return tensor.set_real(offset, parse_number<double>(text, where));
  const auto value = parse_number<float>(text, where);
  tensor.set_real(offset, value);
  if (std::isinf(tensor.real(offset)) && !std::isinf(value)) {
    fail_at(where, "{} does not fit {}", text, name_of(dtype));
  }
}

DType parse_dtype(Cursor& cursor) {
  const Location where = cursor.here();
  const std::string_view name = cursor.identifier("a dtype");
  const auto dtype = dtype_named(name);
  if (!dtype) fail_at(where, "'{}' is not a dtype: use f64 f32 f16 bf16 i64 i32 i16 i8 u8 or bool", name);
  return *dtype;
}

std::string symbol_line(symbolic::Symbol symbol, symbolic::Interval range) {
  return fmt::format("symbol {} in {}", symbol.name(), to_string(range));
}

SymbolRange parse_symbol_range(Cursor& cursor) {
  const Location where = cursor.here();
  const symbolic::Symbol symbol = located(where, [&] { return symbolic::Symbol(cursor.identifier("a symbol")); });
  if (!cursor.accept_word("in")) cursor.expected("'in [low, high]'");
  cursor.expect("[");
  const int64_t low = cursor.accept("-inf") ? symbolic::Interval::all().low : cursor.integer("the lower bound");
  cursor.expect(",");
  const int64_t high = cursor.accept_word("inf") ? symbolic::Interval::all().high : cursor.integer("the upper bound");
  cursor.expect("]");
  return {where, symbol, {low, high}};
}

std::string did_you_mean_name(std::string_view wrong, const std::vector<std::string_view>& names) {
  return wrong.size() < 3 ? "" : did_you_mean(wrong, names);
}

void expect_end(Cursor& cursor, std::string_view what) {
  if (!cursor.at_end()) cursor.fail("text after the end of {}", what);
}

}  // namespace tenon
