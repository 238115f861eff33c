#include "partition/partition.h"

#include <algorithm>
#include <tuple>

#include "graph/library_call.h"
#include "partition/flow.h"
#include "partition/levels.h"
#include "partition/owners.h"

namespace tenon {
namespace {

Claim accept_if(bool accepted, std::string_view reason) {
  return {accepted, accepted ? std::string() : std::string(reason), -1};
}

bool only_reference_computes(const OpDef& op) {
  if (role_of(op) == Role::kExternal || role_of(op) == Role::kSegment || has_library_function(op)) return false;
  if (std::holds_alternative<LibraryTask>(op.loops)) return true;
  return std::holds_alternative<Reference>(op.semantics.get()) && std::holds_alternative<std::monostate>(op.loops);
}

void add_border(const Graph& graph, const Flow& flow, const std::vector<uint32_t>& segment_of, uint32_t number,
                Segment& segment) {
  for (NodeRef ref : segment.nodes) {
    const Node& node = graph.node(ref);
    for (ValueRef operand : node.operands) {
      const NodeRef producer = operand ? graph.producer(operand) : NodeRef();
      if (operand && (!producer || segment_of[producer.id] != number)) segment.inputs.push_back(operand);
    }
    for (ValueRef result : node.results) {
      const bool is_read_outside =
          std::ranges::any_of(flow.readers[result.id], [&](uint32_t reader) { return segment_of[reader] != number; });
      if (is_read_outside || flow.is_kept[result.id] || flow.defines_size[result.id]) segment.outputs.push_back(result);
    }
  }
  std::ranges::sort(segment.inputs);
  segment.inputs.erase(std::ranges::unique(segment.inputs).begin(), segment.inputs.end());
}

// One segment for each level and owner that has nodes, by level.
std::vector<Segment> segments_of(const Graph& graph, const Flow& flow, const Owners& owners,
                                 const std::vector<uint32_t>& levels) {
  std::vector<uint32_t> order(graph.nodes().size());
  for (uint32_t id = 0; id < order.size(); ++id) order[id] = id;
  const auto key = [&](uint32_t id) { return std::pair(levels[id], owners.of[id]); };
  std::ranges::sort(order, {}, [&](uint32_t id) { return std::tuple(levels[id], owners.of[id], id); });
  std::vector<Segment> segments;
  std::vector<uint32_t> segment_of(graph.nodes().size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || key(order[i]) != key(order[i - 1])) segments.push_back({owners.of[order[i]], {}, {}, {}});
    segments.back().nodes.push_back({order[i]});
    segment_of[order[i]] = static_cast<uint32_t>(segments.size() - 1);
  }
  for (uint32_t i = 0; i < segments.size(); ++i) add_border(graph, flow, segment_of, i, segments[i]);
  return segments;
}

}  // namespace

Claimant pytorch_claimant() {
  const auto claim = [](const Graph& graph, NodeRef node) {
    return accept_if(role_of(*graph.node(node).op) == Role::kExternal, "not a call of PyTorch");
  };
  return {.name = "pytorch", .claim = claim, .shares_host_memory = true};
}

Claimant reference_claimant() {
  const auto claim = [](const Graph& graph, NodeRef node) {
    return accept_if(only_reference_computes(*graph.node(node).op), "compiled code computes it");
  };
  return {.name = "reference", .claim = claim, .shares_host_memory = true};
}

Claimant cpu_claimant() { return {.name = "cpu", .claim = {}, .shares_host_memory = true}; }

Partition partition(const Graph& graph, std::span<const Claimant> claimants) {
  check(!claimants.empty(), "a partition needs a claimant that takes what is left");
  Partition result;
  for (const Claimant& claimant : claimants) {
    check(std::ranges::find(result.claimants, claimant.name) == result.claimants.end(), "two claimants are named '{}'",
          claimant.name);
    result.claimants.push_back(claimant.name);
  }
  const Flow flow(graph);
  Owners owners = choose_owners(graph, flow, claimants);
  result.segments = segments_of(graph, flow, owners, choose_levels(graph, flow, owners.of));
  result.declined = std::move(owners.declined);
  result.reasons = std::move(owners.reasons);
  return result;
}

std::string_view reason_of(const Partition& partition, NodeRef node, uint32_t claimant) {
  const auto key = [](const DeclinedClaim& declined) { return std::pair(declined.node, declined.claimant); };
  const auto found = std::ranges::lower_bound(partition.declined, std::pair(node, claimant), {}, key);
  if (found == partition.declined.end() || key(*found) != std::pair(node, claimant)) return {};
  return partition.reasons[found->reason];
}

}  // namespace tenon
