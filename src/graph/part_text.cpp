#include "graph/part_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/text.h"
#include "graph/value_names.h"
#include "support/text.h"

namespace tenon {
namespace {

std::string list(const std::vector<std::string>& names, const std::vector<ValueRef>& values) {
  return join(values, ", ", [&](ValueRef value) { return names[value.id]; });
}

}  // namespace

std::string part_line(const Graph& graph, const std::vector<std::string>& names, std::string_view head,
                      const GraphPart& part) {
  std::string text = fmt::format("{}({})", head, list(names, part.inputs));
  if (!part.outputs.empty()) text += " -> " + list(names, part.outputs);
  const auto text_of = [&](NodeRef ref) {
    const Node& node = graph.node(ref);
    return fmt::format("{} {}", node.op->name.get(), names[node.results[0].id]);
  };
  return text + ": " + join(part.nodes, ", ", text_of) + "\n";
}

PartParser::PartParser(const Graph& graph, std::string_view text, std::string file)
    : graph_(graph), cursor_(text, {std::move(file), 1, 1}), names_(value_names(graph)) {
  for (uint32_t id = 0; id < names_.size(); ++id) values_.emplace(std::string_view(names_[id]).substr(1), id);
}

GraphPart PartParser::parse() {
  GraphPart part;
  cursor_.expect("(");
  if (cursor_.peek() == '%') part.inputs = parse_values();
  cursor_.expect(")");
  if (cursor_.accept("->")) part.outputs = parse_values();
  cursor_.expect(":");
  do part.nodes.push_back(parse_node());
  while (cursor_.accept(","));
  return part;
}

std::vector<ValueRef> PartParser::parse_values() {
  std::vector<ValueRef> values;
  do values.push_back(parse_value());
  while (cursor_.accept(","));
  return values;
}

ValueRef PartParser::parse_value() {
  const Location where = cursor_.here();
  cursor_.expect("%");
  const std::string_view name = cursor_.name("a value's name");
  const auto found = values_.find(name);
  if (found == values_.end()) fail_at(where, "the graph has no value %{}{}", name, nearest_value(name));
  return {found->second};
}

std::string PartParser::nearest_value(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const std::string& each : names_) known.push_back(std::string_view(each).substr(1));
  std::ranges::sort(known);
  return did_you_mean_name(name, known);
}

NodeRef PartParser::parse_node() {
  const Location where = cursor_.here();
  const std::string_view op = cursor_.identifier("an op");
  const Location at_value = cursor_.here();
  const ValueRef value = parse_value();
  const NodeRef ref = graph_.producer(value);
  const std::string& name = names_[value.id];
  if (!ref) fail_at(at_value, "{} is a leaf of the graph: no node computes it", name);
  const Node& node = graph_.node(ref);
  if (node.results[0] != value)
    fail_at(at_value, "a node is named by its first result: {} for {}", names_[node.results[0].id], name);
  if (node.op->name.get() != op) fail_at(where, "{} is computed by {}, not by {}", name, node.op->name.get(), op);
  return ref;
}

}  // namespace tenon
