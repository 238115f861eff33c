#include "partition/placement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/value_names.h"

namespace tenon {
namespace {

// PyTorch and the reference get what is theirs: that they decline the rest says nothing.
bool says_why(std::string_view claimant) { return claimant != "pytorch" && claimant != "reference"; }

std::string counted(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

struct Reason {
  std::string_view text;
  std::vector<std::string> nodes;  // "relu %y"
};

// The reasons of one device, most frequent first.
std::vector<Reason> reasons_of(std::string_view device, const std::vector<PlacedNode>& nodes) {
  std::vector<Reason> reasons;
  std::map<std::string_view, size_t> positions;
  for (const PlacedNode& node : nodes) {
    for (const PlacedNode::Declined& declined : node.declined) {
      if (declined.device != device) continue;
      const auto [found, is_new] = positions.try_emplace(declined.reason, reasons.size());
      if (is_new) reasons.push_back({declined.reason, {}});
      reasons[found->second].nodes.push_back(fmt::format("{} {}", node.op, node.name));
    }
  }
  std::ranges::stable_sort(reasons, std::greater(), [](const Reason& reason) { return reason.nodes.size(); });
  return reasons;
}

std::string reasons_text(std::string_view device, const std::vector<Reason>& reasons) {
  constexpr size_t kShown = 5;
  size_t total = 0;
  std::string lines;
  for (const Reason& reason : reasons) {
    total += reason.nodes.size();
    const auto end = reason.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, reason.nodes.size()));
    lines += fmt::format("  {} {}: {}{}\n", reason.nodes.size(), reason.text,
                         fmt::join(reason.nodes.begin(), end, ", "), reason.nodes.size() > kShown ? ", ..." : "");
  }
  return reasons.empty() ? "" : fmt::format("{} declined {}\n{}", device, counted(total, "node"), lines);
}

}  // namespace

std::vector<PlacedNode> placed_nodes(const Placement& placement) {
  const auto& [graph, parts] = placement;
  const std::vector<std::string> names = value_names(graph);
  std::vector<PlacedNode> nodes(graph.nodes().size());
  for (size_t id = 0; id < nodes.size(); ++id) {
    const Node& node = graph.nodes()[id];
    nodes[id].name = node.results.empty() ? std::string() : names[node.results[0].id];
    nodes[id].op = node.op->name.get();
    nodes[id].location = node.location;
  }
  for (uint32_t number = 0; number < parts.segments.size(); ++number) {
    for (NodeRef node : parts.segments[number].nodes) {
      nodes[node.id].device = parts.claimants[parts.segments[number].claimant];
      nodes[node.id].segment = number;
    }
  }
  for (const DeclinedClaim& declined : parts.declined) {
    const std::string_view device = parts.claimants[declined.claimant];
    if (says_why(device)) nodes[declined.node.id].declined.push_back({device, parts.reasons[declined.reason]});
  }
  return nodes;
}

std::string summary_of(const Placement& placement) {
  const std::vector<PlacedNode> nodes = placed_nodes(placement);
  std::string text;
  for (const std::string& device : placement.parts.claimants) {
    size_t count = 0;
    std::set<uint32_t> segments;
    for (const PlacedNode& node : nodes) {
      if (node.device != device) continue;
      ++count;
      segments.insert(node.segment);
    }
    if (count == 0 && !says_why(device)) continue;
    text += fmt::format("{} runs {} of {}", device, count, counted(nodes.size(), "node"));
    text += count == 0 ? "\n" : fmt::format(", in {}\n", counted(segments.size(), "segment"));
  }
  for (const std::string& device : placement.parts.claimants) text += reasons_text(device, reasons_of(device, nodes));
  return text;
}

}  // namespace tenon
