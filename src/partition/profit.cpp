#include "partition/profit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "partition/free_nodes.h"
#include "partition/levels.h"

namespace tenon {
namespace {

constexpr int kMostRounds = 8;

class Profit {
 public:
  Profit(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
         std::vector<uint32_t>& owners, std::vector<uint32_t>& moved)
      : graph_(graph),
        flow_(flow),
        claims_(claims),
        crossings_(crossings),
        owners_(owners),
        moved_(moved),
        reader_count_(graph.value_count() * claims.claimant_count()) {
    for (uint32_t id = 0; id < owners.size(); ++id) count_reads(id, 1);
  }

  bool run() {
    bool any = false;
    for (int round = 0; round < kMostRounds && run_round(); ++round) any = true;
    return any;
  }

 private:
  bool run_round() {
    bool any = false;
    for (const std::vector<uint32_t>& part : parts()) {
      if (owners_[part[0]] != crossings_.host()) any |= move_if_unprofitable(part);
    }
    return any;
  }

  // ---- nodes of one segment that hang together ----

  uint32_t root(uint32_t id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

  // By their first nodes.
  std::vector<std::vector<uint32_t>> parts() {
    const std::vector<uint32_t> levels = least_levels(flow_, owners_);
    parent_.resize(owners_.size());
    for (uint32_t id = 0; id < owners_.size(); ++id) parent_[id] = id;
    for (uint32_t id = 0; id < owners_.size(); ++id) {
      for (uint32_t needed : flow_.needs[id]) {
        if (owners_[needed] != owners_[id] || levels[needed] != levels[id]) continue;
        const auto [low, high] = std::minmax({root(needed), root(id)});
        parent_[high] = low;
      }
    }
    std::vector<std::vector<uint32_t>> parts;
    std::vector<uint32_t> part_of(owners_.size());
    for (uint32_t id = 0; id < owners_.size(); ++id) {
      if (parent_[id] == id) {
        part_of[id] = static_cast<uint32_t>(parts.size());
        parts.emplace_back();
      }
      parts[part_of[root(id)]].push_back(id);
    }
    return parts;
  }

  // ---- what a move changes ----

  struct Move {
    double gain;       // Seconds that the nodes save where they are.
    double transfers;  // Seconds of transfers that the move saves.
    std::vector<uint32_t> owners;
    double saved() const { return transfers - gain; }
  };

  bool move_if_unprofitable(const std::vector<uint32_t>& part) {
    std::optional<Move> best;
    for (uint32_t from = owners_[part[0]] + 1; from <= crossings_.host(); ++from) {
      std::optional<Move> move = move_to(part, from);
      if (move && move->saved() > (best ? best->saved() : 0)) best = std::move(move);
    }
    if (!best) return false;
    assign(part, best->owners);
    const uint32_t reason = claims_.add_reason(fmt::format("saves {:.1f} us there, and its transfers take {:.1f} us",
                                                           best->gain * 1e6, best->transfers * 1e6));
    for (uint32_t id : part) moved_[id] = reason + 1;
    return true;
  }

  void assign(const std::vector<uint32_t>& part, const std::vector<uint32_t>& owners) {
    for (size_t i = 0; i < part.size(); ++i) {
      count_reads(part[i], ~0u);
      owners_[part[i]] = owners[i];
      count_reads(part[i], 1);
    }
  }

  uint32_t& readers(ValueRef value, uint32_t claimant) {
    return reader_count_[value.id * claims_.claimant_count() + claimant];
  }

  void count_reads(uint32_t id, uint32_t change) {
    for (ValueRef operand : graph_.nodes()[id].operands) {
      if (operand) readers(operand, owners_[id]) += change;
    }
  }

  // Each node goes to the first claimant from this one on that accepts it. Nothing, where somebody states no seconds.
  std::optional<Move> move_to(const std::vector<uint32_t>& part, uint32_t from) {
    Move move{};
    std::vector<uint32_t> old;
    for (uint32_t id : part) {
      const double here = stated(owners_[id], id);
      if (here < 0) return std::nullopt;
      const uint32_t next = claims_.first_acceptor(id, from);
      const double there = stated(next, id);
      if (there < 0) return std::nullopt;
      move.gain += there - here;
      move.owners.push_back(next);
      old.push_back(owners_[id]);
    }
    const std::vector<ValueRef> values = touched_by(part);
    const double before = seconds_of(values);
    assign(part, move.owners);
    move.transfers = before - seconds_of(values);
    assign(part, old);
    return move;
  }

  double stated(uint32_t claimant, uint32_t id) {
    const double seconds = claims_.seconds(claimant, id);
    return seconds < 0 && is_free(graph_, graph_.nodes()[id]) ? 0 : seconds;
  }

  std::vector<ValueRef> touched_by(const std::vector<uint32_t>& part) const {
    std::vector<ValueRef> values;
    for (uint32_t id : part) {
      const Node& node = graph_.nodes()[id];
      std::ranges::copy_if(node.operands, std::back_inserter(values), [](ValueRef value) { return bool(value); });
      values.insert(values.end(), node.results.begin(), node.results.end());
    }
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
    return values;
  }

  double seconds_of(const std::vector<ValueRef>& values) {
    double seconds = 0;
    for (ValueRef value : values) seconds += seconds_of(value);
    return seconds;
  }

  // Until all readers of the value have it.
  double seconds_of(ValueRef value) {
    Brought brought{0, {crossings_.origin(value, owners_)}};
    if (flow_.is_on_host[value.id]) crossings_.bring(value, crossings_.host(), brought);
    for (uint32_t claimant = 0; claimant < claims_.claimant_count(); ++claimant) {
      if (readers(value, claimant) > 0) crossings_.bring(value, claimant, brought);
    }
    return brought.seconds;
  }

  const Graph& graph_;
  const Flow& flow_;
  ClaimTable& claims_;
  const Crossings& crossings_;
  std::vector<uint32_t>& owners_;
  std::vector<uint32_t>& moved_;
  std::vector<uint32_t> reader_count_;  // by value and claimant
  std::vector<uint32_t> parent_;        // by node: union-find
};

}  // namespace

bool move_unprofitable(const Graph& graph, const Flow& flow, ClaimTable& claims, const Crossings& crossings,
                       std::vector<uint32_t>& owners, std::vector<uint32_t>& moved) {
  return Profit(graph, flow, claims, crossings, owners, moved).run();
}

}  // namespace tenon
