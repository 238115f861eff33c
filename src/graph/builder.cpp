#include "graph/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon {
namespace {

Builder builder_for(Value a, Value b) {
  check(static_cast<bool>(a) && static_cast<bool>(b), "arithmetic on an empty value");
  return Builder(a.graph());
}

// The constant that stands beside `tensor` in an expression like x * 2.
Value number_beside(Value tensor, double number) {
  const bool stays_integral =
      is_integral(tensor.dtype()) && number == std::floor(number) && tensor.dtype() != DType::kBool;
  const DType dtype = is_float(tensor.dtype()) || stays_integral ? tensor.dtype() : DType::kF32;
  return Builder(tensor.graph()).scalar(number, dtype);
}

NamedAttrs reduction_attrs(std::vector<int64_t> dims, bool keepdim) {
  return {{"dims", std::move(dims)}, {"keepdim", keepdim}};
}

}  // namespace

Value operator+(Value a, Value b) { return builder_for(a, b).op("add", {a, b}); }
Value operator-(Value a, Value b) { return builder_for(a, b).op("sub", {a, b}); }
Value operator*(Value a, Value b) { return builder_for(a, b).op("mul", {a, b}); }
Value operator/(Value a, Value b) { return builder_for(a, b).op("div", {a, b}); }
Value operator-(Value a) { return Builder(a.graph()).op("neg", {a}); }
Value operator+(Value a, double b) { return a + number_beside(a, b); }
Value operator-(Value a, double b) { return a - number_beside(a, b); }
Value operator*(Value a, double b) { return a * number_beside(a, b); }
Value operator/(Value a, double b) { return a / number_beside(a, b); }
Value operator+(double a, Value b) { return number_beside(b, a) + b; }
Value operator-(double a, Value b) { return number_beside(b, a) - b; }
Value operator*(double a, Value b) { return number_beside(b, a) * b; }
Value operator/(double a, Value b) { return number_beside(b, a) / b; }

std::vector<Value> Builder::results(std::string_view name, const std::vector<Value>& operands, NamedAttrs attrs) {
  const OpDef& def = op_named(name);
  std::vector<ValueRef> refs;
  refs.reserve(operands.size());
  for (const Value& operand : operands) refs.push_back(operand.ref());
  const NodeRef node = graph_->add_node(def, std::move(refs), complete_attrs(def, std::move(attrs)), location_);
  std::vector<Value> values;
  for (ValueRef result : graph_->node(node).results) values.push_back(value(result));
  return values;
}

Value Builder::op(std::string_view name, const std::vector<Value>& operands, NamedAttrs attrs) {
  const std::vector<Value> values = results(name, operands, std::move(attrs));
  check(values.size() == 1, "{} has {} results; use results()", name, values.size());
  return values[0];
}

Value Builder::scalar(double number, DType dtype) { return constant(Tensor::scalar(dtype, number)); }
Value Builder::integer(int64_t number, DType dtype) { return constant(Tensor::scalar(dtype, number)); }

Value Builder::full(Attr number, Shape shape, DType dtype) {
  return op("full", {}, {{"value", std::move(number)}, {"shape", std::move(shape)}, {"dtype", dtype}});
}

Value Builder::full_like(Value like, double number) { return full(number, like.shape(), like.dtype()); }

Value Builder::iota(Expr size, DType dtype) { return op("iota", {}, {{"size", std::move(size)}, {"dtype", dtype}}); }

Value Builder::iota_along(int64_t dim, std::span<const Expr> shape) {
  Shape aligned(shape.size(), 1);
  aligned[static_cast<size_t>(dim)] = shape[static_cast<size_t>(dim)];
  return expand(reshape(iota(shape[static_cast<size_t>(dim)]), aligned), {shape.begin(), shape.end()});
}

Value Builder::compare(std::string_view name, Value a, double b) { return op(name, {a, number_beside(a, b)}); }

Value Builder::cast(Value x, DType dtype) { return x.dtype() == dtype ? x : op("cast", {x}, {{"dtype", dtype}}); }

