#include "runtime/arena_plan.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>

#include "runtime/allocator.h"
#include "runtime/checked.h"
#include "runtime/kernels/order.h"

namespace tenon::runtime {
namespace {

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// A placed tensor: its offset is the key, its id the position.
using Place = WideEntry;

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
    const Place place = Place::make(static_cast<uint64_t>(offset), static_cast<int64_t>(id));
    all_.insert(std::upper_bound(all_.begin(), all_.end(), place), place);
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
        return at == std::max(first, stretch_at(lifetimes_[static_cast<size_t>(other.position())].first));
      });
    }
    sort_entries(found_.data(), found_.data() + found_.size());
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
    for (const Place& place : placed.neighbours(next)) {
      const auto begin = static_cast<int64_t>(place.key());
      const Lifetime& other = lifetimes[static_cast<size_t>(place.position())];
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

// Reorders tensors by descending keys. Tensors with the same key keep their order.
void reorder(std::span<const Lifetime> lifetimes, std::vector<size_t>& ids, uint64_t (*key)(const Lifetime& tensor)) {
  std::vector<WideEntry> entries;
  for (size_t i = 0; i < ids.size(); ++i)
    entries.push_back(WideEntry::make(~key(lifetimes[ids[i]]), static_cast<int64_t>(i)));
  sort_entries(entries.data(), entries.data() + entries.size());
  const std::vector<size_t> before = ids;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = before[static_cast<size_t>(entries[i].position())];
}

uint64_t by_bytes(const Lifetime& tensor) { return static_cast<uint64_t>(tensor.bytes); }
uint64_t by_length(const Lifetime& tensor) { return static_cast<uint64_t>(tensor.last - tensor.first); }
uint64_t by_area(const Lifetime& tensor) {  // the bits of doubles from 0 on are in the doubles' order
  return std::bit_cast<uint64_t>(static_cast<double>(tensor.bytes) *
                                 static_cast<double>(tensor.last - tensor.first + 1));
}
uint64_t by_start(const Lifetime& tensor) { return ~static_cast<uint64_t>(tensor.first); }

}  // namespace

// Large tensors are hard to place, and so are long-lived ones: takes the order that needs less memory.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  const int64_t least = least_arena(lifetimes);
  ArenaPlan best{{}, INT64_MAX};
  for (uint64_t (*const key)(const Lifetime&) : {by_bytes, by_area, by_length, by_start}) {
    std::vector<size_t> ids(lifetimes.size());
    std::iota(ids.begin(), ids.end(), size_t{0});
    if (key == by_length) reorder(lifetimes, ids, by_bytes);  // the larger first of those that live as long
    reorder(lifetimes, ids, key);
    ArenaPlan plan = place_in_order(lifetimes, ids);
    if (plan.bytes < best.bytes) best = std::move(plan);
    if (best.bytes == least) break;
  }
  return best;
}

int64_t least_arena(std::span<const Lifetime> lifetimes) {
  std::vector<WideEntry> changes;  // of the live bytes: the key is the time, the position the difference
  for (const Lifetime& lifetime : lifetimes) {
    changes.push_back(WideEntry::make(static_cast<uint64_t>(lifetime.first), aligned_size(lifetime.bytes)));
    changes.push_back(WideEntry::make(static_cast<uint64_t>(lifetime.last + 1), -aligned_size(lifetime.bytes)));
  }
  sort_entries(changes.data(), changes.data() + changes.size());  // at the same time, ends come before starts
  int64_t live = 0, most = 0;
  for (const WideEntry& change : changes) most = std::max(most, live = checked_add(live, change.position()));
  return most;
}

}  // namespace tenon::runtime
