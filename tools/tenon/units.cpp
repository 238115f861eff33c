#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "support/diagnostic.h"

namespace tenon::cli {
namespace {

constexpr std::pair<std::string_view, double> kByteUnits[] = {
    {"", 1},      {"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
    {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};
constexpr double kMostBytes = 0x1p62;

}  // namespace

std::string bytes_text(int64_t bytes) {
  static constexpr std::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.1f} us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.2f} ms", nanoseconds / 1e6);
  return fmt::format("{:.2f} s", nanoseconds / 1e9);
}

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  for (const auto& [name, factor] : kByteUnits) {
    const double bytes = number * factor;
    if (error != std::errc() || unit != name || !(bytes >= 1) || bytes > kMostBytes) continue;
    return static_cast<int64_t>(bytes);
  }
  fail("--budget: '{}' is no number of bytes from 1 to 2^62: say it as 64MiB, 1.5GB or 1000000", text);
}

Budgets parse_budgets(const std::vector<std::string>& arguments) {
  Budgets budgets;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.rfind('=');
    const std::string device = equals == std::string::npos ? "" : argument.substr(0, equals);
    const int64_t bytes = parse_bytes(equals == std::string::npos ? argument : argument.substr(equals + 1));
    const bool is_host = device.empty() || device == "cpu";
    const bool is_known =
        is_host ? budgets.host.has_value()
                : std::ranges::count(budgets.devices, device, &std::pair<std::string, int64_t>::first) > 0;
    if (is_known) fail("--budget {}: there is a budget for {} already", argument, is_host ? "the host" : device);
    if (is_host)
      budgets.host = bytes;
    else
      budgets.devices.emplace_back(device, bytes);
  }
  return budgets;
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

symbolic::Bindings parse_sizes(const std::vector<std::string>& arguments) {
  symbolic::Bindings sizes;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) fail("--size {}: say it as N=64", argument);
    const std::string value = argument.substr(equals + 1);
    int64_t size = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size < 0)
      fail("--size {}: a size is an integer, and not negative", argument);
    const Result<symbolic::Symbol> symbol = attempt([&] { return symbolic::Symbol(argument.substr(0, equals)); });
    if (!symbol) fail("--size {}: {}", argument, symbol.diagnostic().message);
    sizes[*symbol] = size;
  }
  return sizes;
}

}  // namespace tenon::cli
