// The text form: printing and parsing.
#include <fmt/format.h>

#include <array>

#include "symbolic/parsing.h"

namespace tenon::symbolic {
namespace {

// ---- printing -------------------------------------------------------------------------------------------------------

// How tightly an operator binds. A quotient is above a product, though Python parses them alike: 2*(x // y) keeps its
// parentheses, and 2*x // y needs none.
enum class Level : uint8_t { kComparison, kSum, kQuotient, kProduct, kAtom };

struct Form {
  Level level;
  std::string_view sign;
};

constexpr Form kForms[] = {  // by Kind
    {Level::kAtom, ""},         {Level::kAtom, ""},         {Level::kSum, "+"},        {Level::kProduct, "*"},
    {Level::kQuotient, "//"},   {Level::kQuotient, "%"},    {Level::kAtom, "min"},     {Level::kAtom, "max"},
    {Level::kComparison, "=="}, {Level::kComparison, "!="}, {Level::kComparison, "<"}, {Level::kComparison, "<="}};

Level level_of(const Expr& expr) { return kForms[static_cast<size_t>(expr.kind())].level; }

class Printer {
 public:
  // Encloses an expression that binds less tightly than `least`.
  void print(const Expr& expr, Level least) {
    if (level_of(expr) >= least) return print(expr);
    text_ += '(';
    print(expr);
    text_ += ')';
  }

  std::string take() && { return std::move(text_); }

 private:
  void print(const Expr& expr) {
    switch (expr.kind()) {
      case Kind::kConstant:
        return print_constant(expr.constant());
      case Kind::kSymbol:
        text_ += expr.symbol().name();
        return;
      case Kind::kAdd:
        return print_sum(expr);
      case Kind::kMul:
        return print_term(coefficient(expr), factors(expr));
      case Kind::kFloorDiv:
      case Kind::kMod:
        return print_binary(expr, Level::kProduct, Level::kAtom);
      case Kind::kMin:
      case Kind::kMax:
        return print_call(expr);
      default:
        return print_binary(expr, Level::kSum, Level::kSum);
    }
  }

  // A parser reads the digits before the sign, and those of the smallest integer do not fit 64 bits.
  void print_constant(int64_t value) {
    text_ += value == kInt64Min ? "(-9223372036854775807 - 1)" : std::to_string(value);
  }

  void print_sum(const Expr& expr) {
    const auto terms = expr.operands();
    print(terms[0], Level::kQuotient);
    for (const Expr& term : terms.subspan(1)) {
      const int64_t k = coefficient(term);
      const bool is_subtracted = k < 0 && k != kInt64Min;
      text_ += is_subtracted ? " - " : " + ";
      if (factors(term).empty()) {
        print_constant(is_subtracted ? -k : k);
      } else {
        print_term(is_subtracted ? -k : k, factors(term));
      }
    }
  }

  void print_term(int64_t coefficient, std::span<const Expr> factors) {
    if (factors.size() == 1 && coefficient == 1) return print(factors[0], Level::kQuotient);
    if (coefficient == -1) text_ += '-';
    if (coefficient != 1 && coefficient != -1) {
      print_constant(coefficient);
      text_ += '*';
    }
    for (const Expr& factor : factors) {
      if (&factor != &factors[0]) text_ += '*';
      print(factor, Level::kAtom);
    }
  }

  void print_binary(const Expr& expr, Level left, Level right) {
    print(expr.operands()[0], left);
    text_ += fmt::format(" {} ", sign_of(expr.kind()));
    print(expr.operands()[1], right);
  }

  void print_call(const Expr& expr) {
    text_ += sign_of(expr.kind());
    for (const Expr& operand : expr.operands()) {
      text_ += &operand == &expr.operands()[0] ? "(" : ", ";
      print(operand);
    }
    text_ += ')';
  }

