// Writing graphs in C++: a Value is a handle with operators, a Builder makes nodes. The expansions and gradients of the
// op table are written with them, and so is every front door.
//
//     Builder b(graph);
//     Value y = b.relu(b.matmul(x, w) + bias);
//
// Everything here throws an Error for a user's mistake (shapes that do not fit, an unknown op).
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// A value of a graph under construction. Empty when default constructed.
class Value {
 public:
  Value() = default;
  Value(Graph& graph, ValueRef ref) : graph_(&graph), ref_(ref) {}

  explicit operator bool() const { return graph_ != nullptr && static_cast<bool>(ref_); }
  Graph& graph() const { return *graph_; }
  ValueRef ref() const { return ref_; }
  const TensorType& type() const { return graph_->type(ref_); }
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int64_t rank() const { return type().rank(); }
  const Expr& size(int64_t dim) const { return type().size(dim); }

 private:
  Graph* graph_ = nullptr;
  ValueRef ref_;
};

// A number beside a tensor takes the tensor's dtype, as in PyTorch (a real beside an integer tensor makes it f32).
Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

class Builder {
 public:
  explicit Builder(Graph& graph, Location location = {}) : graph_(&graph), location_(std::move(location)) {}

  Graph& graph() const { return *graph_; }
  Value value(ValueRef ref) const { return {*graph_, ref}; }

  // Any op of the table, by name. `op` is for ops with one result, `results` for the others.
  Value op(std::string_view name, const std::vector<Value>& operands, NamedAttrs attrs = {});
  std::vector<Value> results(std::string_view name, const std::vector<Value>& operands, NamedAttrs attrs = {});

  // The op of a node, with its attributes and location, over other operands. For nodes with one result.
  Value repeat(const Node& node, std::vector<ValueRef> operands) {
    return value(graph_->node(graph_->add_node(*node.op, std::move(operands), node.attrs, node.location)).results[0]);
  }

  // Leaves and fills.
  Value constant(Tensor data) { return value(graph_->add_constant(std::move(data))); }
  Value scalar(double number, DType dtype);
  Value integer(int64_t number, DType dtype = DType::kI64);
  Value full(Attr number, Shape shape, DType dtype);  // `number` is an Expr or a double
  Value full_like(Value like, double number);
  Value iota(Expr size, DType dtype = DType::kI64);            // 0, 1, 2, ...
  Value iota_along(int64_t dim, std::span<const Expr> shape);  // i64 of `shape`, each element its index along dim

  // The ops that expansions and gradients use most.
  Value unary(std::string_view name, Value x) { return op(name, {x}); }
  Value exp(Value x) { return unary("exp", x); }
  Value log(Value x) { return unary("log", x); }
  Value sqrt(Value x) { return unary("sqrt", x); }
  Value rsqrt(Value x) { return unary("rsqrt", x); }
  Value sin(Value x) { return unary("sin", x); }
  Value cos(Value x) { return unary("cos", x); }
  Value tanh(Value x) { return unary("tanh", x); }
  Value sigmoid(Value x) { return unary("sigmoid", x); }
  Value abs(Value x) { return unary("abs", x); }
  Value sign(Value x) { return unary("sign", x); }
  Value relu(Value x) { return unary("relu", x); }
  Value logical_not(Value x) { return unary("logical_not", x); }
  Value pow(Value x, Value y) { return op("pow", {x, y}); }
  Value maximum(Value a, Value b) { return op("maximum", {a, b}); }
  Value minimum(Value a, Value b) { return op("minimum", {a, b}); }
  Value compare(std::string_view name, Value a, Value b) { return op(name, {a, b}); }  // "eq", "lt", ...
  Value compare(std::string_view name, Value a, double b);
  Value where(Value condition, Value a, Value b) { return op("where", {condition, a, b}); }
  Value cast(Value x, DType dtype);  // itself when it has the dtype already

  Value sum(Value x, std::vector<int64_t> dims = {}, bool keepdim = false);  // empty dims: all
  Value mean(Value x, std::vector<int64_t> dims = {}, bool keepdim = false);
  Value amax(Value x, std::vector<int64_t> dims = {}, bool keepdim = false);
  Value matmul(Value a, Value b) { return op("matmul", {a, b}); }
  Value contract(Value a, Value b, std::string spec);  // "bik,bkj->bij"

  Value reshape(Value x, Shape shape);  // itself when it has the shape already
  Value permute(Value x, std::vector<int64_t> dims);
  Value transpose(Value x, int64_t a, int64_t b);
  Value expand(Value x, Shape shape);     // itself when it has the shape already
  Value unsqueeze(Value x, int64_t dim);  // dim in [-(rank+1), rank]
  Value squeeze(Value x, int64_t dim);    // drops one dimension of size 1
  Value slice(Value x, int64_t dim, Expr start, Expr end, int64_t step = 1);
  Value pad(Value x, std::vector<Expr> low, std::vector<Expr> high, double fill = 0);
  Value concat(const std::vector<Value>& parts, int64_t dim);

  // Sums a gradient over the dimensions that broadcasting added, to get back to `shape`.
  Value sum_to(Value x, const Shape& shape);

 private:
  Graph* graph_;
  Location location_;
};

// A node that is being expanded or differentiated.
class NodeContext : public Builder, public OpView {
 public:
  NodeContext(Graph& graph, const Node& node, std::vector<Value> operands, Location location = {});

  // Both bases have these: op("exp", {x}) makes a node, op() is the record; integer(1) makes one, integer("dim") reads
  // one.
  using Builder::integer;
  using Builder::op;
  using OpView::integer;
  using OpView::op;

  Value in(size_t operand = 0) const { return operands_[operand]; }  // empty when it is absent
  const std::vector<Value>& operands() const { return operands_; }
  Facts facts() const { return Facts(graph().symbols()); }

 private:
  std::vector<Value> operands_;
};

class ExpandContext : public NodeContext {
 public:
  using NodeContext::NodeContext;

  // f16 and bf16 as f32: a composite computes inside in at least f32, and rounds once with `cast(y, dtype)`.
  Value in_wide(size_t operand = 0);
};

class GradContext : public NodeContext {
 public:
  // `results` are the values of the node, `cotangents` their gradients (empty: not needed).
  GradContext(Graph& graph, const Node& node, std::vector<Value> operands, std::vector<Value> results,
              std::vector<Value> cotangents, Location location = {})
      : NodeContext(graph, node, std::move(operands), std::move(location)),
        results_(std::move(results)),
        cotangents_(std::move(cotangents)) {}

  Value out(size_t result = 0) const { return results_[result]; }
  bool has_dout(size_t result) const { return static_cast<bool>(cotangents_[result]); }
  Value dout(size_t result = 0);  // zeros when nothing depends on that result

 private:
  std::vector<Value> results_;
  std::vector<Value> cotangents_;
};

// Expands a composite node into `body`, an empty graph whose inputs in0, in1, ... are the operands. A null type is an
// absent operand, which has no input.
std::vector<ValueRef> expand(Graph& body, const Node& node, std::span<const TensorType* const> operands);

}  // namespace tenon
