#include "program/memory_report.h"

#include <algorithm>

#include "support/checked.h"

namespace tenon {
namespace {

constexpr size_t kMostListed = 3;

}  // namespace

int64_t bytes_of(std::span<const KeptMemory> kept) {
  int64_t total = 0;
  for (const KeptMemory& each : kept) total = checked_add(total, each.bytes);
  return total;
}

std::string list_largest(std::vector<KeptMemory> kept) {
  std::ranges::stable_sort(kept, std::greater(), &KeptMemory::bytes);
  std::string text;
  for (size_t i = 0; i < std::min(kept.size(), kMostListed); ++i) {
    text += fill_in("{}{} {}", i == 0 ? "" : ", ", kept[i].what, kept[i].bytes);
  }
  if (kept.size() > kMostListed) text += fill_in(" and {} others", kept.size() - kMostListed);
  return text;
}

}  // namespace tenon
