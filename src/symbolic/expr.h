// Exact 64-bit integer expressions over named symbols: the sizes of dynamic shapes, the indices of loops, and the
// offsets of the memory plan.
//
// An Expr denotes one integer for each binding of its symbols. Every operator returns the canonical form, so two
// expressions that the rules can prove equal are structurally equal (and have equal hashes):
//   - sums and products are flattened, constants folded, like terms collected, operands sorted;
//   - products are distributed over sums, unless that gives more than 64 terms or a degree over 8;
//   - x - y is x + (-1)*y;
//   - floor division and modulo pull out what divides exactly: (4*x + y) // 4 is x + y // 4;
//   - two of the three in a == n*(a // n) + a % n become the third;
//   - minimum and maximum pull out what their operands share: min(x + 1, y + 1) is min(x, y) + 1;
//   - comparisons have all positive terms, without a common divisor: 2*x <= y + x + 3 is x < y + 4.
//
// Arithmetic is checked. A constant that does not fit 64 bits, or a division by the constant zero, throws an Error as
// the expression is built. `evaluate` computes with 128 bits and throws an Error when the result does not fit 64.
// Simplification may remove an error (0 * (x // y) is 0), and never adds one to an expression that has a value, as long
// as the constants of its canonical form fit 64 bits.
//
// An expression that nests deeper than 200, or has more than 65536 nodes written out as a tree, is an Error as well:
// the functions below recurse over that tree.
//
// A comparison is an expression whose value is 1 or 0. A conjunction is the product of comparisons, a disjunction their
// maximum, the negation of c is eq(c, 0).
//
// Exprs are immutable values, cheap to copy, and safe to share between threads. A constant owns no heap memory.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/checked.h"

namespace tenon {
class Cursor;  // support/cursor.h
}

namespace tenon::symbolic {

// A symbol is its name: two symbols of one name are the same symbol. Names match [A-Za-z_][A-Za-z0-9_.]*, and are
// none of the values nan, inf and none.
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
  Expr() = default;               // the constant 0
  Expr(std::integral auto value)  // NOLINT(google-explicit-constructor): integers are expressions
      : value_(static_cast<int64_t>(value)) {
    if (!std::in_range<int64_t>(value)) fail("integer overflow: {} does not fit 64 bits", value);
  }
  Expr(bool) = delete;
  Expr(Symbol symbol);  // NOLINT(google-explicit-constructor): so are symbols

  Kind kind() const;
  bool is_constant() const { return node_ == nullptr; }
  bool is_constant(int64_t value) const { return node_ == nullptr && value_ == value; }
  int64_t constant() const;  // only when is_constant(); else an InternalError
  Symbol symbol() const;     // only of a kSymbol
  // None for constants and symbols, two for //, % and comparisons, two or more for the others. Those are sorted, and
  // have at most one constant, the last: 2*x*y + 1 is Add(Mul(x, y, 2), 1). A power is a repeated factor.
  std::span<const Expr> operands() const;

  bool operator==(const Expr& other) const;  // structural
  // A total order, the one that operands are sorted by: higher degrees first, then by name, constants last.
  std::strong_ordering operator<=>(const Expr& other) const;
  size_t hash() const;

  struct Node;

