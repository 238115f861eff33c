#include "sweep_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/diagnostic.h"

namespace tenon::cli {
namespace {

constexpr size_t kMostPoints = 4096;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char letter : text) letter == separator ? parts.emplace_back().clear() : parts.back().push_back(letter);
  return parts;
}

}  // namespace

std::vector<SweepAxis> parse_grid(const std::string& text) {
  std::vector<SweepAxis> grid;
  for (const std::string& part : split(text, ';')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      fail("--grid: '{}' is no axis: say it as size=8,16,32, and separate axes with ';'", part);
    SweepAxis axis{part.substr(0, equals), split(part.substr(equals + 1), ',')};
    if (std::ranges::find(axis.values, "") != axis.values.end())
      fail("--grid: option {} has an empty value in '{}'", axis.option, part);
    if (std::ranges::find(grid, axis.option, &SweepAxis::option) != grid.end())
      fail("--grid: option {} is there twice", axis.option);
    grid.push_back(std::move(axis));
  }
  return grid;
}

std::vector<SweepOptions> points_of(const std::vector<SweepAxis>& grid) {
  std::vector<SweepOptions> points(1);
  for (const SweepAxis& axis : grid) {
    std::vector<SweepOptions> more;
    for (const SweepOptions& point : points) {
      for (const std::string& value : axis.values) {
        more.push_back(point);
        more.back().emplace_back(axis.option, value);
      }
      if (more.size() > kMostPoints) fail("--grid: there are more than {} points", kMostPoints);
    }
    points = std::move(more);
  }
  return points;
}

std::string spec_at(const std::string& device, const SweepOptions& options) {
  const size_t colon = device.find(':');
  const std::string given = colon == std::string::npos ? "" : device.substr(colon + 1);
  std::string spec = device;
  for (const auto& [option, value] : options) {
    for (const std::string& each : split(given, ',')) {
      if (each.starts_with(option + "=")) fail("option {} is in --device and in --grid", option);
    }
    const bool is_first = spec.find(':') == std::string::npos;
    spec += fmt::format("{}{}={}", is_first ? ":" : spec.ends_with(':') ? "" : ",", option, value);
  }
  return spec;
}

}  // namespace tenon::cli
