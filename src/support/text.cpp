#include "support/text.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tenon {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> candidates) {
  if (candidates.empty() || wrong.size() > 64) return "";
  const auto distance = [&](std::string_view candidate) { return edit_distance(wrong, candidate); };
  const auto best = std::ranges::min_element(candidates, {}, distance);
  const size_t tolerated = std::max<size_t>(1, wrong.size() / 3);
  if (distance(*best) > tolerated) return "";
  return "; did you mean '" + std::string(*best) + "'?";
}

}  // namespace tenon
