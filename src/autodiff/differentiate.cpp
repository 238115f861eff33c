#include "autodiff/differentiate.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/builder.h"
#include "graph/rewrite.h"

namespace tenon {
namespace {

class Differentiator {
 public:
  // The gradient nodes are added to the end of the graph.
  Differentiator(Graph& graph, std::span<const ValueRef> wrt)
      : graph_(graph),
        wrt_(wrt.begin(), wrt.end()),
        gradients_(graph.value_count()),
        needed_(graph.value_count(), false) {
    for (ValueRef value : wrt_) require_differentiable(value);
    mark_needed();
  }

  void start_at(ValueRef value, Value cotangent) { accumulate(value, cotangent); }

  // A ref is empty if the start values do not depend on that value.
  std::vector<ValueRef> run() {
    for (size_t id = graph_.nodes().size(); id-- > 0;) differentiate_node(NodeRef{static_cast<uint32_t>(id)});
    std::vector<ValueRef> found;
    for (ValueRef value : wrt_) found.push_back(gradients_[value.id] ? gradients_[value.id].ref() : ValueRef());
    return found;
  }

 private:
  void require_differentiable(ValueRef value) const {
    if (!graph_.owns(value)) fail("a gradient is asked for a value of another graph");
    const DType dtype = graph_.type(value).dtype;
    if (!is_float(dtype)) fail("a value of dtype {} has no gradient", name_of(dtype));
  }

  // A value is needed when it depends on one of `wrt` through floating values.
  void mark_needed() {
    for (ValueRef value : wrt_) needed_[value.id] = true;
    for (const Node& node : graph_.nodes()) {
      const bool depends = std::ranges::any_of(node.operands, [&](ValueRef v) { return v && needed_[v.id]; });
      for (ValueRef result : node.results) {
        if (depends && is_float(graph_.type(result).dtype)) needed_[result.id] = true;
      }
    }
  }

  void accumulate(ValueRef value, Value gradient) {
    Value& sum = gradients_[value.id];
    sum = sum ? sum + gradient : gradient;
  }

  void differentiate_node(NodeRef ref) {
    const Node node = graph_.node(ref);  // a copy: the graph grows below
    const bool reached =
        std::ranges::any_of(node.results, [&](ValueRef v) { return static_cast<bool>(gradients_[v.id]); });
    const bool wanted = std::ranges::any_of(node.operands, [&](ValueRef v) { return v && needed_[v.id]; });
    if (!reached || !wanted) return;
    const auto& rule = node.op->gradient.get();
    if (std::holds_alternative<NotDifferentiable>(rule)) {
      fail_at(node.location, "{} is not differentiable, and a gradient is asked through it", node.op->name.get());
    }
    check(std::holds_alternative<GradientFn>(rule), "{} was not expanded", node.op->name.get());
    apply(node, std::get<GradientFn>(rule));
  }

  void apply(const Node& node, const GradientFn& rule) {
    std::vector<Value> results;
    std::vector<Value> cotangents;
    for (ValueRef result : node.results) {
      results.emplace_back(graph_, result);
      cotangents.push_back(gradients_[result.id]);
    }
    std::vector<Value> operands;
    for (ValueRef operand : node.operands) operands.push_back(operand ? Value(graph_, operand) : Value());
    GradContext context(graph_, node, std::move(operands), std::move(results), std::move(cotangents), node.location);
    const std::vector<Value> gradients = rule(context);
    check(gradients.size() == node.operands.size(), "{} gave {} gradients for {} operands", node.op->name.get(),
          gradients.size(), node.operands.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      const ValueRef operand = node.operands[i];
      if (!operand || !gradients[i] || !needed_[operand.id]) continue;
      const TensorType& type = graph_.type(operand);
      accumulate(operand, context.cast(context.sum_to(gradients[i], type.shape), type.dtype));
    }
  }

  Graph& graph_;
  std::vector<ValueRef> wrt_;
  std::vector<Value> gradients_;  // by value; nodes that are added have none
  std::vector<bool> needed_;
};

// A graph of gradients already has inputs named grad_0, ...
std::string cotangent_name(const Graph& graph, size_t output) {
  std::string name = fmt::format("grad_{}", output);
  while (graph.leaf_named(name) != nullptr) name.insert(0, "grad_");
  return name;
}

}  // namespace

Graph expand_for_gradients(const Graph& graph, RewriteMap* moved) {
  return expand_where(
      graph, [](const OpDef& op) { return std::holds_alternative<ByExpansion>(op.gradient.get()); }, moved);
}

std::vector<ValueRef> add_gradients(Graph& graph, ValueRef scalar, std::span<const ValueRef> wrt) {
  const TensorType type = graph.type(scalar);
  if (!is_float(type.dtype) || type.rank() != 0) {
    fail("gradients are taken of one floating-point scalar, got {}", to_string(type));
  }
  Differentiator differentiator(graph, wrt);
  differentiator.start_at(scalar, Builder(graph).scalar(1, type.dtype));
  return differentiator.run();
}

Result<Graph> differentiate(const Graph& graph, std::span<const ValueRef> wrt) {
  return attempt([&] {
    RewriteMap moved;
    Graph expanded = expand_for_gradients(graph, &moved);
    std::vector<ValueRef> targets;
    for (ValueRef value : wrt) targets.push_back(graph.owns(value) ? moved.at(value) : ValueRef());
    Differentiator differentiator(expanded, targets);
    const std::vector<ValueRef> outputs = expanded.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TensorType type = expanded.type(outputs[i]);
      if (!is_float(type.dtype)) continue;
      const ValueRef cotangent = expanded.add_input(cotangent_name(expanded, i), type);
      differentiator.start_at(outputs[i], {expanded, cotangent});
    }
    std::vector<ValueRef> gradients = differentiator.run();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) gradients[i] = Builder(expanded).full_like({expanded, targets[i]}, 0).ref();
    }
    expanded.set_outputs(std::move(gradients));
    expanded.clear_updates();
    return expanded;
  });
}

}  // namespace tenon
