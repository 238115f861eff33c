#include "tests/loops/support_lowered.h"

#include <algorithm>

#include "graph/evaluate.h"
#include "loops/lower.h"
#include "passes/passes.h"

namespace tenon::test {

bool needs_library(const Graph& graph) {
  const Graph expanded = decompose(graph);
  return std::ranges::any_of(expanded.nodes(),
                             [](const Node& node) { return std::holds_alternative<LibraryTask>(node.op->loops); });
}

Graph with_data(Graph graph, Random& random, std::vector<Tensor>& inputs, int64_t n) {
  const auto tensor_of = [&](TensorType type) {
    for (Expr& size : type.shape) size = substitute(size, {{Symbol("N"), n}});
    return random_tensor(type, {}, {-3, 3}, random);
  };
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind == LeafKind::kInput) inputs.push_back(tensor_of(graph.type(leaf.value)));
    if (leaf.kind == LeafKind::kParameter || leaf.kind == LeafKind::kBuffer) {
      graph.bind(leaf.name, tensor_of(graph.type(leaf.value)));
    }
  }
  return graph;
}

std::vector<Tensor> kernel_arguments(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> arguments = inputs;
  for (ValueRef value : kernel_inputs(graph)) {
    if (graph.leaf(value)->kind != LeafKind::kInput) arguments.push_back(graph.leaf(value)->data);
  }
  return arguments;
}

std::optional<LoweredGraph> random_lowered(uint64_t seed) {
  Random random(seed);
  std::vector<Tensor> inputs;
  constexpr int64_t kSizes[] = {3, 0, 1, 8};
  Graph graph = with_data(random_graph(random, 1 + static_cast<int>(seed % 12)), random, inputs, kSizes[seed / 12 % 4]);
  graph.clear_updates();
  if (needs_library(graph)) return {};
  const auto expected = evaluate(graph, inputs);
  if (!expected.ok()) return {};
  std::vector<Tensor> arguments = kernel_arguments(graph, inputs);
  loops::IR ir = lower(graph).value();
  return LoweredGraph{std::move(graph), std::move(ir), std::move(arguments), {}, *expected};
}

}  // namespace tenon::test
