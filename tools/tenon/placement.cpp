#include "placement.h"

#include "json.h"

namespace tenon::cli {
namespace {

std::string place_of(const PlacedNode& node) { return node.location.known() ? to_string(node.location) : ""; }

std::string declined_json(const PlacedNode::Declined& declined) {
  return json::object({{"device", json::string(declined.device)}, {"reason", json::string(declined.reason)}});
}

std::string node_json(const PlacedNode& node) {
  return json::object({{"name", json::string(node.name)},
                       {"op", json::string(node.op)},
                       {"device", json::string(node.device)},
                       {"segment", std::to_string(node.segment)},
                       {"where", json::string(place_of(node))},
                       {"declined", json::array_of(node.declined, declined_json)}});
}

}  // namespace

std::string table_of(const Placement& placement) {
  const std::vector<PlacedNode> nodes = placed_nodes(placement);
  size_t name = 4, op = 2, device = 6;
  for (const PlacedNode& node : nodes) {
    name = std::max(name, node.name.size());
    op = std::max(op, node.op.size());
    device = std::max(device, node.device.size());
  }
  std::string text;
  const auto add = [&](auto segment, std::string_view on, std::string_view what, std::string_view of,
                       std::string_view where) {
    text += fmt::format("{:>7} {:<{}} {:<{}} {:<{}}", segment, on, device, what, op, of, name);
    text += where.empty() ? "\n" : fmt::format(" {}\n", where);
  };
  add("segment", "device", "op", "name", "where");
  for (const PlacedNode& node : nodes) add(node.segment, node.device, node.op, node.name, place_of(node));
  return text;
}

std::string placement_json(const Placement* placement) {
  return placement == nullptr ? "[]" : json::array_of(placed_nodes(*placement), node_json);
}

}  // namespace tenon::cli