  std::string text_;
};

// ---- parsing --------------------------------------------------------------------------------------------------------

struct BinaryOperator {
  std::string_view token;
  Expr (*apply)(const Expr&, const Expr&);
};

// A token comes before its prefixes: "<=" before "<".
constexpr std::array kComparisons = {BinaryOperator{"==", eq}, BinaryOperator{"!=", ne}, BinaryOperator{"<=", le},
                                     BinaryOperator{">=", ge}, BinaryOperator{"<", lt},  BinaryOperator{">", gt}};
constexpr std::array kQuotients = {BinaryOperator{"//", floordiv}, BinaryOperator{"%", mod}};

//   comparison: sum [("==" | "!=" | "<=" | ">=" | "<" | ">") sum]
//   sum:        product {("+" | "-") product}
//   product:    unary {("*" | "//" | "%") unary}
//   unary:      {"-"} atom
//   atom:       integer | symbol | ("min" | "max") "(" comparison {"," comparison} ")" | "(" comparison ")"
class Parser {
 public:
  explicit Parser(Cursor& cursor) : cursor_(cursor) {}

  Expr comparison() {
    Expr left = sum();
    const auto* found = accept_any(kComparisons);
    if (!found) return left;
    const Location where = cursor_.here();
    const Expr right = sum();
    left = located(where, [&] { return found->apply(left, right); });
    const Location next = cursor_.here();
    if (accept_any(kComparisons)) fail_at(next, "comparisons do not chain: write (a < b)*(b < c)");
    return left;
  }

 private:
  Expr sum() {
    const Location where = cursor_.here();
    std::vector<Expr> terms = {product()};
    while (true) {
      if (cursor_.accept("+")) {
        terms.push_back(product());
      } else if (cursor_.accept("-")) {
        const Expr term = product();
        terms.push_back(located(where, [&] { return -term; }));
      } else {
        return located(where, [&] { return symbolic::sum(terms); });
      }
    }
  }

  // A run of factors is one product: whether it is distributed depends on all of them.
  Expr product() {
    const Location where = cursor_.here();
    std::vector<Expr> factors = {unary()};
    while (true) {
      while (cursor_.accept("*")) factors.push_back(unary());
      const Expr left = located(where, [&] { return symbolic::product(factors); });
      const auto* found = accept_any(kQuotients);
      if (!found) return left;
      const Location operand = cursor_.here();
      const Expr right = unary();
      factors = {located(operand, [&] { return found->apply(left, right); })};
    }
  }

  Expr unary() {
    const Location where = cursor_.here();
    bool is_negated = false;
    while (cursor_.accept("-")) is_negated = !is_negated;
    Expr operand = atom();
    return is_negated ? located(where, [&] { return -operand; }) : operand;
  }

  Expr atom() {
    const char next = cursor_.peek();
    if (next >= '0' && next <= '9') return cursor_.integer("an integer");
    if (cursor_.accept("(")) return enclosed().front();
    const Location where = cursor_.here();
    const std::string_view name = cursor_.identifier("an expression");
    if ((name == "min" || name == "max") && cursor_.peek() == '(') return call(name);
    return located(where, [&] { return Symbol(name); });
  }

  Expr call(std::string_view name) {
    const Location where = cursor_.here();
    cursor_.expect("(");
    const std::vector<Expr> arguments = enclosed(",");
    return located(where, [&] { return extremum(name == "min" ? Kind::kMin : Kind::kMax, arguments); });
  }

  // Every recursion passes through here.
  std::vector<Expr> enclosed(std::string_view separator = {}) {
    const Nesting nesting(cursor_, depth_);
    std::vector<Expr> parts = {comparison()};
    while (!separator.empty() && cursor_.accept(separator)) parts.push_back(comparison());
    cursor_.expect(")");
    return parts;
  }

  const BinaryOperator* accept_any(std::span<const BinaryOperator> operators) {
    for (const BinaryOperator& candidate : operators) {
      if (cursor_.accept(candidate.token)) return &candidate;
    }
    return nullptr;
  }

  Cursor& cursor_;
  uint32_t depth_ = 0;
};

}  // namespace

std::string_view sign_of(Kind kind) { return kForms[static_cast<size_t>(kind)].sign; }

std::string to_string(const Expr& expr) {
  Printer printer;
  printer.print(expr, Level::kComparison);
  return std::move(printer).take();
}

Result<Expr> parse(std::string_view text, Location start) {
  return attempt([&] {
    Cursor cursor(text, std::move(start));
    Expr expr = parse(cursor);
    expect_end(cursor);
    return expr;
  });
}

Expr parse(Cursor& cursor) { return Parser(cursor).comparison(); }

}  // namespace tenon::symbolic
