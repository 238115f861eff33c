// One line of text for a part of a graph: a fused group (fusion/groups_text.h), a device's segment
// (partition/segments_text.h).
//
//     head(%x, %w) -> %y: contract %p, tanh %y
//
// The line has a head, the values that the part reads, the values that it writes, and its nodes in order. A node is its
// op and its first result. Values have the names of `to_string(graph)`. A part that writes nothing has no arrow.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "support/cursor.h"

namespace tenon {

struct GraphPart {
  std::vector<NodeRef> nodes;
  std::vector<ValueRef> inputs;
  std::vector<ValueRef> outputs;
};

// `names` are `value_names(graph)`.
std::string part_line(const Graph& graph, const std::vector<std::string>& names, std::string_view head,
                      const GraphPart& part);

// Reads such lines from the front to the end. Every function throws an Error with its place. Graph and text must
// outlive the parser.
class PartParser {
 public:
  PartParser(const Graph& graph, std::string_view text, std::string file);

  Cursor& cursor() { return cursor_; }  // The caller reads the head with it.
  GraphPart parse();                    // From the opening parenthesis to the last node.

 private:
  std::vector<ValueRef> parse_values();
  ValueRef parse_value();
  NodeRef parse_node();
  std::string nearest_value(std::string_view name) const;

  const Graph& graph_;
  Cursor cursor_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, uint32_t> values_;  // by name without '%'
};

}  // namespace tenon
