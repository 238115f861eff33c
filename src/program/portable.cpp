#include "program/portable.h"

#include <fmt/format.h>

#include <map>

namespace tenon {

Graph with_constants_as_parameters(const Graph& graph) {
  Graph result(graph.name());
  for (const auto& [symbol, range] : graph.symbols()) result.declare_symbol(symbol, range);
  std::map<ValueRef, ValueRef> moved = {{ValueRef(), ValueRef()}};
  for (const Leaf& leaf : graph.leaves()) {
    const bool is_large = leaf.kind == LeafKind::kConstant && leaf.data.numel() > kMostPrinted;
    std::string name = fmt::format("constant{}", leaf.value.id);
    while (is_large && graph.leaf_named(name)) name += "_";
    moved[leaf.value] = is_large ? result.add_parameter(name, graph.type(leaf.value), leaf.data)
                                 : result.copy_leaf(leaf, graph.type(leaf.value));
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) operands.push_back(moved.at(operand));
    const NodeRef copy = result.add_node(*node.op, std::move(operands), node.attrs, node.location);
    for (size_t i = 0; i < node.results.size(); ++i) {
      moved[node.results[i]] = result.node(copy).results[i];
      result.set_value_name(moved[node.results[i]], graph.value_name(node.results[i]));
    }
  }
  std::vector<ValueRef> outputs;
  for (ValueRef output : graph.outputs()) outputs.push_back(moved.at(output));
  result.set_outputs(std::move(outputs));
  for (const Update& update : graph.updates()) result.add_update(moved.at(update.target), moved.at(update.value));
  return result;
}

}  // namespace tenon
