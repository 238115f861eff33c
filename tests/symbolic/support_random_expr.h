// Random expressions that know their value without the code under test: a plain tree, evaluated with checked arithmetic
// as it is written, and built into an Expr through the public operators.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "symbolic/expr.h"

namespace tenon::symbolic::testing {

struct Tree {
  enum class Op {
    kConstant,
    kSymbol,
    kNegate,
    kAdd,
    kSub,
    kMul,
    kFloorDiv,
    kMod,
    kCeilDiv,
    kMin,
    kMax,
    kEq,
    kNe,
    kLt,
    kLe,
    kGt,
    kGe
  };

  Op op = Op::kConstant;
  int64_t value = 0;         // of a constant
  size_t symbol = 0;         // index into symbols()
  std::vector<Tree> inputs;  // of everything else
};

const std::vector<Symbol>& symbols();

int64_t evaluate(const Tree& tree, const Bindings& bindings);  // throws as Expr's operators would
Expr build(const Tree& tree);
Tree substitute(const Tree& tree, size_t symbol, const Tree& replacement);
std::string to_string(const Tree& tree);  // Python, fully parenthesized

class RandomTrees {
 public:
  explicit RandomTrees(uint64_t seed) : random_(seed) {}

  Tree tree(int depth);
  Bindings bindings();             // of every symbol, to values below 2^15 in magnitude
  Ranges ranges(const Bindings&);  // that contain these values; some symbols have none

 private:
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  int64_t constant();
  int64_t symbol_value();

  std::mt19937_64 random_;
};

}  // namespace tenon::symbolic::testing
