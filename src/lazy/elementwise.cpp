// Arithmetic and reductions: dtypes, and the casts between them.
#include <algorithm>

#include "lazy/build.h"
#include "lazy/tensor.h"

namespace tenon::lazy {
namespace {

DType wide(DType dtype) { return is_float(dtype) && size_of(dtype) == 2 ? DType::kF32 : dtype; }

// The dtype of a number beside tensors of `dtype`.
DType dtype_beside(const Operand& number, DType dtype) {
  if (number.natural() == DType::kF32) return is_float(dtype) ? dtype : DType::kF32;
  return dtype == DType::kBool ? number.natural() : dtype;
}

const Elementwise& semantics_of(const OpDef& op) {
  const auto* elementwise = std::get_if<Elementwise>(&op.semantics.get());
  if (!elementwise) fail("{} is not a function of single elements: write it with those that are", op.name.get());
  if (op.attr_named("dtype")) fail("{} needs a dtype: use the function cast", op.name.get());
  return *elementwise;
}

// What dtypes promote to depends on ranks only as far as they are 0.
TensorType type_beside(const Operand& operand, DType others) {
  if (!operand.tensor()) return {dtype_beside(operand, others), {}};
  return {operand.tensor()->dtype, operand.tensor()->dims.empty() ? Shape() : Shape{1}};
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

std::vector<Symbol> union_of(const std::vector<NodePtr>& nodes) {
  std::vector<Symbol> dims;
  for (const NodePtr& node : nodes) {
    for (const Symbol& dim : node->dims) {
      if (std::ranges::find(dims, dim) == dims.end()) dims.push_back(dim);
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

NodePtr cast_to(const NodePtr& node, DType dtype) {
  if (node->dtype == dtype) return node;
  return make_node({dtype, node->dims, Compute{&op_named("cast")}, {node}});
}

NodePtr operand_as(const Operand& operand, DType dtype) {
  if (operand.tensor()) return cast_to(operand.tensor(), dtype);
  return make_node({dtype, {}, Constant{number_as(operand, dtype)}});
}

DType promoted_dtype(std::span<const Operand> operands) {
  const DType tensors = dtype_of_tensors(operands);
  std::vector<TensorType> types;
  for (const Operand& operand : operands) types.push_back(type_beside(operand, tensors));
  return result_dtype(types);
}

Tensor apply(std::string_view name, const std::vector<Operand>& operands) {
  const OpDef& op = op_named(name);
  const Elementwise& semantics = semantics_of(op);
  const size_t first = semantics.compute == tenon::Compute::kSelect ? 1 : 0;
  if (operands.size() != op.operands.get().size()) {
    fail("{} takes {} operands, got {}", name, op.operands.get().size(), operands.size());
  }
  const DType tensors = dtype_of_tensors(std::span(operands).subspan(first));
  std::vector<TensorType> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    types.push_back(type_beside(operands[i], i < first ? operands[i].natural() : tensors));
  }
  std::vector<const TensorType*> pointers;
  for (const TensorType& type : types) pointers.push_back(&type);
  const std::vector<Attr> attrs = complete_attrs(op, {});
  const DType result = infer(op, pointers, attrs)[0].dtype;
  const DType promoted = compute_dtype(semantics, OpView(op, pointers, attrs));
  std::vector<NodePtr> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(operand_as(operands[i], i < first ? DType::kBool : wide(promoted)));
  }
  // What computes in f32 for f16 gives f32; what gives a dtype of its own (a comparison: bool) gives that.
  const DType computed = result == promoted ? wide(promoted) : result;
  std::vector<Symbol> dims = union_of(inputs);
  return Tensor(cast_to(make_node({computed, std::move(dims), Compute{&op}, std::move(inputs)}), result));
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

namespace {

Tensor reduce(const NodePtr& node, const Symbols& folded, std::string_view op, bool widens) {
  for (const Symbol& symbol : folded) require_dim(*node, symbol);
  std::vector<Symbol> kept;
  for (const Symbol& dim : node->dims) {
    if (!folded.empty() && std::ranges::find(folded, dim) == folded.end()) kept.push_back(dim);
  }
  const DType result = widens && is_integral(node->dtype) ? DType::kI64 : node->dtype;
  const NodePtr input = cast_to(node, wide(result));
  if (kept.size() == node->dims.size()) return Tensor(cast_to(input, result));
  return Tensor(cast_to(make_node({input->dtype, std::move(kept), Reduce{&op_named(op)}, {input}}), result));
}

}  // namespace

Tensor Tensor::sum(const Symbols& dims) const { return reduce(node_, dims, "add", true); }
Tensor Tensor::prod(const Symbols& dims) const { return reduce(node_, dims, "mul", true); }
Tensor Tensor::max(const Symbols& dims) const { return reduce(node_, dims, "maximum", false); }
Tensor Tensor::min(const Symbols& dims) const { return reduce(node_, dims, "minimum", false); }

}  // namespace tenon::lazy
