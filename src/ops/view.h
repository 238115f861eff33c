// What the records of views share with those that write through a view.
#pragma once

#include <optional>
#include <vector>

#include "ops/common.h"

namespace tenon::ops {

// Fails where the first operand has no dimension to work on: "a scalar has no dimension to slice".
void require_dims(const OpView& v, std::string_view what);

// The shape that `reshape` gives: -1 inferred, element counts proven equal.
Shape reshaped(const Facts& facts, const Shape& from, std::span<const Expr> requested);

// ---- x[start:end:step]. The attributes are those of `slice`. --------------------------------------------------------

const std::vector<AttrDef>& slice_attrs();

struct SliceRange {
  int64_t dim;
  Expr start;
  Expr length;
  int64_t step;
};

SliceRange slice_range(const OpView& v, const Facts& facts);
Shape sliced_shape(const OpView& v, const Facts& facts);

// The adjoint of a slice of a dimension of `size`: the elements at their places, zeros (or false) between and around
// them.
Value unslice(Builder& b, Value part, const SliceRange& range, const Expr& size);

// ---- x.select(dim, index) -------------------------------------------------------------------------------------------

// The result's shape. Fails where the index is out of range.
Shape selected_shape(const OpView& v, const Facts& facts);

// The index counted from the start, where the facts prove that it is in range. Fails where they prove that it is not.
std::optional<Expr> known_index(const Facts& facts, const Expr& index, const Expr& size);

// A place among the dimensions of x as operands of `index`: none for those before `dim`, then the symbolic index.
std::vector<Value> index_at(Builder& b, int64_t dim, const Expr& index);

// ---- diagonals. The attributes are offset, dim1 and dim2. -----------------------------------------------------------

const std::vector<AttrDef>& diagonal_attrs();

struct Diagonal {
  std::vector<int64_t> order;  // of dimensions: the others, then dim1 and dim2
  Expr length;
};

Diagonal diagonal_of(const OpView& v, const Facts& facts);

Shape diagonal_shape(const OpView& v, const Facts& facts);

// The elements of a diagonal as operands of `index`: none for the leading dimensions, then rows and columns.
std::vector<Value> diagonal_indices(Builder& b, int64_t leading, const Expr& length, int64_t offset);

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order);

}  // namespace tenon::ops
