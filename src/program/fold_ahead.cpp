#include "program/fold_ahead.h"

#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "program/program.h"

namespace tenon {
namespace {

class Folder {
 public:
  Folder(const Graph& folded, const std::string& backend)
      : graph_(folded), backend_(backend), is_known_(folded.value_count()) {
    for (const Leaf& leaf : graph_.leaves()) is_known_[leaf.value.id] = has_values(leaf);
    for (const Update& update : graph_.updates()) is_known_[update.target.id] = false;
    for (const Node& node : graph_.nodes()) {
      const auto is_known = [&](ValueRef operand) { return !operand || is_known_[operand.id]; };
      const bool is_computed = node.op->name.get() != "external" && std::ranges::all_of(node.operands, is_known);
      for (ValueRef result : node.results) is_known_[result.id] = is_computed;
    }
  }

  Graph run() const {
    const std::vector<ValueRef> weights = computed_weights();
    if (weights.empty()) return graph_;
    const std::vector<Tensor> values = compile_program(graph_of(weights), {.backend = backend_}).value().run({});
    Rewriter rewriter(graph_);
    for (const Node& node : graph_.nodes()) {
      const auto found = std::ranges::find(weights, node.results[0]);
      if (found == weights.end()) {
        rewriter.copy(node);
        continue;
      }
      const auto i = static_cast<size_t>(found - weights.begin());
      rewriter.replace(node, {rewriter.target().add_parameter(name_of(*found, i), graph_.type(*found), values[i])});
    }
    return eliminate_dead_code(rewriter.finish());
  }

 private:
  static bool has_values(const Leaf& leaf) { return leaf.kind != LeafKind::kInput && leaf.data.defined(); }

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

  // After the first leaf that it comes of.
  std::string name_of(ValueRef weight, size_t i) const {
    ValueRef from = weight;
    while (graph_.producer(from)) from = graph_.node(graph_.producer(from)).operands[0];
    return fmt::format("{}.folded{}", graph_.leaf(from)->name, i);
  }

  const Graph& graph_;
  const std::string& backend_;
  std::vector<bool> is_known_;
};

}  // namespace

Graph fold_norms_ahead(const Graph& graph, const std::string& backend) {
  const Graph folded = fold_norms(graph);
  return Folder(folded, backend).run();
}

}  // namespace tenon
