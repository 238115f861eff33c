// The text form of fused groups, and the check of a list of them.
//
//     kernel(%x, %w, %b) -> %z: contract %p, add %q, tanh %z
//     alias(%z) -> %flat: reshape %flat
//     library(%flat) -> %values, %places: sort %values
//
// A line is a group: its kind, the values that it reads, the values that it writes, and its nodes in order
// (graph/part_text.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/fuse.h"

namespace tenon {

std::string_view name_of(GroupKind kind);

std::string to_string(const Graph& graph, std::span<const FusedGroup> groups);

// Any list of groups of the graph's nodes: `verify_groups` says whether it can run. `file` names the text in
// diagnostics, which carry line and column.
Result<std::vector<FusedGroup>> parse_groups(const Graph& graph, std::string_view text, std::string file = {});

// Checks that the groups compute the graph when they run in this order:
//   - the nodes of a group are in the order of the graph, and only a kernel has several;
//   - a group's inputs are exactly what its nodes read of other groups and of leaves;
//   - an earlier group writes each input that is not a leaf, and finds out each size that a node mentions;
//   - a group's outputs are results of its nodes, and its nodes serve these outputs;
//   - the graph's outputs and updates are written.
// A list may compute a value several times (fusion/rematerialize.h).
Status verify_groups(const Graph& graph, std::span<const FusedGroup> groups);

}  // namespace tenon
