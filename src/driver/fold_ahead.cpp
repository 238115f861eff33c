#include "driver/fold_ahead.h"

#include <algorithm>
#include <set>

#include "driver/pipeline.h"
#include "graph/node_symbols.h"
#include "graph/rewrite.h"
#include "passes/passes.h"

namespace tenon {
namespace {

auto norms_of(const Graph& graph) {
  return std::ranges::count_if(graph.nodes(),
                               [](const Node& node) { return node.op->name.get() == "batch_norm_inference"; });
}

class Folder {
 public:
  Folder(const Graph& folded, const std::string& backend)
      : graph_(folded), backend_(backend), is_known_(folded.value_count()) {
    for (const Leaf& leaf : graph_.leaves()) {
      is_known_[leaf.value.id] = leaf.kind != LeafKind::kInput && leaf.data.defined() && !is_updated(graph_, leaf);
    }
    for (const Node& node : graph_.nodes()) {
      for (ValueRef result : node.results) is_known_[result.id] = is_computed_ahead(node);
    }
  }

  Graph run() const {
    const std::vector<ValueRef> weights = computed_weights();
    if (weights.empty()) return graph_;
    const std::vector<Tensor> values = compile_program(graph_of(weights), {.backend = backend_}).value().run({});
    Rewriter rewriter(graph_);
    for (const Node& node : graph_.nodes()) {
      rewriter.copy(node);
      const auto found = std::ranges::find(weights, node.results[0]);
      if (found == weights.end()) continue;
      const Tensor& value = values[static_cast<size_t>(found - weights.begin())];
      rewriter.replace(*found,
                       rewriter.target().add_parameter(name_of(*found, rewriter.target()), graph_.type(*found), value));
    }
    return eliminate_dead_code(rewriter.finish());
  }

 private:
  // As scales and shifts are: element by element, of what is known.
  bool is_computed_ahead(const Node& node) const {
    const std::string_view op = node.op->name.get();
    const bool is_elementwise = std::holds_alternative<Elementwise>(node.op->semantics.get());
    if ((!is_elementwise && op != "reshape" && op != "full") || node.results.size() != 1) return false;
    return symbols_of(graph_, node).empty() &&
           std::ranges::all_of(node.operands, [&](ValueRef operand) { return !operand || is_known_[operand.id]; });
  }

  std::vector<ValueRef> computed_weights() const {
    std::vector<ValueRef> weights;
    for (const Node& node : graph_.nodes()) {
      if (node.op->name.get() != "conv") continue;
      for (ValueRef operand : {node.operands[1], node.operands[2]}) {
        const bool is_new = std::ranges::find(weights, operand) == weights.end();
        if (operand && graph_.producer(operand) && is_known_[operand.id] && is_new) weights.push_back(operand);
      }
    }
    return weights;
  }

  Graph graph_of(const std::vector<ValueRef>& values) const {
    Rewriter rewriter(graph_, [&](const Leaf& leaf) { return is_known_[leaf.value.id]; });
    for (const Node& node : graph_.nodes()) {
      if (is_known_[node.results[0].id]) rewriter.copy(node);
    }
    rewriter.target().set_outputs(rewriter.map(values));
    return eliminate_dead_code(rewriter.target());
  }

  // After the first parameter that it comes of.
  std::string name_of(ValueRef weight, const Graph& target) const {
    std::vector<ValueRef> open = {weight};
    std::set<ValueRef> seen;
    std::string name = "weights";
    while (!open.empty()) {
      const ValueRef value = open.back();
      open.pop_back();
      if (!seen.insert(value).second) continue;
      const Leaf* const leaf = value ? graph_.leaf(value) : nullptr;
      if (leaf != nullptr && !leaf->name.empty()) {
        name = leaf->name;
        break;
      }
      if (value && leaf == nullptr) {
        const std::vector<ValueRef>& operands = graph_.node(graph_.producer(value)).operands;
        open.insert(open.end(), operands.rbegin(), operands.rend());
      }
    }
    name += ".folded";
    while (target.leaf_named(name) != nullptr) name += "_";
    return name;
  }

  const Graph& graph_;
  const std::string& backend_;
  std::vector<bool> is_known_;
};

}  // namespace

Graph fold_norms_ahead(const Graph& graph, const std::string& backend) {
  Graph folded = fold_norms(graph);
  if (norms_of(folded) == norms_of(graph)) return folded;
  const Graph shared = eliminate_common_subexpressions(canonicalize(folded));  // what is used twice is computed once
  return Folder(shared, backend).run();
}

}  // namespace tenon
