#include "training/precision.h"

#include "graph/rewrite.h"

namespace tenon {
namespace {

bool is_product(const OpDef& op) { return cost_of(op) == Cost::kProduct; }

void copy_in_bf16(Rewriter& rewriter, const Node& node) {
  Builder builder(rewriter.target(), node.location);
  std::vector<ValueRef> operands = rewriter.map(node.operands);
  for (ValueRef& operand : operands) {
    if (!operand || rewriter.target().type(operand).dtype != DType::kF32) continue;
    operand = builder.cast(builder.value(operand), DType::kBF16).ref();
  }
  const NodeRef product = rewriter.target().add_node(*node.op, std::move(operands), node.attrs, node.location);
  std::vector<ValueRef> results;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Value result = builder.value(rewriter.target().node(product).results[i]);
    results.push_back(builder.cast(result, rewriter.source().type(node.results[i]).dtype).ref());
  }
  rewriter.replace(node, results);
}

}  // namespace

Graph with_bf16_products(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const bool is_f32 = graph.type(node.results[0]).dtype == DType::kF32;
    if (is_product(*node.op) && is_f32) {
      copy_in_bf16(rewriter, node);
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

}  // namespace tenon
