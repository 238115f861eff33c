// What the parts of the front end share to build nodes.
#pragma once

#include "named/node.h"
#include "named/tensor.h"

namespace tenon::named {

std::vector<Symbol> union_of(const std::vector<NodePtr>& nodes);  // of their dimensions, in order of appearance
void require_dim(const Node& node, const Symbol& symbol);         // fails when the node lacks it
void require_distinct(const std::vector<Symbol>& dims);

loops::Scalar number_as(const Operand& number, DType dtype);  // fails when it does not fit
NodePtr cast_to(const NodePtr& node, DType dtype);
NodePtr operand_as(const Operand& operand, DType dtype);
DType promoted_dtype(std::span<const NodePtr> nodes);

}  // namespace tenon::named
