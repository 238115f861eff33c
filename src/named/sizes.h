// Sizes of dimensions, from the data that is bound, what was said of them, and the expressions that index them.
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
  // By size symbol: a number, or an expression over the sizes that only data can say.
  symbolic::Substitution values;
  // What must hold once those are known.
  std::vector<Condition> conditions;

  Expr of(const Symbol& symbol) const;
  Expr substituted(const Expr& expr) const { return substitute(expr, values); }
};

// Throws an Error for sizes that contradict each other, and for an index that is out of range. The data of storages in
// `open` is not used: their sizes are what the data of a run will say.
Sizes solve_sizes(const Term& node, const std::set<const Storage*>& open = {});

}  // namespace tenon::named