Value Builder::sum(Value x, std::vector<int64_t> dims, bool keepdim) {
  return op("sum", {x}, reduction_attrs(std::move(dims), keepdim));
}
Value Builder::mean(Value x, std::vector<int64_t> dims, bool keepdim) {
  return op("mean", {x}, reduction_attrs(std::move(dims), keepdim));
}
Value Builder::amax(Value x, std::vector<int64_t> dims, bool keepdim) {
  return op("amax", {x}, reduction_attrs(std::move(dims), keepdim));
}
Value Builder::contract(Value a, Value b, std::string spec) {
  return op("contract", {a, b}, {{"spec", std::move(spec)}});
}

Value Builder::reshape(Value x, Shape shape) {
  return x.shape() == shape ? x : op("reshape", {x}, {{"shape", std::move(shape)}});
}
Value Builder::permute(Value x, std::vector<int64_t> dims) { return op("permute", {x}, {{"dims", std::move(dims)}}); }

Value Builder::transpose(Value x, int64_t a, int64_t b) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(normalize_dim(a, x.rank()))],
            dims[static_cast<size_t>(normalize_dim(b, x.rank()))]);
  return permute(x, std::move(dims));
}

Value Builder::expand(Value x, Shape shape) {
  return x.shape() == shape ? x : op("expand", {x}, {{"shape", std::move(shape)}});
}

Value Builder::unsqueeze(Value x, int64_t dim) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + normalize_dim(dim, x.rank() + 1), 1);
  return reshape(x, std::move(shape));
}

Value Builder::squeeze(Value x, int64_t dim) {
  const int64_t position = normalize_dim(dim, x.rank());
  check(x.size(position).is_constant(1), "squeeze of a dimension of size {}", to_string(x.size(position)));
  Shape shape = x.shape();
  shape.erase(shape.begin() + position);
  return reshape(x, std::move(shape));
}

Value Builder::slice(Value x, int64_t dim, Expr start, Expr end, int64_t step) {
  return op("slice", {x}, {{"dim", dim}, {"start", std::move(start)}, {"end", std::move(end)}, {"step", step}});
}

Value Builder::pad(Value x, std::vector<Expr> low, std::vector<Expr> high, double fill) {
  return op("pad", {x}, {{"low", std::move(low)}, {"high", std::move(high)}, {"value", fill}});
}

Value Builder::concat(const std::vector<Value>& parts, int64_t dim) { return op("concat", parts, {{"dim", dim}}); }

Value Builder::sum_to(Value x, const Shape& shape) {
  const size_t added = x.shape().size() - shape.size();
  std::vector<int64_t> dims;
  for (size_t dim = 0; dim < x.shape().size(); ++dim) {
    const bool stretched = dim >= added && shape[dim - added] != x.shape()[dim];
    if (dim < added || stretched) dims.push_back(static_cast<int64_t>(dim));
  }
  if (dims.empty()) return x;
  return reshape(sum(x, std::move(dims)), shape);
}

NodeContext::NodeContext(Graph& graph, const Node& node, std::vector<Value> operands, Location location)
    : Builder(graph, std::move(location)),
      OpView(
          *node.op,
          [&] {
            std::vector<const TensorType*> types;
            for (const Value& operand : operands) types.push_back(operand ? &operand.type() : nullptr);
            return types;
          }(),
          node.attrs),
      operands_(std::move(operands)) {}

Value ExpandContext::in_wide(size_t operand) {
  const Value x = in(operand);
  return x ? cast(x, wide(x.dtype())) : x;
}

Value GradContext::dout(size_t result) {
  if (has_dout(result)) return cotangents_[result];
  return full_like(results_[result], 0);
}

std::vector<ValueRef> expand(Graph& body, const Node& node, std::span<const TensorType* const> operands) {
  const auto* expansion = std::get_if<Expansion>(&node.op->semantics.get());
  check(expansion != nullptr, "{} is not composite", node.op->name.get());
  std::vector<Value> formal;
  for (const TensorType* type : operands) {
    const std::string name = fmt::format("in{}", formal.size());
    formal.push_back(type ? Value(body, body.add_input(name, *type)) : Value());
  }
  ExpandContext context(body, node, std::move(formal), node.location);
  std::vector<ValueRef> results;
  for (const Value& value : expansion->run(context)) results.push_back(value.ref());
  return results;
}

}  // namespace tenon
