// Lowering: a graph becomes the loops::IR of one kernel, op by op. Each primitive's record says how, in its `loops`
// slot, in the words of a LoopContext:
//
//     .loops = [](LoopContext& l) {
//       const LoopValue sum = l.fold("add", l.wide(l.in()), l.type(0).shape, l.dims("dims"), l.flag("keepdim"));
//       l.out(l.cast(sum, l.result().dtype));
//     }
//
// Composites without one are expanded first; an elementwise op without a slot is a Compute node of itself. Tensors that
// are only transposed, stretched or given dimensions of size 1 are the same node seen in other dimensions: they cost
// nothing.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "loops/ir.h"

namespace tenon {

using LoopDims = std::vector<loops::VarRef>;

// A tensor as a node of the kernel: the variable of each dimension. An empty one is a dimension that the value is the
// same along; a dimension of size 1 is always empty. The node has these variables, and no others.
struct LoopValue {
  loops::NodeRef node;
  LoopDims dims;
};

// Where a view reads a tensor: one index for each dimension. It applies where they are all inside of the shape, and
// `where` holds.
struct LoopPiece {
  LoopValue value;
  Shape shape;
  std::vector<Expr> index;
  std::vector<loops::Constraint> where = {};
};

struct LoopView {
  LoopDims dims;  // of the result
  std::vector<LoopPiece> pieces;
  std::optional<loops::Scalar> fill = {};  // where no piece applies; else 0
  std::vector<loops::Lookup> lookups = {};
};

struct LoopKernel;  // under construction

class LoopBuilder {
 public:
  explicit LoopBuilder(LoopKernel& kernel) : kernel_(&kernel) {}

  // ---- variables ----
  loops::VarRef var(const Expr& size);  // a new one; empty for a size of 1
  Expr size(loops::VarRef var) const;   // 1 for an empty one
  Expr at(loops::VarRef var) const;     // its index; 0 for an empty one
  std::vector<Expr> at(const LoopDims& dims) const;
  Expr simplified(const Expr& expr) const;  // with the ranges of sizes and variables
  // The dimensions of what is computed from tensors that broadcast together: their own as far as possible, each
  // variable once and none that is taken.
  LoopDims common_dims(const std::vector<LoopDims>& operands, const LoopDims& taken = {});

  // ---- values ----
  DType dtype(const LoopValue& x) const;
  LoopValue constant(DType dtype, loops::Scalar value);
  LoopValue number(const Expr& value, const LoopDims& dims = {});  // i64, over the indices of `dims` and sizes

  // ---- elementwise ----
  LoopValue compute(const OpDef& op, const std::vector<LoopValue>& operands);  // they broadcast, and have one dtype
  LoopValue compute(std::string_view op, const std::vector<LoopValue>& operands);
  LoopValue cast(const LoopValue& x, DType dtype);  // itself when it has the dtype already
  LoopValue bitcast(const LoopValue& x, DType dtype);
  LoopValue wide(const LoopValue& x);                                  // f16 and bf16 as f32
  LoopValue equals_or_is_nan(const LoopValue& x, const LoopValue& y);  // whether x equals y, or x is NaN

  // ---- folds of x, which has that shape. By add, mul, maximum, ... (see loops::Reduce). ----
  LoopValue fold(std::string_view op, const LoopValue& x, const Shape& shape, const std::vector<int64_t>& dims,
                 bool keepdim = false);
  LoopValue scan(std::string_view op, const LoopValue& x, const Shape& shape, int64_t dim);

  // ---- indexing ----
  // Every element of x at its own index: a piece to change.
  LoopPiece whole(const LoopValue& x, const Shape& shape) const { return {x, shape, at(x.dims)}; }
  LoopValue view(const LoopView& view);
  LoopValue view(LoopDims dims, LoopPiece piece) { return view({std::move(dims), {std::move(piece)}}); }
  // x with a variable for each of `dims`, also where it is the same along them.
  LoopValue stretched(const LoopValue& x, const Shape& shape, const std::vector<int64_t>& dims);
  LoopValue stretched(const LoopValue& x, const Shape& shape);
  // The elements of an integer tensor as an index of something with `bound` elements, in what has `dims`.
  Expr lookup(std::vector<loops::Lookup>& lookups, const LoopValue& indices, const LoopDims& dims, const Expr& bound);
  // x, which has all its variables, with the values written at `index`, in row-major order of `dims`. `op` combines a
  // value with the one that is there; null overwrites.
  LoopValue scatter(const OpDef* op, const LoopValue& x, const std::vector<Expr>& index,
                    std::vector<loops::Lookup> lookups, const LoopValue& values, const LoopDims& dims);

 private:
  loops::NodeRef aligned(const LoopValue& x, const LoopDims& dims);
  LoopValue fold_of_one(std::string_view op, const LoopValue& x);

  LoopKernel* kernel_;
};

// A node that is being lowered.
class LoopContext : public LoopBuilder, public OpView {
 public:
  LoopContext(LoopKernel& kernel, const Graph& graph, const Node& node, std::vector<LoopValue> operands);

  // Both bases have it: dtype(x) is a value's, dtype("dtype") an attribute's.
  using LoopBuilder::dtype;
  using OpView::dtype;

  const LoopValue& in(size_t operand = 0) const { return operands_[operand]; }
  const TensorType& result(size_t position = 0) const { return graph_->type(node_->results[position]); }
  void out(LoopValue value, size_t position = 0) { results_[position] = std::move(value); }
  Facts facts() const { return Facts(graph_->symbols()); }

  const std::vector<LoopValue>& results() const { return results_; }

 private:
  const Graph* graph_;
  const Node* node_;
  std::vector<LoopValue> operands_;
  std::vector<LoopValue> results_;
};

// What a number is in a dtype, as `full` and `pad` take it: an integer expression or a real.
loops::Scalar scalar_in(DType dtype, const Attr& number);

// Which value of the graph each input of the kernel is: the graph's inputs, then its other leaves. Constants that are
// one number are part of the kernel.
std::vector<ValueRef> kernel_inputs(const Graph& graph);

// The kernel's outputs are the graph's, then the new values of its updates. An op that is a library task is an error.
Result<loops::IR> lower(const Graph& graph);

}  // namespace tenon
