// Sizes of dimensions, from bound data, from equations, and from the expressions that index them.
#pragma once

#include <set>

#include "named/term.h"

namespace tenon::named {

// Holds where 0 <= expr < bound.
struct Condition {
  Expr expr;
  Expr bound;
  std::string origin;
};

struct Sizes {
  symbolic::Substitution values;      // By size symbol: a number, or an expression over sizes that come from the data.
  std::vector<Condition> conditions;  // They must hold for the data.

  Expr of(const Symbol& symbol) const;
  Expr substituted(const Expr& expr) const { return substitute(expr, values); }
};

// Throws an Error for sizes that contradict each other, and for an index out of range. Ignores the data of storages in
// `open`: their sizes come from the data of a run.
Sizes solve_sizes(const Term& node, const std::set<const Storage*>& open = {});

}  // namespace tenon::named
