// Inside of named: helpers that build terms.
#pragma once

#include "named/tensor.h"
#include "named/term.h"

namespace tenon::named {

std::vector<Symbol> union_of(const std::vector<TermPtr>& nodes);  // of their dimensions, in order of appearance
void require_dim(const Term& node, const Symbol& symbol);         // fails when the node lacks it
void require_distinct(const std::vector<Symbol>& dims);

loops::Scalar number_as(const Operand& number, DType dtype);  // fails when it does not fit
TermPtr cast_to(const TermPtr& node, DType dtype);
TermPtr operand_as(const Operand& operand, DType dtype);
DType promoted_dtype(std::span<const TermPtr> nodes);

}  // namespace tenon::named
