#include "tests/symbolic/support_random_expr.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::symbolic::testing {
namespace {

using Op = Tree::Op;

int64_t checked_ceildiv(int64_t a, int64_t b) { return checked_sub(0, checked_floordiv(checked_sub(0, a), b)); }

template <class Value>
struct Operators;

template <>
struct Operators<int64_t> {
  static int64_t apply(Op op, int64_t a, int64_t b) {
    switch (op) {
      case Op::kAdd:
        return checked_add(a, b);
      case Op::kSub:
        return checked_sub(a, b);
      case Op::kMul:
        return checked_mul(a, b);
      case Op::kFloorDiv:
        return checked_floordiv(a, b);
      case Op::kMod:
        return checked_mod(a, b);
      case Op::kCeilDiv:
        return checked_ceildiv(a, b);
      case Op::kMin:
        return std::min(a, b);
      case Op::kMax:
        return std::max(a, b);
      case Op::kEq:
        return a == b;
      case Op::kNe:
        return a != b;
      case Op::kLt:
        return a < b;
      case Op::kLe:
        return a <= b;
      case Op::kGt:
        return a > b;
      case Op::kGe:
        return a >= b;
      default:
        throw InternalError("not a binary operator");
    }
  }
};

template <>
struct Operators<Expr> {
  static Expr apply(Op op, const Expr& a, const Expr& b) {
    switch (op) {
      case Op::kAdd:
        return a + b;
      case Op::kSub:
        return a - b;
      case Op::kMul:
        return a * b;
      case Op::kFloorDiv:
        return floordiv(a, b);
      case Op::kMod:
        return mod(a, b);
      case Op::kCeilDiv:
        return ceildiv(a, b);
      case Op::kMin:
        return min(a, b);
      case Op::kMax:
        return max(a, b);
      case Op::kEq:
        return eq(a, b);
      case Op::kNe:
        return ne(a, b);
      case Op::kLt:
        return lt(a, b);
      case Op::kLe:
        return le(a, b);
      case Op::kGt:
        return gt(a, b);
      case Op::kGe:
        return ge(a, b);
      default:
        throw InternalError("not a binary operator");
    }
  }
};

std::string_view python(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    case Op::kEq:
      return "==";
    case Op::kNe:
      return "!=";
    case Op::kLt:
      return "<";
    case Op::kLe:
      return "<=";
    case Op::kGt:
      return ">";
    case Op::kGe:
      return ">=";
    case Op::kMin:
      return "min";
    case Op::kMax:
      return "max";
    case Op::kCeilDiv:
      return "ceildiv";
    default:
      throw InternalError("not a binary operator");
  }
}

}  // namespace

const std::vector<Symbol>& symbols() {
  static const std::vector<Symbol> all = {Symbol("a"), Symbol("b"), Symbol("i"), Symbol("n")};
  return all;
}

int64_t evaluate(const Tree& tree, const Bindings& bindings) {
  switch (tree.op) {
    case Op::kConstant:
      return tree.value;
    case Op::kSymbol:
      return bindings.at(symbols()[tree.symbol]);
    case Op::kNegate:
      return checked_sub(0, evaluate(tree.inputs[0], bindings));
    default:
      return Operators<int64_t>::apply(tree.op, evaluate(tree.inputs[0], bindings), evaluate(tree.inputs[1], bindings));
  }
}

Expr build(const Tree& tree) {
  switch (tree.op) {
    case Op::kConstant:
      return tree.value;
    case Op::kSymbol:
      return symbols()[tree.symbol];
    case Op::kNegate:
      return -build(tree.inputs[0]);
    default:
      return Operators<Expr>::apply(tree.op, build(tree.inputs[0]), build(tree.inputs[1]));
  }
}

Tree substitute(const Tree& tree, size_t symbol, const Tree& replacement) {
  if (tree.op == Op::kSymbol) return tree.symbol == symbol ? replacement : tree;
  Tree result = tree;
  for (Tree& input : result.inputs) input = substitute(input, symbol, replacement);
  return result;
}

std::string to_string(const Tree& tree) {
  switch (tree.op) {
    case Op::kConstant:
      return std::to_string(tree.value);
    case Op::kSymbol:
      return symbols()[tree.symbol].name();
    case Op::kNegate:
      return "-(" + to_string(tree.inputs[0]) + ")";
    case Op::kMin:
    case Op::kMax:
    case Op::kCeilDiv:
      return fmt::format("{}({}, {})", python(tree.op), to_string(tree.inputs[0]), to_string(tree.inputs[1]));
    default:
      return fmt::format("({} {} {})", to_string(tree.inputs[0]), python(tree.op), to_string(tree.inputs[1]));
  }
}

// Small constants meet the rules more often; large ones meet their limits.
int64_t RandomTrees::constant() {
  const int64_t kind = integer(0, 9);
  if (kind < 7) return integer(-8, 8);
  return kind < 9 ? integer(-64, 64) : integer(-(1 << 20) + 1, (1 << 20) - 1);
}

int64_t RandomTrees::symbol_value() {
  return integer(0, 2) == 0 ? integer(-(1 << 15) + 1, (1 << 15) - 1) : integer(-10, 20);
}

Tree RandomTrees::tree(int depth) {
  if (depth == 0 || integer(0, 7) == 0) {
    if (integer(0, 2) == 0) return {.op = Op::kConstant, .value = constant()};
    return {.op = Op::kSymbol, .symbol = static_cast<size_t>(integer(0, std::ssize(symbols()) - 1))};
  }
  static constexpr Op kOften[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kFloorDiv, Op::kMod};
  const bool is_often = integer(0, 2) != 0;
  const Op op = is_often ? kOften[integer(0, 4)] : static_cast<Op>(integer(int64_t(Op::kNegate), int64_t(Op::kGe)));
  Tree result = {.op = op, .inputs = {tree(depth - 1)}};
  if (op == Op::kNegate) return result;
  // Most divisors are constants in practice, and most rules are about those.
  const bool divides = op == Op::kFloorDiv || op == Op::kMod || op == Op::kCeilDiv;
  const bool by_constant = divides && integer(0, 3) != 0;
  result.inputs.push_back(by_constant ? Tree{.op = Op::kConstant, .value = constant()} : tree(depth - 1));
  return result;
}

Bindings RandomTrees::bindings() {
  Bindings result;
  for (const Symbol symbol : symbols()) result.emplace(symbol, symbol_value());
  return result;
}

Ranges RandomTrees::ranges(const Bindings& bindings) {
  Ranges result;
  for (const auto& [symbol, value] : bindings) {
    const int64_t kind = integer(0, 4);
    if (kind == 0) continue;
    const int64_t spread = kind < 3 ? 4 : 1000;
    result[symbol] = {kind == 1 ? value : value - integer(0, spread), value + integer(0, spread)};
    if (kind == 4) result[symbol].high = kInt64Max;
  }
  return result;
}

}  // namespace tenon::symbolic::testing
