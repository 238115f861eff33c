// Proofs about index expressions. Each symbol has a lower and an upper bound, both expressions: a variable lies between
// 0 and its size less one, a loop counter between the ends of a stretch.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

class Box {
 public:
  Box() = default;
  explicit Box(symbolic::Ranges sizes) : ranges_(std::move(sizes)) {}  // ranges of the symbols of sizes

  // Bounds are inclusive. They may contain symbols that were added before.
  void add(Symbol symbol, Expr low, Expr high);

  // An upper (lower) bound of `expr` without the symbols of the box. Empty if none is found.
  std::optional<Expr> highest(const Expr& expr) const { return extreme(expr, true); }
  std::optional<Expr> lowest(const Expr& expr) const { return extreme(expr, false); }

  // True if proven. False means unknown.
  bool contains(const Constraint& constraint) const;
  bool never_negative(const Expr& expr) const;

  Expr simplify(const Expr& expr) const;
  const symbolic::Ranges& ranges() const { return ranges_; }  // the range of every symbol, as numbers

 private:
  struct Side {
    Symbol symbol;
    Expr low;
    Expr high;
  };
  std::optional<Expr> extreme(const Expr& expr, bool highest) const;

  std::vector<Side> sides_;
  symbolic::Ranges ranges_;
};

Box box_of(const IR& ir);  // of all variables

}  // namespace tenon::loops