 private:
  friend Expr make_node(Kind kind, std::vector<Expr> operands);
  int64_t value_ = 0;                 // of a constant; else 0
  std::shared_ptr<const Node> node_;  // of everything else
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
Expr eq(const Expr& a, const Expr& b);  // comparisons are 1 or 0
Expr ne(const Expr& a, const Expr& b);
Expr lt(const Expr& a, const Expr& b);
Expr le(const Expr& a, const Expr& b);
Expr gt(const Expr& a, const Expr& b);
Expr ge(const Expr& a, const Expr& b);

inline Expr& operator+=(Expr& a, const Expr& b) { return a = a + b; }
inline Expr& operator-=(Expr& a, const Expr& b) { return a = a - b; }
inline Expr& operator*=(Expr& a, const Expr& b) { return a = a * b; }

Expr sum(std::span<const Expr> terms);        // faster than adding one by one
Expr product(std::span<const Expr> factors);  // the number of elements of a shape

// The text form: `2*s0 + 1`, `s0 // 4`, `s0 % 4`, `min(a, b)`, `max(a, b)`, `a == b`, `a < b`. It is Python's syntax
// with Python's meaning, and parses back to an equal Expr. `start` is where the text begins in its file.
std::string to_string(const Expr& expr);
Result<Expr> parse(std::string_view text, Location start = {"", 1, 1});
Expr parse(Cursor& cursor);  // as far as the expression goes, in a longer text; throws an Error

// Reads what sympy's `srepr` prints for PyTorch's shape expressions: Integer, Symbol (assumptions are ignored), Add,
// Mul, Pow with a natural exponent, FloorDiv, CleanDiv, CeilDiv, Mod, PythonMod, ModularIndexing, Max, Min,
// comparisons, And, Or, Not, booleans, shifts by a constant, and FloorToInt, CeilToInt, TruncToInt of an IntTrueDiv
// (PyTorch computes the last three in floating point: they agree for sizes below 2^53). Anything else, Rational and
// Piecewise among them, is an error that names it.
Result<Expr> parse_srepr(std::string_view text, Location start = {"", 1, 1});

using Bindings = std::map<Symbol, int64_t>;
// Throws an Error for an unbound symbol, an overflow, and a division by zero.
int64_t evaluate(const Expr& expr, const Bindings& bindings);
// The value at sizes that a decision assumes, and that no run may have: 16 // (16 // n) is right for the divisors of 16
// alone. A division by zero gives 0, an overflow the nearest number. Throws an Error for an unbound symbol.
int64_t estimate(const Expr& expr, const Bindings& assumed);

using Substitution = std::map<Symbol, Expr>;
Expr substitute(const Expr& expr, const Substitution& replacements);  // simultaneous

std::vector<Symbol> symbols_of(const Expr& expr);  // sorted, unique
bool depends_on(const Expr& expr, Symbol symbol);

// A closed range of integers. The largest and smallest int64 stand for "unbounded" on their side.
struct Interval {
  int64_t low;
  int64_t high;

  static Interval all() { return {kInt64Min, kInt64Max}; }
  static Interval exactly(int64_t value) { return {value, value}; }
  static Interval at_least(int64_t low) { return {low, kInt64Max}; }
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool is_bounded() const { return low != kInt64Min && high != kInt64Max; }
  bool is_single() const { return low == high && is_bounded(); }
  bool operator==(const Interval&) const = default;
};
std::string to_string(const Interval& interval);  // "[2, inf]"

// The range of each symbol. A symbol that is not listed can be any integer.
using Ranges = std::map<Symbol, Interval>;

// An interval that contains every value of the expression over `ranges`. It saturates and never fails.
Interval bounds(const Expr& expr, const Ranges& ranges);

// Simplifies further with the ranges of symbols: (16*i + j) // 16 is i if 0 <= j < 16. The result has the same value
// for all symbols within their ranges. Returns `expr` unchanged if a rewritten constant would overflow.
Expr simplify(const Expr& expr, const Ranges& ranges);

// True if the ranges prove it. False means "unknown".
bool provably_equal(const Expr& a, const Expr& b, const Ranges& ranges = {});
bool provably_less_equal(const Expr& a, const Expr& b, const Ranges& ranges = {});

// For an expression that is affine in `symbol`, expr == differentiate(expr, symbol) * symbol + intercept(expr, symbol),
// and neither part depends on it. An expression that is not affine in the symbol is an error that says so.
Result<Expr> differentiate(const Expr& expr, Symbol symbol);  // the stride
Result<Expr> intercept(const Expr& expr, Symbol symbol);      // the offset

// Binds symbols from equations `expr == value`. Each equation is used once all but one of its symbols are known, where
// that symbol appears affinely; all others are checked. Conflicts, non-integer solutions, values outside `ranges` and
// equations that remain undetermined are errors that name the equation.
struct Equation {
  Expr expr;
  int64_t value;
  std::string origin;  // for messages: "dimension 0 of input x"
};
Result<Bindings> solve(std::span<const Equation> equations, const Ranges& ranges = {});

// The same for equations between expressions: binds every symbol of `unknowns` in terms of the others.
// Used to infer sizes (2*o + k - 2 == n, o == 8, k == 3 gives n = 17).
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
