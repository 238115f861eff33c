#include "fusion/groups_text.h"

#include <algorithm>
#include <unordered_map>

#include "graph/text.h"
#include "graph/value_names.h"
#include "support/cursor.h"
#include "support/text.h"

namespace tenon {
namespace {

constexpr std::string_view kKindNames[] = {"kernel", "library", "external", "alias"};

std::string list(const std::vector<std::string>& names, const std::vector<ValueRef>& values) {
  std::string text;
  for (ValueRef value : values) text += (text.empty() ? "" : ", ") + names[value.id];
  return text;
}

std::string line(const Graph& graph, const std::vector<std::string>& names, const FusedGroup& group) {
  std::string text = fmt::format("{}({})", name_of(group.kind), list(names, group.inputs));
  if (!group.outputs.empty()) text += " -> " + list(names, group.outputs);
  std::string_view separator = ": ";
  for (NodeRef ref : group.nodes) {
    const Node& node = graph.node(ref);
    text += fmt::format("{}{} {}", separator, node.op->name.get(), names[node.results[0].id]);
    separator = ", ";
  }
  return text + "\n";
}

class Parser {
 public:
  Parser(const Graph& graph, std::string_view text, std::string file)
      : graph_(graph), cursor_(text, {std::move(file), 1, 1}), names_(value_names(graph)) {
    for (uint32_t id = 0; id < names_.size(); ++id) values_.emplace(std::string_view(names_[id]).substr(1), id);
  }

  std::vector<FusedGroup> parse() {
    std::vector<FusedGroup> groups;
    while (!cursor_.at_end()) groups.push_back(parse_group());
    return groups;
  }

 private:
  FusedGroup parse_group() {
    FusedGroup group{parse_kind(), {}, {}, {}};
    cursor_.expect("(");
    if (cursor_.peek() == '%') group.inputs = parse_values();
    cursor_.expect(")");
    if (cursor_.accept("->")) group.outputs = parse_values();
    cursor_.expect(":");
    do group.nodes.push_back(parse_node());
    while (cursor_.accept(","));
    return group;
  }

  GroupKind parse_kind() {
    const Location where = cursor_.here();
    const std::string_view name = cursor_.identifier("the kind of a group");
    const auto found = std::ranges::find(kKindNames, name);
    if (found == std::end(kKindNames))
      fail_at(where, "there is no kind of group '{}'{}", name, did_you_mean(name, kKindNames));
    return static_cast<GroupKind>(found - kKindNames);
  }

  std::vector<ValueRef> parse_values() {
    std::vector<ValueRef> values;
    do values.push_back(parse_value());
    while (cursor_.accept(","));
    return values;
  }

  ValueRef parse_value() {
    const Location where = cursor_.here();
    cursor_.expect("%");
    const std::string_view name = cursor_.name("a value's name");
    const auto found = values_.find(name);
    if (found == values_.end()) fail_at(where, "the graph has no value %{}{}", name, nearest_value(name));
    return {found->second};
  }

  std::string nearest_value(std::string_view name) const {
    std::vector<std::string_view> known;
    for (const std::string& each : names_) known.push_back(std::string_view(each).substr(1));
    std::ranges::sort(known);
    return did_you_mean_name(name, known);
  }

  NodeRef parse_node() {
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

  const Graph& graph_;
  Cursor cursor_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, uint32_t> values_;  // by name without '%'
};

}  // namespace

std::string_view name_of(GroupKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string to_string(const Graph& graph, std::span<const FusedGroup> groups) {
  const std::vector<std::string> names = value_names(graph);
  std::string text;
  for (const FusedGroup& group : groups) text += line(graph, names, group);
  return text;
}

Result<std::vector<FusedGroup>> parse_groups(const Graph& graph, std::string_view text, std::string file) {
  return attempt([&] { return Parser(graph, text, std::move(file)).parse(); });
}

}  // namespace tenon
