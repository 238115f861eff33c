#include "backends/interpreter/flat_expr.h"

#include <algorithm>

#include "support/checked.h"

namespace tenon {

using symbolic::Expr;
using symbolic::Kind;
using symbolic::Symbol;

namespace {

int64_t apply(Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Kind::kAdd:
      return checked_add(a, b);
    case Kind::kMul:
      return checked_mul(a, b);
    case Kind::kFloorDiv:
      return checked_floordiv(a, b);
    case Kind::kMod:
      return checked_mod(a, b);
    case Kind::kMin:
      return std::min(a, b);
    case Kind::kMax:
      return std::max(a, b);
    case Kind::kEq:
      return a == b;
    case Kind::kNe:
      return a != b;
    case Kind::kLt:
      return a < b;
    case Kind::kLe:
      return a <= b;
    case Kind::kConstant:
    case Kind::kSymbol:
      break;
  }
  check(false, "not an operator");
  return 0;
}

}  // namespace

FlatExpr::FlatExpr(const Expr& expr, const std::function<size_t(Symbol)>& slot_of) {
  if (add_affine(expr, slot_of)) return;
  terms_.clear();
  constant_ = 0;
  add_program(expr, slot_of);
}

bool FlatExpr::add_affine(const Expr& expr, const std::function<size_t(Symbol)>& slot_of) {
  switch (expr.kind()) {
    case Kind::kConstant:
      constant_ = checked_add(constant_, expr.constant());
      return true;
    case Kind::kSymbol:
      terms_.push_back({1, slot_of(expr.symbol())});
      return true;
    case Kind::kMul: {
      const auto operands = expr.operands();
      if (operands.size() != 2 || operands[0].kind() != Kind::kSymbol || !operands[1].is_constant()) return false;
      terms_.push_back({operands[1].constant(), slot_of(operands[0].symbol())});
      return true;
    }
    case Kind::kAdd:
      return std::ranges::all_of(expr.operands(), [&](const Expr& term) { return add_affine(term, slot_of); });
    default:
      return false;
  }
}

void FlatExpr::add_program(const Expr& expr, const std::function<size_t(Symbol)>& slot_of) {
  if (expr.is_constant()) return program_.push_back({Kind::kConstant, expr.constant()});
  if (expr.kind() == Kind::kSymbol) {
    return program_.push_back({Kind::kSymbol, static_cast<int64_t>(slot_of(expr.symbol()))});
  }
  for (const Expr& operand : expr.operands()) add_program(operand, slot_of);
  program_.push_back({expr.kind(), static_cast<int64_t>(expr.operands().size())});
}

int64_t FlatExpr::operator()(const std::vector<int64_t>& table) const {
  if (program_.empty()) {
    int64_t sum = constant_;
    for (const Term& term : terms_) sum = checked_add(sum, checked_mul(term.factor, table[term.slot]));
    return sum;
  }
  std::vector<int64_t> stack;
  for (const Instruction& instruction : program_) {
    if (instruction.kind == Kind::kConstant) {
      stack.push_back(instruction.value);
    } else if (instruction.kind == Kind::kSymbol) {
      stack.push_back(table[static_cast<size_t>(instruction.value)]);
    } else {
      const auto first = stack.end() - instruction.value;
      int64_t result = *first;
      for (auto next = first + 1; next != stack.end(); ++next) result = apply(instruction.kind, result, *next);
      stack.erase(first, stack.end());
      stack.push_back(result);
    }
  }
  return stack.back();
}

}  // namespace tenon
