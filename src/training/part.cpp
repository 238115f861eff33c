#include "training/part.h"

#include <algorithm>
#include <set>

#include "graph/rewrite.h"

namespace tenon {
namespace {

std::vector<bool> needed_nodes(const Graph& graph, std::vector<ValueRef> open, const std::set<ValueRef>& given) {
  std::vector<bool> needed(graph.nodes().size());
  while (!open.empty()) {
    const ValueRef value = open.back();
    open.pop_back();
    const NodeRef producer = graph.producer(value);
    if (!producer || needed[producer.id] || given.contains(value)) continue;
    needed[producer.id] = true;
    for (ValueRef operand : graph.node(producer).operands) {
      if (operand) open.push_back(operand);
    }
  }
  return needed;
}

// Finds what a second run reads of a first one.
class Keeper {
 public:
  Keeper(const Graph& graph, std::vector<bool> first, Keep keep)
      : graph_(graph), first_(std::move(first)), keep_(keep) {
    for (const Update& update : graph.updates()) updated_.insert(update.target);
  }

  void visit(ValueRef value) {
    if (!seen_.insert(value).second) return;
    const NodeRef producer = graph_.producer(value);
    if (!producer) return visit_leaf(value);
    const Node& node = graph_.node(producer);
    if (first_[producer.id] && is_kept(*node.op)) {
      kept_.push_back(value);
      return;
    }
    for (ValueRef operand : node.operands) {
      if (operand) visit(operand);
    }
  }

  std::vector<ValueRef> kept() && {
    std::ranges::sort(kept_);
    return std::move(kept_);
  }

 private:
  // A call of the host may give something else when it runs again.
  bool is_kept(const OpDef& op) const {
    if (role_of(op) == Role::kExternal) return true;
    const Cost cost = cost_of(op);
    if (keep_ == Keep::kAll) return cost != Cost::kFree;
    return keep_ == Keep::kCostly && (cost == Cost::kProduct || cost == Cost::kExpensive);
  }

  // A state that the first run changes is kept as it was.
  void visit_leaf(ValueRef value) {
    if (graph_.leaf(value)->kind == LeafKind::kInput || updated_.contains(value)) kept_.push_back(value);
  }

  const Graph& graph_;
  std::vector<bool> first_;
  Keep keep_;
  std::set<ValueRef> updated_;
  std::set<ValueRef> seen_;
  std::vector<ValueRef> kept_;
};

}  // namespace

Graph part_of(const Graph& graph, const std::vector<ValueRef>& given, const std::vector<ValueRef>& outputs,
              const std::vector<Update>& updates) {
  const std::set<ValueRef> cut(given.begin(), given.end());
  std::vector<ValueRef> open = outputs;
  std::set<ValueRef> read(outputs.begin(), outputs.end());
  for (const Update& update : updates) {
    open.push_back(update.value);
    read.insert({update.target, update.value});
  }
  const std::vector<bool> needed = needed_nodes(graph, std::move(open), cut);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) read.insert(graph.nodes()[i].operands.begin(), graph.nodes()[i].operands.end());
  }
  Rewriter rewriter(graph, [&](const Leaf& leaf) {
    if (cut.contains(leaf.value)) return false;
    return read.contains(leaf.value) || (leaf.kind == LeafKind::kInput && given.empty());
  });
  for (size_t i = 0; i < given.size(); ++i) {
    rewriter.replace(given[i], rewriter.target().add_input("kept" + std::to_string(i), graph.type(given[i])));
  }
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) rewriter.copy(graph.nodes()[i]);
  }
  Graph& part = rewriter.target();
  part.set_outputs(rewriter.map(outputs));
  for (const Update& update : updates) part.add_update(rewriter.map(update.target), rewriter.map(update.value));
  return std::move(part);
}

std::vector<ValueRef> kept_for(const Graph& graph, const std::vector<ValueRef>& first,
                               const std::vector<ValueRef>& later, Keep keep) {
  Keeper keeper(graph, needed_nodes(graph, first, {}), keep);
  for (ValueRef value : later) keeper.visit(value);
  return std::move(keeper).kept();
}

}  // namespace tenon
