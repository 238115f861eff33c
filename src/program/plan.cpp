#include "program/plan.h"

#include <algorithm>
#include <numeric>

#include "support/checked.h"

namespace tenon {
namespace {

int64_t aligned(int64_t bytes) {
  return checked_mul(checked_add(bytes, kArenaAlignment - 1) / kArenaAlignment, kArenaAlignment);
}

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

// The largest first, each at the lowest place that is free while it lives.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return lifetimes[a].bytes != lifetimes[b].bytes ? lifetimes[a].bytes > lifetimes[b].bytes : a < b;
  });

  ArenaPlan plan{std::vector<int64_t>(lifetimes.size()), 0};
  std::vector<size_t> placed;  // by offset
  for (size_t next : order) {
    int64_t offset = 0;
    for (size_t other : placed) {
      if (!meet(lifetimes[next], lifetimes[other])) continue;
      if (checked_add(offset, lifetimes[next].bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, checked_add(plan.offsets[other], aligned(lifetimes[other].bytes)));
    }
    plan.offsets[next] = offset;
    plan.bytes = std::max(plan.bytes, checked_add(offset, aligned(lifetimes[next].bytes)));
    const auto at = std::ranges::upper_bound(placed, offset, {}, [&](size_t id) { return plan.offsets[id]; });
    placed.insert(at, next);
  }
  return plan;
}

}  // namespace tenon
