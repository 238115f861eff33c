#include "partition/crossings.h"

#include <algorithm>

namespace tenon {
namespace {

// Where claimants state no times, fewer transfers are better, and fewer bytes. These times are too short to matter
// beside any that are stated.
constexpr double kChange = 1e-12;
constexpr double kByte = 1e-16;

}  // namespace

Crossings::Crossings(const Graph& graph, const Flow& flow, std::span<const Claimant> claimants)
    : graph_(graph), flow_(flow), claimants_(claimants) {
  for (const Claimant& claimant : claimants) is_host_.push_back(claimant.shares_host_memory);
  is_host_.back() = true;
}

uint32_t Crossings::origin(ValueRef value, const std::vector<uint32_t>& owners) const {
  if (const NodeRef producer = graph_.producer(value)) return owners[producer.id];
  return graph_.leaf(value)->kind == LeafKind::kInput ? host() : kEverywhere;
}

// Between the memory of a claimant and the host's.
double Crossings::transfer(uint32_t claimant, double bytes) const {
  if (is_host_[claimant]) return 0;
  return claimants_[claimant].crossing_seconds + bytes / claimants_[claimant].bytes_per_second;
}

double Crossings::seconds(ValueRef value, const Brought& brought, uint32_t to) const {
  if (brought.to[0] == kEverywhere || brought.has(to)) return 0;
  if (std::ranges::any_of(brought.to, [&](uint32_t other) { return share_memory(other, to); })) return kChange;
  const double bytes = flow_.bytes[value.id];
  const bool is_on_host = std::ranges::any_of(brought.to, [&](uint32_t other) { return is_host_[other]; });
  const double to_host = is_on_host ? 0 : transfer(brought.to[0], bytes);
  return kChange + bytes * kByte + to_host + transfer(to, bytes);
}

void Crossings::bring(ValueRef value, uint32_t to, Brought& brought) const {
  if (brought.has(to)) return;
  brought.seconds += seconds(value, brought, to);
  brought.to.push_back(to);
}

}  // namespace tenon
