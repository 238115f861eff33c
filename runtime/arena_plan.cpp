#include "runtime/arena_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/allocator.h"
#include "runtime/checked.h"

namespace tenon::runtime {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// In that order, each at the lowest place that is free while it lives.
ArenaPlan place_in_order(std::span<const Lifetime> lifetimes, const std::vector<size_t>& order) {
  ArenaPlan plan{std::vector<int64_t>(lifetimes.size()), 0};
  std::vector<size_t> placed;  // by offset
  for (size_t next : order) {
    int64_t offset = 0;
    for (size_t other : placed) {
      if (!meet(lifetimes[next], lifetimes[other])) continue;
      if (checked_add(offset, lifetimes[next].bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, checked_add(plan.offsets[other], aligned_size(lifetimes[other].bytes)));
    }
    plan.offsets[next] = offset;
    plan.bytes = std::max(plan.bytes, checked_add(offset, aligned_size(lifetimes[next].bytes)));
    const auto at = std::ranges::upper_bound(placed, offset, {}, [&](size_t id) { return plan.offsets[id]; });
    placed.insert(at, next);
  }
  return plan;
}

template <class Key>
std::vector<size_t> largest_first(size_t count, Key key) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return std::pair(key(a), b) > std::pair(key(b), a); });
  return order;
}

}  // namespace

// What is large is hard to place, and so is what lives long: whichever of these orders needs less.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  const int64_t least = least_arena(lifetimes);
  ArenaPlan best =
      place_in_order(lifetimes, largest_first(lifetimes.size(), [&](size_t i) { return lifetimes[i].bytes; }));
  const auto try_order = [&](auto key) {
    if (best.bytes == least) return;
    ArenaPlan plan = place_in_order(lifetimes, largest_first(lifetimes.size(), key));
    if (plan.bytes < best.bytes) best = std::move(plan);
  };
  try_order([&](size_t i) {
    return static_cast<double>(lifetimes[i].bytes) * static_cast<double>(lifetimes[i].last - lifetimes[i].first + 1);
  });
  try_order([&](size_t i) { return std::pair(lifetimes[i].last - lifetimes[i].first, lifetimes[i].bytes); });
  try_order([&](size_t i) { return -lifetimes[i].first; });
  return best;
}

int64_t least_arena(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // of the bytes that live: when, by how much
  for (const Lifetime& lifetime : lifetimes) {
    changes.emplace_back(lifetime.first, aligned_size(lifetime.bytes));
    changes.emplace_back(lifetime.last + 1, -aligned_size(lifetime.bytes));
  }
  std::ranges::sort(changes);  // at one time, what ends comes first
  int64_t live = 0, most = 0;
  for (const auto& [when, bytes] : changes) most = std::max(most, live = checked_add(live, bytes));
  return most;
}

}  // namespace tenon::runtime
