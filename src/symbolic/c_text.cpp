#include "symbolic/c_text.h"

#include <fmt/format.h>

#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

class Printer {
 public:
  Printer(const Ranges& ranges, const std::function<std::string(Symbol)>& name_of)
      : ranges_(ranges), name_of_(name_of) {}

  std::string print(const Expr& expr) const {
    switch (expr.kind()) {
      case Kind::kConstant:
        return expr.is_constant(kInt64Min) ? "INT64_MIN" : fmt::format("{}", expr.constant());
      case Kind::kSymbol:
        return name_of_(expr.symbol());
      case Kind::kAdd:
        return sum(expr);
      case Kind::kMul:
        return product(expr);
      case Kind::kFloorDiv:
        return division(expr, "/", "floordiv");
      case Kind::kMod:
        return division(expr, "%", "floormod");
      case Kind::kMin:
        return call("least", expr.operands());
      case Kind::kMax:
        return call("most", expr.operands());
      default:
        return infix(expr, sign_of(expr.kind()));
    }
  }

 private:
  static bool is_bare(const Expr& expr) {
    return expr.kind() == Kind::kSymbol || (expr.is_constant() && expr.constant() >= 0);
  }

  std::string operand(const Expr& expr) const { return is_bare(expr) ? print(expr) : fmt::format("({})", print(expr)); }

  std::string sum(const Expr& expr) const {
    std::string text;
    for (const Expr& term : expr.operands()) {
      const std::string next = term.kind() < Kind::kEq ? print(term) : operand(term);
      if (text.empty()) {
        text = next;
      } else {
        text += next[0] == '-' ? " - " + next.substr(1) : " + " + next;
      }
    }
    return text;
  }

  // The constant is the last operand, and the first factor of the text.
  std::string product(const Expr& expr) const {
    std::string text;
    for (const Expr& factor : expr.operands()) {
      if (factor.is_constant(-1)) {
        text.insert(0, "-");
      } else if (factor.is_constant()) {
        text = fmt::format("{}*{}", print(factor), text);
      } else {
        text += (text.empty() ? "" : "*") + operand(factor);
      }
    }
    return text;
  }

  // C rounds towards zero: only operands that are never negative can use its operators.
  std::string division(const Expr& expr, std::string_view sign, std::string_view function) const {
    for (const Expr& part : expr.operands()) {
      if (bounds(part, ranges_).low < 0) return call(function, expr.operands());
    }
    return infix(expr, sign);
  }

  std::string infix(const Expr& expr, std::string_view sign) const {
    return fmt::format("{} {} {}", operand(expr.operands()[0]), sign, operand(expr.operands()[1]));
  }

  std::string call(std::string_view function, std::span<const Expr> operands) const {
    if (operands.size() == 1) return print(operands[0]);
    return fmt::format("{}({}, {})", function, print(operands[0]), call(function, operands.subspan(1)));
  }

  const Ranges& ranges_;
  const std::function<std::string(Symbol)>& name_of_;
};

}  // namespace

std::string to_c(const Expr& expr, const Ranges& ranges, const std::function<std::string(Symbol)>& name_of) {
  return Printer(ranges, name_of).print(expr);
}

}  // namespace tenon::symbolic
