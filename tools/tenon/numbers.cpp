#include "numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace tenon::cli {
namespace {

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// NaN is in no range.
template <class Number>
CLI::Validator in_range(std::string_view kind, Number low, Number high) {
  const auto problem_of = [=](const std::string& text) -> std::string {
    const std::optional<Number> number = parsed<Number>(text);
    if (number && *number >= low && *number <= high) return "";
    return fmt::format("'{}' is no {} from {} to {}", text, kind, low, high);
  };
  return CLI::Validator(problem_of, "");
}

}  // namespace

CLI::Validator integer_from(int64_t low, int64_t high) { return in_range("integer", low, high); }
CLI::Validator number_from(double low, double high) { return in_range("number", low, high); }

}  // namespace tenon::cli
