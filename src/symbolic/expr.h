// Exact 64-bit integer expressions over named symbols. They are the sizes of dynamic shapes, the indices of loops and
// the offsets of the memory plan.
//
// An Expr denotes one integer for each binding of its symbols. Every operator returns the canonical form, so two
// expressions that the rules can prove equal are structurally equal (and have equal hashes):
//   - sums and products are flattened, constants folded, like terms collected, operands sorted;
//   - products are distributed over sums; x - y is x + (-1)*y;
//   - floor division and modulo pull out what divides exactly: (4*x + y) // 4 is x + y // 4.
//
// Arithmetic is checked. A constant that does not fit 64 bits, or a division by the constant zero, throws an Error as
// the expression is built; `evaluate` does the same for the values it meets. Simplification may remove such an error
// (0 * (x // y) is 0), and never adds one to an expression that has a value... as long as the constants of its canonical
// form fit 64 bits.
//
// A comparison is an expression whose value is 1 or 0. A conjunction is the product of comparisons.
//
// Exprs are immutable values, cheap to copy, and safe to share between threads. A constant owns no heap memory.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/diagnostic.h"

namespace tenon::symbolic {

// A symbol is its name: two symbols of one name are the same symbol. Names match [A-Za-z_][A-Za-z0-9_.]*.
class Symbol {
 public:
  explicit Symbol(std::string_view name);  // throws an Error for a malformed name
  const std::string& name() const { return *name_; }
  bool operator==(const Symbol& other) const { return name_ == other.name_; }
  std::strong_ordering operator<=>(const Symbol& other) const;  // by name

 private:
  const std::string* name_;  // interned, lives as long as the process
};

enum class Kind : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax, kEq, kNe, kLt, kLe };

class Expr {
 public:
  Expr() = default;                      // the constant 0
  Expr(int64_t constant) : value_(constant) {}  // NOLINT: integers are expressions
  Expr(int constant) : value_(constant) {}      // NOLINT
  Expr(Symbol symbol);                   // NOLINT: so are symbols

  Kind kind() const;
  bool is_constant() const { return node_ == nullptr; }
  bool is_constant(int64_t value) const { return node_ == nullptr && value_ == value; }
  int64_t constant() const;              // only when is_constant(); else an InternalError
  Symbol symbol() const;                 // only of a kSymbol
  std::span<const Expr> operands() const;

  bool operator==(const Expr& other) const;  // structural
  std::strong_ordering operator<=>(const Expr& other) const;  // a total order, the one that operands are sorted by
  size_t hash() const;

  struct Node;

 private:
  friend Expr make_node(Kind kind, std::vector<Expr> operands);
  int64_t value_ = 0;                    // of a constant
  std::shared_ptr<const Node> node_;     // of everything else
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr operator*(const Expr& a, const Expr& b);
Expr floordiv(const Expr& a, const Expr& b);  // rounds towards minus infinity
Expr mod(const Expr& a, const Expr& b);       // has the sign of the divisor
Expr ceildiv(const Expr& a, const Expr& b);   // -floordiv(-a, b)
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr eq(const Expr& a, const Expr& b);        // comparisons are 1 or 0
Expr ne(const Expr& a, const Expr& b);
Expr lt(const Expr& a, const Expr& b);
Expr le(const Expr& a, const Expr& b);
Expr gt(const Expr& a, const Expr& b);
Expr ge(const Expr& a, const Expr& b);

// The text form: `2*s0 + 1`, `s0 // 4`, `s0 % 4`, `min(a, b)`, `max(a, b)`, `a == b`, `a < b`. It parses back to an equal Expr.
std::string to_string(const Expr& expr);
Result<Expr> parse(std::string_view text);

// Reads what sympy's `srepr` prints for PyTorch's shape expressions: Integer, Symbol (assumptions are ignored), Add, Mul,
// Pow with a non-negative integer exponent, FloorDiv, PythonMod, Mod, CeilDiv, CleanDiv, Max, Min, comparisons, And, Or,
// Not, booleans, NegativeOne, Zero, One...
Result<Expr> parse_srepr(std::string_view text);

using Bindings = std::map<Symbol, int64_t>;
int64_t evaluate(const Expr& expr, const Bindings& bindings);  // throws for an unbound symbol, overflow, division by zero

using Substitution = std::map<Symbol, Expr>;
Expr substitute(const Expr& expr, const Substitution& replacements);  // simultaneous

std::vector<Symbol> symbols_of(const Expr& expr);  // sorted, unique
bool depends_on(const Expr& expr, Symbol symbol);

// A closed range of integers. The largest and smallest int64 stand for "unbounded" on their side.
struct Interval {
  int64_t low;
  int64_t high;

  static Interval all();
  static Interval exactly(int64_t value) { return {value, value}; }
  static Interval at_least(int64_t low);
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool is_single() const { return low == high; }
  bool operator==(const Interval&) const = default;
};

// What is known of each symbol; one that is not listed can be any integer.
using Ranges = std::map<Symbol, Interval>;

// Contains every value that the expression can take over `ranges` (saturating, never failing).
Interval bounds(const Expr& expr, const Ranges& ranges);

// Simplifies further with what is known of the symbols: (16*i + j) // 16 is i when 0 <= j < 16.
Expr simplify(const Expr& expr, const Ranges& ranges);

// True when the ranges prove it; false is "unknown".
bool provably_equal(const Expr& a, const Expr& b, const Ranges& ranges = {});
bool provably_less_equal(const Expr& a, const Expr& b, const Ranges& ranges = {});

// For an expression that is affine in `symbol`, expr == differentiate(expr, symbol) * symbol + intercept(expr, symbol),
// and neither part depends on it. An expression that is not affine in the symbol is an error that says so.
Result<Expr> differentiate(const Expr& expr, Symbol symbol);  // the stride
Result<Expr> intercept(const Expr& expr, Symbol symbol);      // the offset

// Binds symbols from equations `expr == value`. Each equation is used once all but one of its symbols are known, where
// that symbol appears affinely. Conflicts, non-integer solutions, values outside `ranges` and equations that remain
// undetermined are errors that name the equation.
struct Equation {
  Expr expr;
  int64_t value;
  std::string origin;  // for messages: "dimension 0 of input x"
};
Result<Bindings> solve(std::span<const Equation> equations, const Ranges& ranges = {});

// The same for equations between expressions: binds the symbols of `unknowns` in terms of the others.
// Used to infer sizes (2*o + k - 2 == n, o = 8, k = 3 gives n = 17).
struct SymbolicEquation {
  Expr left;
  Expr right;
  std::string origin;
};
Result<Substitution> solve_for(std::span<const SymbolicEquation> equations, std::span<const Symbol> unknowns);

}  // namespace tenon::symbolic

template <>
struct std::hash<tenon::symbolic::Expr> {
  size_t operator()(const tenon::symbolic::Expr& expr) const { return expr.hash(); }
};
template <>
struct std::hash<tenon::symbolic::Symbol> {
  size_t operator()(const tenon::symbolic::Symbol& symbol) const { return std::hash<const void*>()(&symbol.name()); }
};
