#include "fusion/work.h"

#include <algorithm>

#include "fusion/live_memory.h"
#include "machine/machine.h"

namespace tenon {
namespace {

const Machine kMachine;  // its times

double count(const Graph& graph, ValueRef value, const symbolic::Bindings& sizes) {
  const TensorType& type = graph.type(value);
  return static_cast<double>(bytes_of(type, sizes) / size_of(type.dtype));
}

TensorType evaluated(const TensorType& type, const symbolic::Bindings& sizes) {
  return {type.dtype, to_shape(evaluate(type.shape, sizes))};
}

double flops_of(const Graph& graph, const Node& node, const symbolic::Bindings& sizes) {
  std::vector<TensorType> types;
  for (ValueRef operand : node.operands)
    types.push_back(operand ? evaluated(graph.type(operand), sizes) : TensorType());
  std::vector<const TensorType*> present;
  for (size_t i = 0; i < types.size(); ++i) present.push_back(node.operands[i] ? &types[i] : nullptr);
  return node.op->flops(OpView(*node.op, present, node.attrs), evaluated(graph.type(node.results[0]), sizes));
}

double time_of_element(const OpDef& op) {
  const Cost cost = cost_of(op);
  if (cost == Cost::kOperation) return kMachine.operation_time;
  return cost == Cost::kRandom ? kMachine.random_time : kMachine.function_time;
}

}  // namespace

bool only_moves(const Node& node) { return cost_of(*node.op) == Cost::kFree; }

double work_of(const Graph& graph, const Node& node, const symbolic::Bindings& sizes) {
  if (node.op->flops != nullptr) return kMachine.flop_time * flops_of(graph, node, sizes);
  if (only_moves(node)) return 0;
  double elements = count(graph, node.results[0], sizes);
  if (!is_pointwise(node) && !node.operands.empty()) {
    elements = std::max(elements, count(graph, node.operands[0], sizes));
  }
  return elements * time_of_element(*node.op);
}

double work_of(const Graph& graph, const FusedGroup& group, const symbolic::Bindings& sizes) {
  if (group.kind == GroupKind::kAlias) return 0;
  double work = 0;
  double bytes = 0;
  for (NodeRef node : group.nodes) work += work_of(graph, graph.node(node), sizes);
  for (const auto* values : {&group.inputs, &group.outputs}) {
    for (ValueRef value : *values) bytes += static_cast<double>(bytes_of(graph.type(value), sizes));
  }
  return kMachine.launch_time + std::max(work, kMachine.byte_time * bytes);
}

}  // namespace tenon
