#include "runtime/arena_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "runtime/allocator.h"
#include "runtime/checked.h"

namespace tenon::runtime {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// A placed tensor: its offset and its id. Pairs of integers, as other lists that the runtime sorts: so they share its
// code.
using Place = std::pair<int64_t, int64_t>;

// The placed tensors, by offset and by range of time. In a program of many tasks, few tensors live in one range.
class Placed {
 public:
  explicit Placed(std::span<const Lifetime> lifetimes) : lifetimes_(lifetimes) {
    constexpr size_t kMostStretches = 1024, kTensorsOfStretch = 16;
    const size_t stretches = std::min(kMostStretches, lifetimes.size() / kTensorsOfStretch + 1);
    int64_t end = 0;
    for (const Lifetime& lifetime : lifetimes) end = std::max(end, lifetime.last);
    length_ = end / static_cast<int64_t>(stretches) + 1;
    stretches_.resize(stretches);
  }

  void add(size_t id, int64_t offset) {
    const Place place(offset, id);
    all_.insert(std::ranges::upper_bound(all_, place), place);
    for (size_t at = stretch_at(lifetimes_[id].first); at <= stretch_at(lifetimes_[id].last); ++at)
      stretches_[at].push_back(place);
  }

  // The placed tensors of the ranges in which this tensor lives, by offset. Some of them live at another time.
  const std::vector<Place>& neighbours(size_t id) {
    const size_t first = stretch_at(lifetimes_[id].first), last = stretch_at(lifetimes_[id].last);
    size_t entries = 0;
    for (size_t at = first; at <= last; ++at) entries += stretches_[at].size();
    if (entries > all_.size() / 16) return all_;  // sorted already
    found_.clear();
    for (size_t at = first; at <= last; ++at) {
      std::ranges::copy_if(stretches_[at], std::back_inserter(found_), [&](const Place& other) {
        return at == std::max(first, stretch_at(lifetimes_[static_cast<size_t>(other.second)].first));
      });
    }
    std::ranges::sort(found_);
    return found_;
  }

 private:
  size_t stretch_at(int64_t time) const { return static_cast<size_t>(time / length_); }

  std::span<const Lifetime> lifetimes_;
  int64_t length_;
  std::vector<std::vector<Place>> stretches_;
  std::vector<Place> all_, found_;
};

// Places each tensor, in this order, at the lowest offset that is free while it lives.
ArenaPlan place_in_order(std::span<const Lifetime> lifetimes, const std::vector<size_t>& order) {
  ArenaPlan plan{std::vector<int64_t>(lifetimes.size()), 0};
  Placed placed(lifetimes);
  for (size_t next : order) {
    int64_t offset = 0;
    for (const auto& [begin, id] : placed.neighbours(next)) {
      const Lifetime& other = lifetimes[static_cast<size_t>(id)];
      if (!meet(lifetimes[next], other)) continue;
      if (checked_add(offset, lifetimes[next].bytes) <= begin) break;
      offset = std::max(offset, checked_add(begin, aligned_size(other.bytes)));
    }
    plan.offsets[next] = offset;
    plan.bytes = std::max(plan.bytes, checked_add(offset, aligned_size(lifetimes[next].bytes)));
    placed.add(next, offset);
  }
  return plan;
}

using Rank = std::pair<double, int64_t>;

// One sort function for all orders.
std::vector<size_t> highest_first(const std::vector<Rank>& ranks) {
  std::vector<size_t> order(ranks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return std::pair(ranks[a], b) > std::pair(ranks[b], a); });
  return order;
}

Rank by_bytes(const Lifetime& tensor) { return {0, tensor.bytes}; }
Rank by_area(const Lifetime& tensor) {
  return {static_cast<double>(tensor.bytes) * static_cast<double>(tensor.last - tensor.first + 1), 0};
}
Rank by_length(const Lifetime& tensor) { return {static_cast<double>(tensor.last - tensor.first), tensor.bytes}; }
Rank by_start(const Lifetime& tensor) { return {0, -tensor.first}; }

}  // namespace

// Large tensors are hard to place, and so are long-lived ones: takes the order that needs less memory.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  const int64_t least = least_arena(lifetimes);
  ArenaPlan best{{}, INT64_MAX};
  std::vector<Rank> ranks(lifetimes.size());
  for (Rank (*const rank)(const Lifetime&) : {by_bytes, by_area, by_length, by_start}) {
    std::ranges::transform(lifetimes, ranks.begin(), rank);
    ArenaPlan plan = place_in_order(lifetimes, highest_first(ranks));
    if (plan.bytes < best.bytes) best = std::move(plan);
    if (best.bytes == least) break;
  }
  return best;
}

int64_t least_arena(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // changes of the live bytes: time, difference
  for (const Lifetime& lifetime : lifetimes) {
    changes.emplace_back(lifetime.first, aligned_size(lifetime.bytes));
    changes.emplace_back(lifetime.last + 1, -aligned_size(lifetime.bytes));
  }
  std::ranges::sort(changes);  // at the same time, ends come before starts
  int64_t live = 0, most = 0;
  for (const auto& [when, bytes] : changes) most = std::max(most, live = checked_add(live, bytes));
  return most;
}

}  // namespace tenon::runtime
