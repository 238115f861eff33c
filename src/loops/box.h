// Proofs about index expressions, where each symbol lies between two expressions: a variable between 0 and its size
// less one, a loop's counter between the ends of a segment.
#pragma once

#include "loops/ir.h"

namespace tenon::loops {

class Box {
 public:
  Box() = default;
  explicit Box(symbolic::Ranges sizes) : ranges_(std::move(sizes)) {}  // of the symbols that are not sides

  // Bounds are inclusive, and may mention symbols that were added before.
  void add(Symbol symbol, Expr low, Expr high);

  // An expression without the symbols of the box that is never below (above) `expr`; nothing when none is found.
  std::optional<Expr> highest(const Expr& expr) const { return extreme(expr, true); }
  std::optional<Expr> lowest(const Expr& expr) const { return extreme(expr, false); }

  // True when it is proven; false is "unknown".
  bool contains(const Constraint& constraint) const;
  bool never_negative(const Expr& expr) const;

  Expr simplify(const Expr& expr) const;
  const symbolic::Ranges& ranges() const { return ranges_; }  // of every symbol, by numbers

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

}  // namespace tenon::loops
