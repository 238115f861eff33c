// The type of a graph value: an element type and a shape of symbolic integers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "graph/tensor.h"
#include "symbolic/expr.h"

namespace tenon {

using symbolic::Expr;
using symbolic::Symbol;
using Shape = std::vector<Expr>;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  const Expr& size(int64_t dim) const { return shape[static_cast<size_t>(dim)]; }
  bool operator==(const TensorType&) const = default;
};

std::string to_string(std::span<const Expr> shape);  // "[N, 784]"
inline std::string to_string(const Shape& shape) { return to_string(std::span<const Expr>(shape)); }
std::string to_string(const TensorType& type);  // "f32[N, 784]"

TensorType type_of(const Tensor& tensor);
// Whether dtype, rank and constant sizes are equal. Symbolic sizes fit any size.
bool data_fits(const TensorType& type, const Tensor& data);
Shape to_shape(std::span<const int64_t> sizes);
Expr element_count(std::span<const Expr> shape);
bool is_static(std::span<const Expr> shape);
Sizes evaluate(std::span<const Expr> shape, const symbolic::Bindings& bindings);

// Facts about sizes: the declared ranges of a graph's symbols. Any other symbol is at least 0, as a size is. Shape
// rules decide with them and simplify only if they must, so that a size keeps its form from node to node.
class Facts {
 public:
  Facts() = default;
  explicit Facts(const symbolic::Ranges& declared) : declared_(&declared) {}  // which must outlive the facts

  // True when it is proven; false is "unknown".
  bool equal(const Expr& a, const Expr& b) const;
  bool equal(std::span<const Expr> a, std::span<const Expr> b) const;  // and of the same rank
  bool less_equal(const Expr& a, const Expr& b) const;

  // Without an operand that provably does not matter.
  Expr min(const Expr& a, const Expr& b) const;
  Expr max(const Expr& a, const Expr& b) const;

 private:
  symbolic::Ranges ranges_of(const Expr& a, const Expr& b) const;

  const symbolic::Ranges* declared_ = nullptr;
};

// PyTorch's broadcasting: shapes are aligned at the right, and a size 1 stretches. A symbolic size stretches nothing:
// N against 5 is an error, because N could be anything. Throws an Error that names the sizes.
Shape broadcast(std::span<const Expr> a, std::span<const Expr> b);
// Fails unless `from` broadcasts to exactly `to`.
void check_broadcasts_to(std::span<const Expr> from, std::span<const Expr> to);

// PyTorch's result dtype of several operands: those with dimensions outrank those of rank 0 of the same category.
DType result_dtype(std::span<const TensorType> operands);

// -1 is the last dimension; rank 0 accepts 0 and -1 as PyTorch does. Throws an Error when it is out of range.
int64_t normalize_dim(int64_t dim, int64_t rank);
// Each normalized, sorted, unique; an empty list means all dimensions.
std::vector<int64_t> normalize_dims(std::span<const int64_t> dims, int64_t rank);

}  // namespace tenon
