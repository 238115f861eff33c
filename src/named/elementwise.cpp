// Arithmetic and reductions: dtypes, and the casts between them.
#include <fmt/format.h>

#include <algorithm>

#include "graph/graph.h"
#include "named/build.h"
#include "named/tensor.h"
#include "passes/passes.h"
#include "support/is_in.h"

namespace tenon::named {
namespace {

// The dtype of a number beside tensors of `dtype`.
DType dtype_beside(const Operand& number, DType dtype) {
  if (number.natural() == DType::kF32) return is_float(dtype) ? dtype : DType::kF32;
  return dtype == DType::kBool ? number.natural() : dtype;
}

// What dtypes promote to depends on ranks only as far as they are 0.
TensorType type_beside(const Operand& operand, DType others) {
  if (!operand.tensor()) return {dtype_beside(operand, others), {}};
  return {operand.tensor()->dtype,
          operand.tensor()->dims.empty() ? Shape() : Shape{symbolic::Symbol("rows"), symbolic::Symbol("columns")}};
}

// The dtype that the tensors among the operands promote to; of numbers alone, their own.
DType dtype_of_tensors(std::span<const Operand> operands) {
  std::vector<TensorType> tensors, numbers;
  for (const Operand& operand : operands) {
    (operand.tensor() ? tensors : numbers).push_back(type_beside(operand, operand.natural()));
  }
  return result_dtype(tensors.empty() ? numbers : tensors);
}

}  // namespace

std::vector<Symbol> union_of(const std::vector<TermPtr>& nodes) {
  std::vector<Symbol> dims;
  for (const TermPtr& node : nodes) {
    for (const Symbol& dim : node->dims) {
      if (!is_in(dims, dim)) dims.push_back(dim);
    }
  }
  return dims;
}

loops::Scalar number_as(const Operand& number, DType dtype) {
  const auto* integer = std::get_if<int64_t>(&number.number());
  if (is_float(dtype)) {
    return round_to(dtype, integer ? static_cast<double>(*integer) : std::get<double>(number.number()));
  }
  if (!integer) fail("{} is no {}", std::get<double>(number.number()), name_of(dtype));
  if (wrap_to(dtype, *integer) != *integer) fail("{} does not fit {}", *integer, name_of(dtype));
  return *integer;
}

TermPtr cast_to(const TermPtr& node, DType dtype) {
  if (node->dtype == dtype) return node;
  return make_term({dtype, node->dims, ComputeTerm{&op_named("cast")}, {node}});
}

TermPtr operand_as(const Operand& operand, DType dtype) {
  if (operand.tensor()) return cast_to(operand.tensor(), dtype);
  return make_term({dtype, {}, ConstantTerm{number_as(operand, dtype)}});
}

DType promoted_dtype(std::span<const TermPtr> nodes) {
  std::vector<TensorType> types;
  for (const TermPtr& node : nodes) types.push_back(type_beside(Tensor(node), node->dtype));
  return result_dtype(types);
}

namespace {

bool is_cast(const OpDef& op) { return op.attr_named("dtype") != nullptr; }

// An op in the dtype that its operands promote to; f16 and bf16 in f32.
TermPtr compute(const OpDef& op, std::vector<TermPtr> inputs, DType promoted, DType result) {
  const bool selects = std::get<Elementwise>(op.semantics.get()).compute == tenon::Compute::kSelect;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = cast_to(inputs[i], selects && i == 0 ? DType::kBool : wide(promoted));
  }
  // What computes in f32 for f16 gives f32; what gives a dtype of its own (a comparison: bool) gives that.
  const DType computed = result == promoted ? wide(promoted) : result;
  std::vector<Symbol> dims = union_of(inputs);
  return cast_to(make_term({computed, std::move(dims), ComputeTerm{&op}, std::move(inputs)}), result);
}

TermPtr constant_of(const tenon::Tensor& data) {
  const bool is_real = is_float(data.dtype());
  return make_term({data.dtype(), {}, ConstantTerm{is_real ? loops::Scalar(data.real(0)) : data.integer(0)}});
}

// Applies the nodes of a graph over whole tensors, as far as they are functions of single elements.
class Applier {
 public:
  Applier(const OpDef& op, const Graph& graph, const std::vector<TermPtr>& inputs) : op_(op), graph_(graph) {
    for (const Leaf& leaf : graph.leaves()) {
      const bool is_input = leaf.kind == LeafKind::kInput;
      if (!is_input && leaf.data.numel() != 1) refuse();
      values_.emplace(leaf.value, is_input ? inputs[leaf.ordinal] : constant_of(leaf.data));
    }
  }

  TermPtr run() {
    if (graph_.nodes().empty()) refuse();
    for (const tenon::Node& node : graph_.nodes()) values_.emplace(node.results[0], apply(node));
    return values_.at(graph_.outputs()[0]);
  }

 private:
  TermPtr apply(const tenon::Node& node) const {
    const auto* semantics = std::get_if<Elementwise>(&node.op->semantics.get());
    if (!semantics) refuse();
    const DType result = graph_.type(node.results[0]).dtype;
    std::vector<TermPtr> inputs;
    for (ValueRef operand : node.operands) inputs.push_back(values_.at(operand));
    if (is_cast(*node.op)) return cast_to(inputs[0], result);
    const OpView view = view_of(graph_, *node.op, node.operands, node.attrs);
    return compute(*node.op, std::move(inputs), compute_dtype(*semantics, view), result);
  }

