#include "fusion/groups_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/part_text.h"
#include "graph/value_names.h"
#include "support/text.h"

namespace tenon {
namespace {

constexpr std::string_view kKindNames[] = {"kernel", "library", "external", "segment", "alias"};

GroupKind parse_kind(Cursor& cursor) {
  const Location where = cursor.here();
  const std::string_view name = cursor.identifier("the kind of a group");
  const auto found = std::ranges::find(kKindNames, name);
  if (found == std::end(kKindNames))
    fail_at(where, "there is no kind of group '{}'{}", name, did_you_mean(name, kKindNames));
  return static_cast<GroupKind>(found - kKindNames);
}

FusedGroup parse_group(PartParser& parser) {
  const GroupKind kind = parse_kind(parser.cursor());
  GraphPart part = parser.parse();
  return {kind, std::move(part.nodes), std::move(part.inputs), std::move(part.outputs)};
}

}  // namespace

std::string_view name_of(GroupKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string to_string(const Graph& graph, std::span<const FusedGroup> groups) {
  const std::vector<std::string> names = value_names(graph);
  std::string text;
  for (const FusedGroup& group : groups)
    text += part_line(graph, names, name_of(group.kind), {group.nodes, group.inputs, group.outputs});
  return text;
}

Result<std::vector<FusedGroup>> parse_groups(const Graph& graph, std::string_view text, std::string file) {
  return attempt([&] {
    PartParser parser(graph, text, std::move(file));
    std::vector<FusedGroup> groups;
    while (!parser.cursor().at_end()) groups.push_back(parse_group(parser));
    return groups;
  });
}

}  // namespace tenon
