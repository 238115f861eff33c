// named::Symbol: a dimension by identity. Two Symbols of one name are two dimensions; copies of one are the same.
//
// In index expressions a Symbol is the index along its dimension, and size() the dimension's size:
//
//     X[{2 * o + k}]           every second element, windows of k
//     X[{X.size(m) - 1 - r}]   backwards
#pragma once

#include <string>
#include <string_view>

#include "symbolic/expr.h"

namespace tenon::named {

using symbolic::Expr;

class Symbol {
 public:
  explicit Symbol(std::string_view name);  // throws an Error for a malformed name: see symbolic::Symbol

  const std::string& name() const { return name_; }
  operator Expr() const { return index_; }  // NOLINT(google-explicit-constructor): a symbol is an index expression
  Expr size() const { return size_; }

  bool operator==(const Symbol& other) const { return index_ == other.index_; }
  bool operator<(const Symbol& other) const { return id_ < other.id_; }  // in the order of creation

  // How it appears in expressions: names that no other Symbol has.
  symbolic::Symbol index_symbol() const { return index_; }
  symbolic::Symbol size_symbol() const { return size_; }

 private:
  Symbol(std::string_view name, uint64_t id);
  friend std::optional<Symbol> symbol_in(symbolic::Symbol part);

  std::string name_;
  uint64_t id_;
  symbolic::Symbol index_;
  symbolic::Symbol size_;
};

// The Symbol whose index or size is `part`. Empty if there is none.
std::optional<Symbol> symbol_in(symbolic::Symbol part);

// The Symbols whose indices an expression depends on, by creation. Throws an Error for any other symbol.
std::vector<Symbol> dims_of(const Expr& index);

// The expression with the names of the Symbols, for messages.
std::string shown(const Expr& expr);

using symbolic::operator+;
using symbolic::operator-;
using symbolic::operator*;

}  // namespace tenon::named
