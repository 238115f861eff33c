#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/value_names.h"
#include "partition/flow.h"
#include "partition/segments_text.h"

namespace tenon {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const Partition& partition)
      : graph_(graph),
        partition_(partition),
        flow_(graph),
        names_(value_names(graph)),
        segment_of_(graph.nodes().size(), kNone) {}

  void verify() {
    for (number_ = 0; number_ < partition_.segments.size(); ++number_) verify_nodes(segment());
    for (uint32_t id = 0; id < segment_of_.size(); ++id) {
      if (segment_of_[id] == kNone) tenon::fail("no segment has {}", node_name(id));
    }
    for (number_ = 0; number_ < partition_.segments.size(); ++number_) {
      verify_order(segment());
      verify_inputs(segment());
      verify_outputs(segment());
    }
    verify_declined();
  }

 private:
  static constexpr uint32_t kNone = ~0u;

  template <class... Args>
  [[noreturn]] void fail(MessageFor<Args...> format, const Args&... args) const {
    tenon::fail("segment {} {}", number_ + 1, fill_in(format, args...));
  }

  const Segment& segment() const { return partition_.segments[number_]; }
  const std::string& name(ValueRef value) const { return names_[value.id]; }
  std::string node_name(uint32_t id) const {
    const Node& node = graph_.nodes()[id];
    return fmt::format("{} {}", node.op->name.get(), name(node.results[0]));
  }

  void verify_nodes(const Segment& segment) {
    if (segment.claimant >= partition_.claimants.size()) fail("is of a claimant that the partition does not have");
    if (segment.nodes.empty()) fail("has no nodes");
    const auto unknown = [&](NodeRef node) { return node.id >= graph_.nodes().size(); };
    if (std::ranges::any_of(segment.nodes, unknown)) fail("has a node that the graph does not have");
    if (std::ranges::adjacent_find(segment.nodes, std::greater_equal()) != segment.nodes.end())
      fail("has nodes that are not in the order of the graph");
    for (NodeRef node : segment.nodes) {
      if (segment_of_[node.id] != kNone)
        fail("has {}, as segment {} does", node_name(node.id), segment_of_[node.id] + 1);
      segment_of_[node.id] = number_;
      verify_claimant(segment, node.id);
    }
  }

  void verify_claimant(const Segment& segment, uint32_t node) const {
    if (role_of(*graph_.nodes()[node].op) != Role::kExternal) return;
    const std::string& claimant = partition_.claimants[segment.claimant];
    const bool has_pytorch = std::ranges::find(partition_.claimants, "pytorch") != partition_.claimants.end();
    if (has_pytorch && claimant != "pytorch") fail("of {} has {}, which PyTorch runs", claimant, node_name(node));
  }

  // Of values and of sizes.
  void verify_order(const Segment& segment) const {
    for (NodeRef node : segment.nodes) {
      for (uint32_t needed : flow_.needs[node.id]) {
        if (segment_of_[needed] > number_) {
          fail("has {}, which needs {} of segment {}", node_name(node.id), node_name(needed), segment_of_[needed] + 1);
        }
      }
    }
  }

  void verify_inputs(const Segment& segment) const {
    std::set<ValueRef> read;
    for (NodeRef node : segment.nodes) {
      for (ValueRef operand : graph_.node(node).operands) {
        if (operand && !makes(operand)) read.insert(operand);
      }
    }
    compare(read, segment.inputs, "input", "reads");
  }

  void verify_outputs(const Segment& segment) const {
    std::set<ValueRef> needed;
    for (NodeRef node : segment.nodes) {
      for (ValueRef result : graph_.node(node).results) {
        if (is_needed_outside(result)) needed.insert(result);
      }
    }
    compare(needed, segment.outputs, "output", "makes");
  }

  bool makes(ValueRef value) const {
    const NodeRef producer = graph_.producer(value);
    return producer && segment_of_[producer.id] == number_;
  }

  bool is_needed_outside(ValueRef value) const {
    return flow_.is_kept[value.id] || flow_.defines_size[value.id] ||
           std::ranges::any_of(flow_.readers[value.id], [&](uint32_t node) { return segment_of_[node] != number_; });
  }

  void compare(const std::set<ValueRef>& expected, const std::vector<ValueRef>& listed, std::string_view what,
               std::string_view verb) const {
    for (ValueRef value : listed) {
      if (!graph_.owns(value)) fail("has an {} that the graph does not have", what);
      if (!expected.contains(value)) fail("has the {} {}, which is none", what, name(value));
    }
    for (ValueRef value : expected) {
      if (std::ranges::find(listed, value) == listed.end())
        fail("{} {}, which is not among its {}s", verb, name(value), what);
    }
    if (std::ranges::adjacent_find(listed, std::greater_equal()) != listed.end())
      fail("has {}s that are not in the order of the graph", what);
  }

  void verify_declined() const {
    const auto key = [](const DeclinedClaim& declined) { return std::pair(declined.node, declined.claimant); };
    if (std::ranges::adjacent_find(partition_.declined, std::greater_equal(), key) != partition_.declined.end())
      tenon::fail("what is declined is not in the order of nodes and claimants");
    for (const DeclinedClaim& declined : partition_.declined) {
      if (declined.node.id >= graph_.nodes().size()) tenon::fail("a node is declined that the graph does not have");
      if (declined.reason >= partition_.reasons.size()) tenon::fail("a node is declined for no reason");
      const uint32_t claimant = partition_.segments[segment_of_[declined.node.id]].claimant;
      if (declined.claimant >= claimant)
        tenon::fail("{} is declined by a claimant that does not come before its own", node_name(declined.node.id));
    }
  }

  const Graph& graph_;
  const Partition& partition_;
  Flow flow_;
  std::vector<std::string> names_;
  std::vector<uint32_t> segment_of_;  // each node
  uint32_t number_ = 0;               // of the segment
};

}  // namespace

Status verify_partition(const Graph& graph, const Partition& partition) {
  return attempt([&] { Verifier(graph, partition).verify(); });
}

}  // namespace tenon
