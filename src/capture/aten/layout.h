// Where PyTorch stores the elements of a Value. A Graph knows nothing of memory; but whether `reshape` gives a view or
// a copy, and so what a later write changes, follows from strides. They are read off the nodes that made the value:
// views change strides, everything else is taken to be contiguous.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace tenon::aten {

std::vector<Expr> contiguous_strides(const Shape& shape);
std::vector<Expr> strides_of(Value x);
bool is_contiguous(Value x);
// Whether x can have another shape where it is: what PyTorch's `reshape` gives a view for.
bool can_view_as(Value x, const Shape& shape);

}  // namespace tenon::aten
