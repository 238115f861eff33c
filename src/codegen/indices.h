// Inside of codegen: index expressions as LLVM values. Each is computed once, and as far outside of loops as its
// symbols allow, so that inner loops are left with additions.
//
// A level is the body of a loop, the function itself the first. What a level computes goes in front of its anchor.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <unordered_map>

#include "symbolic/expr.h"

namespace tenon::codegen {

class Indices {
 public:
  using Expr = symbolic::Expr;
  using Symbol = symbolic::Symbol;

  explicit Indices(llvm::IRBuilder<>& builder) : b_(builder) {}

  void open(llvm::Instruction* anchor) { levels_.push_back({anchor, {}, {}, {}}); }
  void close() { levels_.pop_back(); }
  void bind(Symbol symbol, llvm::Value* value) { levels_.back().symbols.insert_or_assign(symbol, value); }
  // What is known of symbols from here on; must live as long.
  void set_ranges(const symbolic::Ranges& ranges) { ranges_ = &ranges; }

  // A symbol whose value is found in the middle of a level: what depends on it is computed on the spot.
  void bind_here(Symbol symbol, llvm::Value* value) { here_.insert_or_assign(symbol, value); }
  // A symbol that differs by lane.
  void bind_lanes(Symbol symbol, llvm::Value* vector) { lanes_.insert_or_assign(symbol, vector); }
  void unbind(Symbol symbol) { here_.erase(symbol), lanes_.erase(symbol); }

  llvm::Value* value(const Expr& expr);  // an i64
  llvm::Value* address(llvm::Value* array, llvm::Type* element, const Expr& position);
  bool differs_by_lane(const Expr& expr) const;
  llvm::Value* lanes(const Expr& expr, unsigned count);  // a vector of i64

  std::map<Symbol, llvm::Value*> symbols() const;  // all that are bound to levels

 private:
  struct Level {
    llvm::Instruction* anchor;
    std::map<Symbol, llvm::Value*> symbols;
    std::unordered_map<Expr, llvm::Value*> known;
    std::map<std::pair<llvm::Value*, llvm::Type*>, std::unordered_map<Expr, llvm::Value*>> addresses;
  };
  static constexpr size_t kHere = ~size_t{0};

  size_t level_of(const Expr& expr) const;
  llvm::Value* symbol(Symbol symbol) const;
  llvm::Value* sum(const Expr& expr);
  llvm::Value* compute(const Expr& expr, llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* divide(const Expr& expr, llvm::Value* x, llvm::Value* y);

  llvm::IRBuilder<>& b_;
  std::vector<Level> levels_;
  std::map<Symbol, llvm::Value*> here_;
  std::map<Symbol, llvm::Value*> lanes_;
  const symbolic::Ranges* ranges_ = nullptr;
};

}  // namespace tenon::codegen
