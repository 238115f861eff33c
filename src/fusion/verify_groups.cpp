#include <algorithm>
#include <set>

#include "fusion/groups_text.h"
#include "graph/node_symbols.h"
#include "graph/value_names.h"

namespace tenon {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), definers_(definers_of(graph)), names_(value_names(graph)), is_written_(graph.value_count()) {}

  void verify(std::span<const FusedGroup> groups) {
    for (const FusedGroup& group : groups) {
      ++number_;
      verify(group);
      for (ValueRef output : group.outputs) is_written_[output.id] = true;
      for (NodeRef node : group.nodes) has_run_.insert(node);
    }
    for (ValueRef output : graph_.outputs()) expect_result(output, "an output");
    for (const Update& update : graph_.updates()) expect_result(update.value, "the value of an update");
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(MessageFor<Args...> format, const Args&... args) const {
    tenon::fail("group {} {}", number_, fill_in(format, args...));
  }

  const std::string& name(ValueRef value) const { return names_[value.id]; }

  void verify(const FusedGroup& group) const {
    verify_nodes(group);
    verify_inputs(group);
    verify_outputs(group);
    verify_sizes(group);
    for (ValueRef input : group.inputs) {
      if (graph_.producer(input) && !is_written_[input.id])
        fail("reads {}, which no earlier group writes", name(input));
    }
  }

  void verify_nodes(const FusedGroup& group) const {
    if (group.nodes.empty()) fail("has no nodes");
    const auto unknown = [&](NodeRef node) { return node.id >= graph_.nodes().size(); };
    if (std::ranges::any_of(group.nodes, unknown)) fail("has a node that the graph does not have");
    if (std::ranges::adjacent_find(group.nodes, std::greater_equal()) != group.nodes.end())
      fail("has nodes that are not in the order of the graph");
    if (group.kind == GroupKind::kKernel) return;
    const std::string_view op = graph_.node(group.nodes[0]).op->name.get();
    if (group.nodes.size() > 1) fail("has {} nodes; only a kernel has several", group.nodes.size());
    if (group.kind == GroupKind::kAlias && op != "reshape") fail("is an alias, but its node is {}, not reshape", op);
    const auto is_of_op = [&](GroupKind kind) { return (group.kind == kind) == (op == name_of(kind)); };
    if (!is_of_op(GroupKind::kExternal) || !is_of_op(GroupKind::kSegment))
      fail("is of kind {}, but its node is {}", name_of(group.kind), op);
  }

  void verify_inputs(const FusedGroup& group) const {
    std::set<ValueRef> read;
    for (NodeRef node : group.nodes) {
      for (ValueRef operand : graph_.node(node).operands) {
        if (operand && !contains(group, graph_.producer(operand))) read.insert(operand);
      }
    }
    const std::set<ValueRef> listed(group.inputs.begin(), group.inputs.end());
    for (ValueRef value : read) {
      if (!listed.contains(value)) fail("reads {}, which is not among its inputs", name(value));
    }
    for (ValueRef value : listed) {
      if (!graph_.owns(value)) fail("has an input that the graph does not have");
      if (!read.contains(value)) fail("has the input {}, which none of its nodes reads", name(value));
    }
    if (listed.size() != group.inputs.size()) fail("has an input twice");
  }

  static bool contains(const FusedGroup& group, NodeRef node) {
    return node && std::ranges::binary_search(group.nodes, node);
  }

  void verify_outputs(const FusedGroup& group) const {
    for (ValueRef value : group.outputs) {
      if (!graph_.owns(value)) fail("has an output that the graph does not have");
      if (!contains(group, graph_.producer(value)))
        fail("has the output {}, which none of its nodes computes", name(value));
    }
    const std::set<ValueRef> distinct(group.outputs.begin(), group.outputs.end());
    if (distinct.size() != group.outputs.size()) fail("has an output twice");
    if (group.kind == GroupKind::kKernel) verify_use(group);
  }

  // A kernel computes nothing that its outputs do not need.
  void verify_use(const FusedGroup& group) const {
    std::set<NodeRef> used;
    for (ValueRef output : group.outputs) used.insert(graph_.producer(output));
    for (auto node = group.nodes.rbegin(); node != group.nodes.rend(); ++node) {
      if (!used.contains(*node))
        fail("computes {}, which none of its outputs needs", name(graph_.node(*node).results[0]));
      for (ValueRef operand : graph_.node(*node).operands) {
        if (operand && graph_.producer(operand)) used.insert(graph_.producer(operand));
      }
    }
  }

  void verify_sizes(const FusedGroup& group) const {
    if (definers_.empty()) return;
    for (NodeRef node : group.nodes) {
      for (Symbol symbol : symbols_of(graph_, graph_.node(node))) {
        const auto definer = definers_.find(symbol);
        if (definer == definers_.end() || definer->second >= node || has_run_.contains(definer->second)) continue;
        fail("mentions the size {} before {} finds it out", symbol.name(),
             name(graph_.node(definer->second).results[0]));
      }
    }
  }

  void expect_result(ValueRef value, std::string_view what) const {
    if (graph_.producer(value) && !is_written_[value.id])
      tenon::fail("no group writes {}, {} of the graph", name(value), what);
  }

  const Graph& graph_;
  std::map<Symbol, NodeRef> definers_;  // of sizes that depend on data
  std::vector<std::string> names_;
  std::vector<bool> is_written_;  // by value: an earlier group has it among its outputs
  std::set<NodeRef> has_run_;
  size_t number_ = 0;  // of the group, from 1
};

}  // namespace

Status verify_groups(const Graph& graph, std::span<const FusedGroup> groups) {
  return attempt([&] { Verifier(graph).verify(groups); });
}

}  // namespace tenon
