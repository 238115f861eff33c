#include "loops/lower.h"

#include <algorithm>
#include <cstring>

#include "graph/rewrite.h"
#include "loops/kernel.h"
#include "loops/schedule.h"
#include "loops/unify.h"
#include "support/cursor.h"

namespace tenon {
namespace {

using loops::VarRef;

bool has_one_value(const Tensor& tensor) {
  const auto size = static_cast<size_t>(size_of(tensor.dtype()));
  const std::byte* first = tensor.data();
  for (int64_t i = 1; i < tensor.numel(); ++i) {
    if (std::memcmp(first, tensor.data() + tensor.offset(i) * size_of(tensor.dtype()), size) != 0) return false;
  }
  return tensor.numel() > 0;
}

bool is_number(const Leaf& leaf) { return leaf.kind == LeafKind::kConstant && has_one_value(leaf.data); }

loops::Scalar number_of(const Tensor& tensor) {
  if (is_float(tensor.dtype())) return tensor.real(0);
  return tensor.integer(0);
}

class GraphLowering {
 public:
  explicit GraphLowering(const Graph& graph) : graph_(graph), kernel_(graph), values_(graph.value_count()) {}

  loops::IR run() {
    find_needed();
    for (ValueRef input : kernel_inputs(graph_)) read(input);
    for (const Leaf& leaf : graph_.leaves()) {
      if (is_number(leaf)) add_number(leaf);
    }
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (needed_nodes_[i]) located(node.location, [&] { lower_node(node); });
    }
    for (ValueRef kept : kept_values(graph_)) write(kept);
    return initial_schedule(unify(kernel_.ir));
  }

 private:
  void find_needed() {
    needed_nodes_.resize(graph_.nodes().size());
    const auto need = [&](ValueRef value) {
      if (const NodeRef node = value ? graph_.producer(value) : NodeRef()) needed_nodes_[node.id] = true;
    };
    std::ranges::for_each(kept_values(graph_), need);
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      if (needed_nodes_[i]) std::ranges::for_each(graph_.nodes()[i].operands, need);
    }
  }

  // Reads an array with all of its dimensions. A view then drops dimensions of size 1.
  void read(ValueRef value) {
    const TensorType& type = graph_.type(value);
    LoopValue whole;
    LoopDims kept;
    for (const Expr& size : type.shape) {
      whole.dims.push_back(kernel_.add_var(size));
      kept.push_back(size.is_constant(1) ? VarRef() : whole.dims.back());
    }
    whole.node = kernel_.ir.add_read(type.dtype, whole.dims);
    name(whole.node, value);
    LoopBuilder builder(kernel_);
    values_[value.id] = builder.view(kept, {whole, type.shape, builder.at(kept)});
  }

  void add_number(const Leaf& leaf) {
    const DType dtype = graph_.type(leaf.value).dtype;
    const LoopDims dims(graph_.type(leaf.value).shape.size());
    values_[leaf.value.id] = {LoopBuilder(kernel_).constant(dtype, number_of(leaf.data)).node, dims};
  }

  void write(ValueRef value) {
    LoopDims dims = values_[value.id].dims;
    for (size_t dim = 0; dim < dims.size(); ++dim) {
      if (!dims[dim]) dims[dim] = kernel_.add_var(graph_.type(value).shape[dim]);
    }
    kernel_.ir.add_write(values_[value.id].node, std::move(dims));
  }

  void lower_node(const Node& node) {
    std::vector<LoopValue> operands;
    for (ValueRef operand : node.operands) operands.push_back(operand ? values_[operand.id] : LoopValue());
    LoopContext context(kernel_, graph_, node, std::move(operands));
    if (std::holds_alternative<LibraryTask>(node.op->loops)) {
      fail("{} is a library task: it cannot be part of a kernel", node.op->name.get());
    }
    if (const auto* loops = std::get_if<LoopsFn>(&node.op->loops)) {
      (*loops)(context);
    } else {
      lower_elementwise(context);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const LoopValue result = without_elements(context.results()[i], graph_.type(node.results[i]).shape);
      values_[node.results[i].id] = result;
      name(result.node, node.results[i]);
    }
  }

  // A result without elements computes nothing, not even a value that is constant along the empty dimension.
  LoopValue without_elements(const LoopValue& value, const Shape& shape) {
    std::vector<int64_t> empty;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim].is_constant(0)) empty.push_back(static_cast<int64_t>(dim));
    }
    return LoopBuilder(kernel_).stretched(value, shape, empty);
  }

  // Computes in f32 or wider, and rounds once.
  static void lower_elementwise(LoopContext& l) {
    const auto* elementwise = std::get_if<Elementwise>(&l.op().semantics.get());
    check(elementwise != nullptr, "{} has no loops", l.op().name.get());
    const DType dtype = compute_dtype(*elementwise, l);
    std::vector<LoopValue> operands;
    for (size_t i = 0; i < l.operand_count(); ++i) {
      const bool is_condition = elementwise->compute == Compute::kSelect && i == 0;
      operands.push_back(is_condition ? l.in(i) : l.wide(l.cast(l.in(i), dtype)));
    }
    l.out(l.cast(l.compute(l.op(), operands), l.result().dtype));
  }

  // A node keeps its first name, and a name is given to one node.
  void name(loops::NodeRef node, ValueRef value) {
    const std::string& name =
        graph_.leaf(value) && !graph_.leaf(value)->name.empty() ? graph_.leaf(value)->name : graph_.value_name(value);
    if (!is_identifier(name) || !named_.insert(node).second || !names_.insert(name).second) return;
    kernel_.ir.set_name(node, name);
  }

  const Graph& graph_;
  LoopKernel kernel_;
  std::vector<LoopValue> values_;
  std::vector<bool> needed_nodes_;
  std::set<loops::NodeRef> named_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<ValueRef> kernel_inputs(const Graph& graph) {
  std::vector<ValueRef> inputs = graph.inputs();
  for (const Leaf& leaf : graph.leaves()) {
    if (leaf.kind != LeafKind::kInput && !is_number(leaf)) inputs.push_back(leaf.value);
  }
  return inputs;
}

Result<loops::IR> lower(const Graph& graph) {
  const auto expands = [](const OpDef& op) { return op.is_composite() && !std::holds_alternative<LoopsFn>(op.loops); };
  return attempt([&] {
    if (std::ranges::none_of(graph.nodes(), expands, [](const Node& node) -> const OpDef& { return *node.op; })) {
      return GraphLowering(graph).run();
    }
    return GraphLowering(expand_where(graph, expands)).run();
  });
}

}  // namespace tenon
