#include "capture/aten/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autodiff/differentiate.h"

namespace tenon::aten {
namespace {

// Adds the nodes of `callee` to the graph of the call, with `arguments` for its inputs, and gives its outputs.
std::vector<Value> put_inline(AtenCall& c, const Graph& callee, const std::vector<Value>& arguments) {
  std::vector<ValueRef> moved(callee.value_count());
  size_t inputs = 0;
  for (const Leaf& leaf : callee.leaves()) {
    moved[leaf.value.id] =
        leaf.kind == LeafKind::kInput ? arguments[inputs++].ref() : c.graph().add_constant(leaf.data);
  }
  for (const Node& node : callee.nodes()) {
    std::vector<ValueRef> operands;
    for (ValueRef operand : node.operands) operands.push_back(operand ? moved[operand.id] : ValueRef());
    const NodeRef copy = c.graph().add_node(*node.op, std::move(operands), node.attrs, node.location);
    const std::vector<ValueRef> results = c.graph().node(copy).results;
    for (size_t i = 0; i < results.size(); ++i) moved[node.results[i].id] = results[i];
  }
  std::vector<Value> outputs;
  for (ValueRef output : callee.outputs()) outputs.push_back(c.value(moved[output.id]));
  return outputs;
}

bool is_number(const AtenArg& argument, int64_t number) {
  const auto* integer = argument.get<Expr>();
  const auto* real = argument.get<double>();
  return (integer != nullptr && integer->is_constant(number)) ||
         (real != nullptr && *real == static_cast<double>(number));
}

}  // namespace

std::string with_options(std::string_view start, std::string_view before_options, std::string_view after) {
  return fmt::format("{}, *, {}dtype=None, layout=None, device=None, pin_memory=None{})", start, before_options, after);
}

DType dtype_of_number(const AtenArg& number) {
  if (number.get<bool>() != nullptr) return DType::kBool;
  if (number.get<double>() != nullptr) return DType::kF32;
  const auto* tensor = number.get<AtenTensor>();
  if (tensor == nullptr || !tensor->value) return DType::kI64;
  const DType dtype = tensor->value.dtype();
  return is_float(dtype) ? DType::kF32 : dtype == DType::kBool ? DType::kBool : DType::kI64;
}

DType float_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::kF32; }

DType wide_dtype(DType dtype) { return wide(float_dtype(dtype)); }

Value to_float(Builder& b, Value x) { return b.cast(x, float_dtype(x.dtype())); }

Value to_wide(Builder& b, Value x) { return b.cast(x, wide_dtype(x.dtype())); }

AtenFn unary_formula(UnaryFormula formula, std::string_view argument) {
  return [formula = std::move(formula), argument](AtenCall& c) {
    const Value x = c.tensor(argument);
    return c.cast(formula(c, to_wide(c, x)), float_dtype(x.dtype()));
  };
}

AtenFn binary_formula(BinaryFormula formula, std::string_view a, std::string_view b) {
  return [formula = std::move(formula), a, b](AtenCall& c) {
    const auto [x, y] = c.pair(a, b);
    const DType dtype = float_dtype(result_dtype(std::vector{x.type(), y.type()}));
    return c.cast(formula(c, c.cast(x, wide_dtype(dtype)), c.cast(y, wide_dtype(dtype))), dtype);
  };
}

AtenFn promoted_binary(std::string_view op, std::string_view a, std::string_view b) {
  return [op, a, b](AtenCall& c) {
    const auto [x, y] = c.pair(a, b);
    const DType dtype = result_dtype(std::vector{x.type(), y.type()});
    return c.op(op, {c.cast(x, dtype), c.cast(y, dtype)});
  };
}

AtenArg itself(AtenCall& c, std::string_view name) { return c.argument(name); }

Value filled(AtenCall& c, std::string_view number, Shape shape, DType dtype) {
  if (c.is_tensor(number) || c.is_run_time_number(number)) return c.expand(c.number(number, dtype), std::move(shape));
  return c.full(c.number(number), std::move(shape), dtype);
}

std::vector<int64_t> other_dims(int64_t rank, std::span<const int64_t> dims) {
  std::vector<int64_t> others;
  for (int64_t dim = 0; dim < rank; ++dim) {
    const auto is_dim = [&](int64_t given) { return normalize_dim(given, rank) == dim; };
    if (std::ranges::none_of(dims, is_dim)) others.push_back(dim);
  }
  return others;
}

