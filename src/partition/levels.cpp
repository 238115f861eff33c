#include "partition/levels.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

namespace tenon {
namespace {

class Levels {
 public:
  Levels(const Graph& graph, const Flow& flow, const std::vector<uint32_t>& owners)
      : graph_(graph), flow_(flow), owners_(owners), of_(least_levels(flow, owners)) {}

  std::vector<uint32_t> run() {
    merge_segments();
    count_readers();
    for (auto id = static_cast<uint32_t>(of_.size()); id-- > 0;) move_to_user(id);
    return std::move(of_);
  }

 private:
  static constexpr uint32_t kAny = std::numeric_limits<uint32_t>::max();

  // The highest level of a node that leaves this user above it.
  uint32_t limit(uint32_t id, uint32_t user) const { return of_[user] - (owners_[user] == owners_[id] ? 0 : 1); }

  // ---- whole segments ----

  // Moves each segment to the next one of its claimant, if no dependency forbids it: together they run once.
  void merge_segments() {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> segments;  // nodes by owner and level
    for (uint32_t id = 0; id < of_.size(); ++id) segments[{owners_[id], of_[id]}].push_back(id);
    for (auto later = segments.rbegin(); later != segments.rend(); ++later) {
      const auto earlier = std::next(later);
      if (earlier == segments.rend() || earlier->first.first != later->first.first) continue;
      const uint32_t level = of_[later->second[0]];
      if (!can_rise(earlier->second, level)) continue;
      for (uint32_t id : earlier->second) of_[id] = level;
    }
  }

  bool can_rise(const std::vector<uint32_t>& segment, uint32_t level) const {
    return std::ranges::all_of(segment, [&](uint32_t id) {
      return std::ranges::all_of(flow_.users[id], [&](uint32_t user) {
        const bool moves_along = owners_[user] == owners_[id] && of_[user] == of_[id];
        return moves_along || limit(id, user) >= level;
      });
    });
  }

  // ---- single nodes ----

  uint64_t border(ValueRef value, uint32_t owner, uint32_t level) const {
    return (uint64_t{value.id} << 32) | (uint64_t{level} * owner_count_ + owner);
  }

  // How many nodes of each segment read a value that the segment does not make.
  void count_readers() {
    owner_count_ = owners_.empty() ? 1 : *std::ranges::max_element(owners_) + 1;
    for (uint32_t id = 0; id < of_.size(); ++id) {
      for_each_operand(id, [&](ValueRef operand) { ++readers_[border(operand, owners_[id], of_[id])]; });
    }
  }

  template <class Function>
  void for_each_operand(uint32_t id, Function function) const {
    for (ValueRef operand : graph_.nodes()[id].operands) {
      if (operand) function(operand);
    }
  }

  // Moves a node to the segment of its first user, if that segment is a later one of the same claimant, and if no more
  // bytes pass from segment to segment than before. A move that changes nothing lets the nodes before it follow.
  void move_to_user(uint32_t id) {
    uint32_t level = kAny;
    bool has_own_user = false;
    for (uint32_t user : flow_.users[id]) level = std::min(level, limit(id, user));
    for (uint32_t user : flow_.users[id]) has_own_user |= owners_[user] == owners_[id] && of_[user] == level;
    if (level == kAny || level <= of_[id] || !has_own_user || added_bytes(id, level) > 0) return;
    for_each_operand(id, [&](ValueRef operand) {
      --readers_[border(operand, owners_[id], of_[id])];
      ++readers_[border(operand, owners_[id], level)];
    });
    of_[id] = level;
  }

  double added_bytes(uint32_t id, uint32_t level) const {
    double bytes = 0;
    for (ValueRef result : graph_.nodes()[id].results) {
      if (reader_count(result, owners_[id], level) > 0) bytes -= flow_.bytes[result.id];
    }
    for_each_operand(id, [&](ValueRef operand) {
      const NodeRef producer = graph_.producer(operand);
      const bool is_made_there = producer && owners_[producer.id] == owners_[id] && of_[producer.id] == of_[id];
      if (!is_made_there && reader_count(operand, owners_[id], of_[id]) == 1) bytes -= flow_.bytes[operand.id];
      if (reader_count(operand, owners_[id], level) == 0) bytes += flow_.bytes[operand.id];
    });
    return bytes;
  }

  uint32_t reader_count(ValueRef value, uint32_t owner, uint32_t level) const {
    const auto found = readers_.find(border(value, owner, level));
    return found == readers_.end() ? 0 : found->second;
  }

  const Graph& graph_;
  const Flow& flow_;
  const std::vector<uint32_t>& owners_;
  std::vector<uint32_t> of_;  // by node
  uint64_t owner_count_ = 1;
  std::unordered_map<uint64_t, uint32_t> readers_;  // by value and segment
};

}  // namespace

std::vector<uint32_t> least_levels(const Flow& flow, const std::vector<uint32_t>& owners) {
  std::vector<uint32_t> levels(owners.size());
  for (uint32_t id = 0; id < owners.size(); ++id) {
    for (uint32_t needed : flow.needs[id])
      levels[id] = std::max(levels[id], levels[needed] + (owners[needed] == owners[id] ? 0 : 1));
  }
  return levels;
}

std::vector<uint32_t> choose_levels(const Graph& graph, const Flow& flow, const std::vector<uint32_t>& owners) {
  return Levels(graph, flow, owners).run();
}

}  // namespace tenon
