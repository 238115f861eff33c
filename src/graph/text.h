// Parts of the text forms of graphs and of loops: elements, dtypes, ranges of symbols and lists. Every parsing function
// throws an Error with its place.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "support/cursor.h"
#include "symbolic/expr.h"

namespace tenon {

template <class T>
T parse_number(std::string_view text, const Location& where) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) fail_at(where, "the number '{}' is out of range", text);
  if (error != std::errc() || end != text.data() + text.size()) fail_at(where, "'{}' is not a number", text);
  return value;
}

// One element of a tensor, with digits that are read back to the same bits: "0.5", "-3", "true", "nan(0x7fc00001)".
std::string element_to_string(const Tensor& tensor, int64_t offset);
void parse_element(Cursor& cursor, Tensor& tensor, int64_t offset);
uint64_t element_bits(const Tensor& tensor, int64_t offset);

DType parse_dtype(Cursor& cursor);

// "symbol N in [1, 64]"
std::string symbol_line(symbolic::Symbol symbol, symbolic::Interval range);
struct SymbolRange {
  Location where;
  symbolic::Symbol symbol;
  symbolic::Interval range;
};
SymbolRange parse_symbol_range(Cursor& cursor);  // what follows the word "symbol"

// "[item, item]"
template <class T, class Item>
std::vector<T> parse_list(Cursor& cursor, Item item) {
  std::vector<T> items;
  cursor.expect("[");
  if (cursor.accept("]")) return items;
  do items.push_back(item());
  while (cursor.accept(","));
  cursor.expect("]");
  return items;
}

// did_you_mean for names that the user chose. Short names suggest nothing: all other short names are near.
std::string did_you_mean_name(std::string_view wrong, const std::vector<std::string_view>& names);

void expect_end(Cursor& cursor, std::string_view what);  // "text after the end of {what}"

}  // namespace tenon