Value logical_and(Builder& b, Value x, Value y) { return b.op("logical_and", {x, y}); }

Value logical_or(Builder& b, Value x, Value y) { return b.op("logical_or", {x, y}); }

std::vector<int64_t> each(const AtenCall& c, std::string_view name, int64_t count) {
  std::vector<int64_t> sizes = c.ints(name);
  if (sizes.size() == 1) sizes.resize(static_cast<size_t>(count), sizes[0]);
  return sizes;
}

int64_t dim_of(const AtenCall& c, std::string_view name, Value x) { return normalize_dim(c.integer(name), x.rank()); }

Value cast(AtenCall& c, Value x, std::optional<DType> dtype) { return dtype ? c.cast(x, *dtype) : x; }

Value nothing(AtenCall& c, DType dtype) { return c.full(Expr(0), {0}, dtype); }

Value times(AtenCall& c, Value x, std::string_view number) {
  if (is_one(c.argument(number))) return x;
  return c.op("mul", {x, c.cast(c.operand(number, x.dtype()), x.dtype())});
}

bool is_zero(const AtenArg& number) { return is_number(number, 0); }

bool is_one(const AtenArg& number) { return is_number(number, 1); }

bool wants(const AtenCall& c, std::string_view mask, size_t position) { return c.ints(mask).at(position) != 0; }

AtenArg masked(const AtenCall& c, std::vector<Value> results, std::string_view mask) {
  AtenArg::List list;
  for (size_t i = 0; i < results.size(); ++i) list.push_back(wants(c, mask, i) ? AtenArg(results[i]) : AtenArg(None{}));
  return list;
}

std::vector<Value> gradients(AtenCall& c, const Forward& forward, const std::vector<Value>& operands, Value cotangent) {
  Graph graph("forward");
  for (const auto& [symbol, range] : c.graph().symbols()) graph.declare_symbol(symbol, range);
  std::vector<Value> inputs;
  std::vector<ValueRef> wrt;
  for (Value operand : operands) {
    wrt.push_back(graph.add_input("x" + std::to_string(inputs.size()), operand.type()));
    inputs.emplace_back(graph, wrt.back());
  }
  Builder builder(graph);
  graph.set_outputs({forward(builder, inputs).ref()});
  std::vector<Value> arguments = operands;
  arguments.push_back(cotangent);
  return put_inline(c, differentiate(graph, wrt).value(), arguments);
}

NamedAttrs slice_attrs(const AtenCall& c) {
  NamedAttrs attrs = {{"dim", c.integer("dim")}, {"step", c.integer("step")}};
  for (const char* bound : {"start", "end"}) {
    if (c.given(bound)) attrs.emplace_back(bound, c.size(bound));
  }
  return attrs;
}

NamedAttrs select_attrs(const AtenCall& c) { return {{"dim", c.integer("dim")}, {"index", c.size("index")}}; }

NamedAttrs diagonal_attrs(const AtenCall& c) {
  return {{"offset", c.integer("offset")}, {"dim1", c.integer("dim1")}, {"dim2", c.integer("dim2")}};
}

std::vector<int64_t> dims_from(int64_t first, int64_t end) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max<int64_t>(end - first, 0)));
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

Value at_least_1d(Builder& b, Value x) { return x.rank() > 0 ? x : b.unsqueeze(x, 0); }

Value at_least_2d(Builder& b, Value x) { return x.rank() > 1 ? x : b.unsqueeze(at_least_1d(b, x), 0); }

Value at_least_3d(Builder& b, Value x) { return x.rank() > 2 ? x : b.unsqueeze(at_least_2d(b, x), 2); }

Value flat(Builder& b, Value x) { return b.reshape(x, {element_count(x.shape())}); }

Expr fresh_size(const AtenCall& c, const std::string& name) {
  const symbolic::Ranges taken = c.graph().ranges();
  for (int64_t i = 0;; ++i) {
    const Symbol symbol(name + std::to_string(i));
    if (!taken.contains(symbol)) return symbol;
  }
}

}  // namespace tenon::aten
