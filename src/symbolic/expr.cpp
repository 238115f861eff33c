#include "symbolic/expr.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "support/cursor.h"
#include "support/hash.h"
#include "symbolic/canonical.h"

namespace tenon::symbolic {
namespace {

const std::string* intern(std::string_view name) {
  // Never destroyed: symbols in static objects outlive every other static.
  static auto& names = *new std::unordered_set<std::string>();
  static auto& mutex = *new std::mutex();
  const std::lock_guard lock(mutex);
  return &*names.emplace(name).first;
}

std::strong_ordering compare_factors(const Expr& a, const Expr& b) {
  if (a.kind() != b.kind()) return a.kind() <=> b.kind();
  if (a.kind() == Kind::kSymbol) return a.symbol() <=> b.symbol();
  const auto left = a.operands(), right = b.operands();
  return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end());
}

}  // namespace

Symbol::Symbol(std::string_view name) {
  if (!is_identifier(name)) fail("'{}' is not a symbol name: it has to match [A-Za-z_][A-Za-z0-9_.]*", name);
  if (name == "nan" || name == "inf" || name == "none") fail("'{}' cannot name a symbol: it is a value", name);
  name_ = intern(name);
}

std::strong_ordering Symbol::operator<=>(const Symbol& other) const {
  return name_ == other.name_ ? std::strong_ordering::equal : *name_ <=> *other.name_;
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

struct Expr::Node {
  Kind kind;
  std::optional<Symbol> symbol;  // of a kSymbol
  std::vector<Expr> operands;    // of everything else
  uint32_t depth = 1;
  uint32_t size = 1;
  size_t hash = 0;
};

Expr::Expr(Symbol symbol) {
  size_t hash = static_cast<size_t>(Kind::kSymbol);
  hash_combine(hash, std::hash<std::string>()(symbol.name()));
  node_ = std::make_shared<const Node>(Node{.kind = Kind::kSymbol, .symbol = symbol, .operands = {}, .hash = hash});
}

Expr make_node(Kind kind, std::vector<Expr> operands) {
  Expr::Node node{.kind = kind, .symbol = {}, .operands = std::move(operands), .hash = static_cast<size_t>(kind)};
  for (const Expr& operand : node.operands) {
    hash_combine(node.hash, operand.hash());
    if (operand.is_constant()) continue;
    node.depth = std::max(node.depth, operand.node_->depth + 1);
    node.size += operand.node_->size;
    if (node.size > kMaxSize) fail("the expression is too large: it has more than {} nodes", kMaxSize);
  }
  if (node.depth > kMaxDepth) fail("the expression nests deeper than {} levels", kMaxDepth);
  Expr expr;
  expr.node_ = std::make_shared<const Expr::Node>(std::move(node));
  return expr;
}

Kind Expr::kind() const { return node_ ? node_->kind : Kind::kConstant; }

int64_t Expr::constant() const {
  check(is_constant(), "{} is not a constant", *this);
  return value_;
}

Symbol Expr::symbol() const {
  check(kind() == Kind::kSymbol, "{} is not a symbol", *this);
  return *node_->symbol;
}

std::span<const Expr> Expr::operands() const {
  if (!node_) return {};
  return node_->operands;
}

size_t Expr::hash() const { return node_ ? node_->hash : std::hash<int64_t>()(value_); }

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return value_ == other.value_;
  if (!node_ || !other.node_ || node_->hash != other.node_->hash) return false;
  return node_->kind == other.node_->kind && node_->symbol == other.node_->symbol &&
         node_->operands == other.node_->operands;
}

// ---- order ----------------------------------------------------------------------------------------------------------

std::strong_ordering compare_monomials(const Expr& a, const Expr& b) {
  const auto left = factors(a), right = factors(b);
  // Degree first: this order is kept by multiplication, which polynomial division relies on.
  if (left.size() != right.size()) return right.size() <=> left.size();
  return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end(), compare_factors);
}

std::strong_ordering Expr::operator<=>(const Expr& other) const {
  if (*this == other) return std::strong_ordering::equal;
  const auto order = compare_monomials(*this, other);
  return order != 0 ? order : coefficient(*this) <=> coefficient(other);
}

// ---- terms and factors ----------------------------------------------------------------------------------------------

std::span<const Expr> terms(const Expr& expr) {
  if (is_sum(expr)) return expr.operands();
  return {&expr, expr.is_constant(0) ? 0u : 1u};
}

std::span<const Expr> factors(const Expr& term) {
  if (term.is_constant()) return {};
  if (term.kind() != Kind::kMul) return {&term, 1};
  const auto operands = term.operands();
  return operands.back().is_constant() ? operands.first(operands.size() - 1) : operands;
}

int64_t coefficient(const Expr& term) {
  if (term.is_constant()) return term.constant();
  if (term.kind() != Kind::kMul || !term.operands().back().is_constant()) return 1;
  return term.operands().back().constant();
}

int64_t constant_term(const Expr& expr) {
  if (expr.is_constant()) return expr.constant();
  return is_sum(expr) && expr.operands().back().is_constant() ? expr.operands().back().constant() : 0;
}

bool is_comparison(Kind kind) { return kind >= Kind::kEq; }

bool is_boolean(const Expr& expr) {
  if (expr.is_constant()) return expr.is_constant(0) || expr.is_constant(1);
  const bool keeps_booleans = expr.kind() == Kind::kMin || expr.kind() == Kind::kMax || expr.kind() == Kind::kMul;
  return is_comparison(expr.kind()) || (keeps_booleans && std::ranges::all_of(expr.operands(), is_boolean));
}

Expr rebuild(Kind kind, const std::vector<Expr>& operands) {
  check(kind > Kind::kSymbol, "constants and symbols are not rebuilt");
  if (kind == Kind::kAdd) return sum(operands);
  if (kind == Kind::kMul) return product(operands);
  if (kind == Kind::kMin || kind == Kind::kMax) return extremum(kind, operands);
  using Binary = Expr (*)(const Expr&, const Expr&);
  constexpr Binary kBinary[] = {floordiv, mod, nullptr, nullptr, eq, ne, lt, le};  // by Kind, from kFloorDiv on
  return kBinary[static_cast<size_t>(kind) - static_cast<size_t>(Kind::kFloorDiv)](operands[0], operands[1]);
}

}  // namespace tenon::symbolic