  [[noreturn]] void refuse() const { fail("{} is not a function of single elements", op_.name.get()); }

  const OpDef& op_;
  const Graph& graph_;
  std::map<ValueRef, TermPtr> values_;
};

Tensor reduce(const TermPtr& node, const Symbols& folded, std::string_view op, bool widens) {
  for (const Symbol& symbol : folded) require_dim(*node, symbol);
  std::vector<Symbol> kept;
  for (const Symbol& dim : node->dims) {
    if (!folded.empty() && !is_in(folded, dim)) kept.push_back(dim);
  }
  const DType result = widens && is_integral(node->dtype) ? DType::kI64 : node->dtype;
  const TermPtr input = cast_to(node, wide(result));
  if (kept.size() == node->dims.size()) return Tensor(cast_to(input, result));
  return Tensor(cast_to(make_term({input->dtype, std::move(kept), ReduceTerm{&op_named(op)}, {input}}), result));
}

}  // namespace

// The op's own rules say what it is: a graph of it, over tensors of any size, is expanded and applied node by node.
Tensor apply(std::string_view name, const std::vector<Operand>& operands, NamedAttrs attrs) {
  const OpDef& op = op_named(name);
  if (operands.size() != op.operands.get().size()) {
    fail("{} takes {} operands, got {}", name, op.operands.get().size(), operands.size());
  }
  const auto* semantics = std::get_if<Elementwise>(&op.semantics.get());
  const size_t first = semantics && semantics->compute == tenon::Compute::kSelect ? 1 : 0;
  const DType tensors = dtype_of_tensors(std::span(operands).subspan(first));
  Graph graph;
  std::vector<ValueRef> values;
  std::vector<TermPtr> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    TensorType type = type_beside(operands[i], i < first ? operands[i].natural() : tensors);
    inputs.push_back(operand_as(operands[i], type.dtype));
    values.push_back(graph.add_input(fmt::format("x{}", i), std::move(type)));
  }
  const NodeRef node = graph.add_node(op, values, complete_attrs(op, std::move(attrs)));
  graph.set_outputs({graph.node(node).results[0]});
  return Tensor(Applier(op, decompose(graph), inputs).run());
}

// ---- by name --------------------------------------------------------------------------------------------------------

Tensor operator+(const Operand& a, const Operand& b) { return apply("add", {a, b}); }
Tensor operator-(const Operand& a, const Operand& b) { return apply("sub", {a, b}); }
Tensor operator*(const Operand& a, const Operand& b) { return apply("mul", {a, b}); }
Tensor operator/(const Operand& a, const Operand& b) { return apply("div", {a, b}); }
Tensor operator-(const Tensor& x) { return apply("neg", {x}); }
Tensor operator<(const Operand& a, const Operand& b) { return apply("lt", {a, b}); }
Tensor operator<=(const Operand& a, const Operand& b) { return apply("le", {a, b}); }
Tensor operator>(const Operand& a, const Operand& b) { return apply("gt", {a, b}); }
Tensor operator>=(const Operand& a, const Operand& b) { return apply("ge", {a, b}); }
Tensor eq(const Operand& a, const Operand& b) { return apply("eq", {a, b}); }
Tensor ne(const Operand& a, const Operand& b) { return apply("ne", {a, b}); }
Tensor max(const Operand& a, const Operand& b) { return apply("maximum", {a, b}); }
Tensor min(const Operand& a, const Operand& b) { return apply("minimum", {a, b}); }
Tensor where(const Operand& condition, const Operand& a, const Operand& b) { return apply("where", {condition, a, b}); }
Tensor exp(const Operand& x) { return apply("exp", {x}); }
Tensor log(const Operand& x) { return apply("log", {x}); }
Tensor sqrt(const Operand& x) { return apply("sqrt", {x}); }
Tensor abs(const Operand& x) { return apply("abs", {x}); }
Tensor tanh(const Operand& x) { return apply("tanh", {x}); }

Tensor Tensor::cast(DType dtype) const { return Tensor(cast_to(node_, dtype)); }

// ---- reductions -----------------------------------------------------------------------------------------------------

Tensor Tensor::sum(const Symbols& dims) const { return reduce(node_, dims, "add", true); }
Tensor Tensor::prod(const Symbols& dims) const { return reduce(node_, dims, "mul", true); }

// Rounded once: a total that f16 cannot hold may have a mean that it can.
Tensor Tensor::mean(const Symbols& dims) const {
  const DType result = is_float(dtype()) ? dtype() : DType::kF32;
  const Tensor total = (is_float(dtype()) ? cast(wide(result)) : *this).sum(dims);
  Expr count = 1;
  for (const Symbol& dim : dims.empty() ? this->dims() : dims) count *= dim.size();
  return (total.cast(wide(result)) / index(count).cast(wide(result))).cast(result);
}

Tensor Tensor::max(const Symbols& dims) const { return reduce(node_, dims, "maximum", false); }
Tensor Tensor::min(const Symbols& dims) const { return reduce(node_, dims, "minimum", false); }

}  // namespace tenon::named
