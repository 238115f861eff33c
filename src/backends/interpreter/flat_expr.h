// An index expression as a short program over a table of numbers: fast enough to be evaluated for every element.
#pragma once

#include <functional>
#include <vector>

#include "symbolic/expr.h"

namespace tenon {

class FlatExpr {
 public:
  FlatExpr() = default;
  // `slot_of` says where the table has a symbol.
  FlatExpr(const symbolic::Expr& expr, const std::function<size_t(symbolic::Symbol)>& slot_of);

  int64_t operator()(const std::vector<int64_t>& table) const;

 private:
  struct Term {
    int64_t factor;
    size_t slot;
  };
  struct Instruction {
    symbolic::Kind kind;
    int64_t value = 0;  // a constant, a slot, or how many operands are taken from the stack
  };

  bool add_affine(const symbolic::Expr& expr, const std::function<size_t(symbolic::Symbol)>& slot_of);
  void add_program(const symbolic::Expr& expr, const std::function<size_t(symbolic::Symbol)>& slot_of);

  int64_t constant_ = 0;  // of an affine expression
  std::vector<Term> terms_;
  std::vector<Instruction> program_;  // of any other; in postfix order
};

}  // namespace tenon
