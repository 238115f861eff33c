#include "partition/segments_text.h"

#include <algorithm>

#include "graph/part_text.h"
#include "graph/value_names.h"
#include "support/text.h"

namespace tenon {
namespace {

uint32_t parse_claimant(Cursor& cursor, const std::vector<std::string>& claimants) {
  const Location where = cursor.here();
  std::string_view name = cursor.until("(%)\n");
  name = name.substr(0, name.find_last_not_of(" \t\r") + 1);
  if (name.empty()) cursor.expected("the name of a claimant");
  const auto found = std::ranges::find(claimants, name);
  if (found != claimants.end()) return static_cast<uint32_t>(found - claimants.begin());
  const std::vector<std::string_view> known(claimants.begin(), claimants.end());
  fail_at(where, "there is no claimant '{}'{}", name, did_you_mean(name, known));
}

}  // namespace

std::string to_string(const Graph& graph, const Partition& partition) {
  const std::vector<std::string> names = value_names(graph);
  std::string text;
  for (const Segment& segment : partition.segments) {
    text += part_line(graph, names, partition.claimants[segment.claimant],
                      {segment.nodes, segment.inputs, segment.outputs});
  }
  return text;
}

Result<Partition> parse_partition(const Graph& graph, std::string_view text, std::vector<std::string> claimants,
                                  std::string file) {
  return attempt([&] {
    PartParser parser(graph, text, std::move(file));
    Partition partition{.claimants = std::move(claimants)};
    while (!parser.cursor().at_end()) {
      const uint32_t claimant = parse_claimant(parser.cursor(), partition.claimants);
      GraphPart part = parser.parse();
      partition.segments.push_back({claimant, std::move(part.nodes), std::move(part.inputs), std::move(part.outputs)});
    }
    return partition;
  });
}

}  // namespace tenon
