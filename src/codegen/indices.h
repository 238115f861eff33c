// Inside of codegen: index expressions as LLVM values. Each is computed once, as far outside of loops as its symbols
// allow, so that inner loops only add.
//
// A level is the function or the body of a loop. The code of a level is inserted before its anchor.
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
  // Ranges of symbols from here on. They must outlive their use.
  void set_ranges(const symbolic::Ranges& ranges) { ranges_ = &ranges; }

  // Binds a symbol in the middle of a level. Expressions that contain it are computed at the current position.
  void bind_here(Symbol symbol, llvm::Value* value) { here_.insert_or_assign(symbol, value); }
  // Binds a symbol to a value per lane.
  void bind_lanes(Symbol symbol, llvm::Value* vector) { lanes_.insert_or_assign(symbol, vector); }
  void unbind(Symbol symbol) { here_.erase(symbol), lanes_.erase(symbol); }

  llvm::Value* value(const Expr& expr);  // an i64
  llvm::Value* address(llvm::Value* array, llvm::Type* element, const Expr& position);
  bool differs_by_lane(const Expr& expr) const;
  llvm::Value* lanes(const Expr& expr, unsigned count);  // a vector of i64

  std::map<Symbol, llvm::Value*> symbols() const;  // the symbols bound to levels

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
