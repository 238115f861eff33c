#include "fusion/work.h"

#include <algorithm>
#include <array>
#include <map>

#include "fusion/live_memory.h"

namespace tenon {
namespace {

// Of one thread, in nanoseconds. Only how they compare matters.
constexpr double kFlop = 1.0 / 60;
constexpr double kByte = 1.0 / 12;
constexpr double kLaunch = 1000;
constexpr double kOperation = 1.0 / 16;  // of an element: plus, minus, times, compare, select
constexpr double kFunction = 0.5;        // exp, tanh, ...
constexpr double kRandom = 1.5;

constexpr std::array<std::string_view, 19> kOperations = {
    "add", "sub", "mul", "neg", "abs", "maximum", "minimum", "relu",        "where",      "eq",
    "ne",  "lt",  "le",  "gt",  "ge",  "cast",    "sign",    "logical_and", "logical_not"};
constexpr std::array<std::string_view, 9> kViews = {"full",  "iota",    "permute", "expand", "reshape",
                                                    "slice", "windows", "pad",     "flip"};

template <class Names>
bool is_among(const Names& names, const Node& node) {
  return std::ranges::find(names, node.op->name.get()) != names.end();
}

double count(const Graph& graph, ValueRef value, const symbolic::Bindings& sizes) {
  const TensorType& type = graph.type(value);
  return static_cast<double>(bytes_of(type, sizes) / size_of(type.dtype));
}

double size_of_dim(const TensorType& type, size_t dim, const symbolic::Bindings& sizes) {
  return static_cast<double>(evaluate(std::span(type.shape).subspan(dim, 1), sizes)[0]);
}

// Each letter of the spec is a loop.
double contract_flops(const OpView& view, const symbolic::Bindings& sizes) {
  std::map<char, double> loops;
  size_t operand = 0, dim = 0;
  for (char letter : view.string("spec")) {
    if (letter == '-') break;
    if (letter == ',') {
      ++operand, dim = 0;
    } else {
      loops[letter] = size_of_dim(view.type(operand), dim++, sizes);
    }
  }
  double flops = 2;
  for (const auto& [letter, size] : loops) flops *= size;
  return flops;
}

// Each element of the result, or of what a transposed one spreads, meets the weights of one channel.
double conv_flops(const Graph& graph, const Node& node, const symbolic::Bindings& sizes) {
  const OpView view = view_of(graph, *node.op, node.operands, node.attrs);
  const double weights = count(graph, node.operands[1], sizes) / std::max(1.0, size_of_dim(view.type(1), 0, sizes));
  return 2 * weights * count(graph, view.flag("transposed") ? node.operands[0] : node.results[0], sizes);
}

double attention_flops(const Graph& graph, const Node& node, const symbolic::Bindings& sizes) {
  const TensorType& keys = graph.type(node.operands[1]);
  return 4 * count(graph, node.operands[0], sizes) * size_of_dim(keys, keys.shape.size() - 2, sizes);
}

}  // namespace

bool is_pointwise(const Node& node) {
  return std::holds_alternative<Elementwise>(node.op->semantics.get()) && node.results.size() == 1;
}

bool only_moves(const Node& node) { return is_among(kViews, node); }

double work_of(const Graph& graph, const Node& node, const symbolic::Bindings& sizes) {
  const std::string_view op = node.op->name.get();
  if (op == "contract") return kFlop * contract_flops(view_of(graph, *node.op, node.operands, node.attrs), sizes);
  if (op == "conv") return kFlop * conv_flops(graph, node, sizes);
  if (op == "scaled_dot_product_attention") return kFlop * attention_flops(graph, node, sizes);
  if (only_moves(node)) return 0;
  double elements = count(graph, node.results[0], sizes);
  if (node.op->family.get() == "random") return kRandom * elements;
  if (!is_pointwise(node) && !node.operands.empty()) {
    elements = std::max(elements, count(graph, node.operands[0], sizes));
  }
  return elements * (is_among(kOperations, node) ? kOperation : kFunction);
}

double work_of(const Graph& graph, const FusedGroup& group, const symbolic::Bindings& sizes) {
  if (group.kind == GroupKind::kAlias) return 0;
  double work = 0;
  double bytes = 0;
  for (NodeRef node : group.nodes) work += work_of(graph, graph.node(node), sizes);
  for (const auto* values : {&group.inputs, &group.outputs}) {
    for (ValueRef value : *values) bytes += static_cast<double>(bytes_of(graph.type(value), sizes));
  }
  return kLaunch + std::max(work, kByte * bytes);
}

}  // namespace tenon
