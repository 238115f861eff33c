#include "runtime/expr.h"

#include <algorithm>

#include "runtime/checked.h"

namespace tenon::runtime {
namespace {

using format::ExprOp;

bool is_leaf(ExprOp op) { return op == ExprOp::Constant || op == ExprOp::Symbol; }

}  // namespace

int64_t apply(ExprOp op, int64_t a, int64_t b) {
  switch (op) {
    case ExprOp::Add:
      return checked_add(a, b);
    case ExprOp::Mul:
      return checked_mul(a, b);
    case ExprOp::FloorDiv:
      return checked_floordiv(a, b);
    case ExprOp::Mod:
      return checked_mod(a, b);
    case ExprOp::Min:
      return std::min(a, b);
    case ExprOp::Max:
      return std::max(a, b);
    case ExprOp::Eq:
      return a == b;
    case ExprOp::Ne:
      return a != b;
    case ExprOp::Lt:
      return a < b;
    case ExprOp::Le:
      return a <= b;
    case ExprOp::Constant:
    case ExprOp::Symbol:
      break;
  }
  return 0;
}

void verify(Expr expr, std::span<const Instruction> code, size_t symbols) {
  if (expr.first() > code.size() || expr.count() > code.size() - expr.first()) {
    fail(TENON_BAD_FILE, "an expression of ", expr.count(), " instructions from ", expr.first(),
         " on does not fit the table of ", code.size());
  }
  uint32_t depth = 0;
  for (const Instruction& instruction : code.subspan(expr.first(), expr.count())) {
    const ExprOp op = instruction.op();
    if (op > ExprOp::MAX) fail(TENON_BAD_FILE, "an expression has an unknown operator ", static_cast<int>(op));
    if (op == ExprOp::Symbol && static_cast<uint64_t>(instruction.value()) >= symbols) {
      fail(TENON_BAD_FILE, "an expression names symbol ", instruction.value(), ", but there are ", symbols);
    }
    if (!is_leaf(op) && depth < 2) fail(TENON_BAD_FILE, "an expression lacks an operand");
    depth = is_leaf(op) ? depth + 1 : depth - 1;
    if (depth > kDeepestExpr) fail(TENON_BAD_FILE, "an expression nests deeper than ", kDeepestExpr);
  }
  if (depth != 1) fail(TENON_BAD_FILE, "an expression leaves ", depth, " numbers instead of one");
}

int64_t evaluate(Expr expr, std::span<const Instruction> code, std::span<const int64_t> symbols) {
  int64_t stack[kDeepestExpr];
  size_t depth = 0;
  for (const Instruction& instruction : code.subspan(expr.first(), expr.count())) {
    if (instruction.op() == ExprOp::Constant) {
      stack[depth++] = instruction.value();
    } else if (instruction.op() == ExprOp::Symbol) {
      stack[depth++] = symbols[static_cast<size_t>(instruction.value())];
    } else {
      --depth;
      stack[depth - 1] = apply(instruction.op(), stack[depth - 1], stack[depth]);
    }
  }
  return stack[0];
}

}  // namespace tenon::runtime
