#include "codegen/indices.h"

#include <algorithm>
#include <bit>

namespace tenon::codegen {

using llvm::Value;
using symbolic::Kind;

size_t Indices::level_of(const Expr& expr) const {
  size_t level = 0;
  for (Symbol symbol : symbols_of(expr)) {
    if (here_.contains(symbol) || lanes_.contains(symbol)) return kHere;
    for (size_t i = levels_.size(); i-- > level;) {
      if (levels_[i].symbols.contains(symbol)) level = i;
    }
  }
  return level;
}

Value* Indices::symbol(Symbol symbol) const {
  if (const auto found = here_.find(symbol); found != here_.end()) return found->second;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    if (const auto found = level->symbols.find(symbol); found != level->symbols.end()) return found->second;
  }
  check(false, "the symbol {} has no value here", symbol.name());
  return nullptr;
}

Value* Indices::value(const Expr& expr) {
  if (expr.is_constant()) return b_.getInt64(static_cast<uint64_t>(expr.constant()));
  if (expr.kind() == Kind::kSymbol) return symbol(expr.symbol());
  const size_t level = level_of(expr);
  const llvm::IRBuilderBase::InsertPointGuard guard(b_);
  if (level != kHere) {
    if (const auto found = levels_[level].known.find(expr); found != levels_[level].known.end()) return found->second;
    b_.SetInsertPoint(levels_[level].anchor);
  }
  Value* result = nullptr;
  if (expr.kind() == Kind::kAdd) {
    result = sum(expr);
  } else {
    std::vector<Value*> operands;
    for (const Expr& operand : expr.operands()) operands.push_back(value(operand));
    result = compute(expr, operands);
  }
  if (level != kHere) levels_[level].known.emplace(expr, result);
  return result;
}

// Terms of outer levels are added up in their level.
Value* Indices::sum(const Expr& expr) {
  std::vector<Expr> outside, inside;
  const size_t level = level_of(expr);
  for (const Expr& term : expr.operands()) (level_of(term) == level ? inside : outside).push_back(term);
  Value* result = outside.empty() ? nullptr : value(symbolic::sum(outside));
  for (const Expr& term : inside) result = result ? b_.CreateAdd(result, value(term)) : value(term);
  return result;
}

Value* Indices::compute(const Expr& expr, llvm::ArrayRef<Value*> operands) {
  using P = llvm::CmpInst::Predicate;
  constexpr P kComparisons[] = {P::ICMP_EQ, P::ICMP_NE, P::ICMP_SLT, P::ICMP_SLE};  // by Kind, from kEq on
  const Kind kind = expr.kind();
  Value* result = operands[0];
  if (kind >= Kind::kEq) {
    const P predicate = kComparisons[static_cast<size_t>(kind) - static_cast<size_t>(Kind::kEq)];
    return b_.CreateZExt(b_.CreateICmp(predicate, operands[0], operands[1]), result->getType());
  }
  if (kind == Kind::kFloorDiv || kind == Kind::kMod) return divide(expr, operands[0], operands[1]);
  for (Value* next : operands.drop_front()) {
    if (kind == Kind::kAdd) result = b_.CreateAdd(result, next);
    if (kind == Kind::kMul) result = b_.CreateMul(result, next);
    if (kind == Kind::kMin) result = b_.CreateSelect(b_.CreateICmpSLT(next, result), next, result);
    if (kind == Kind::kMax) result = b_.CreateSelect(b_.CreateICmpSGT(next, result), next, result);
  }
  return result;
}

// Floor division and modulo. They may be computed outside of a loop that has no iterations, and then the divisor may be
// 0.
Value* Indices::divide(const Expr& expr, Value* x, Value* y) {
  const bool wants_rest = expr.kind() == Kind::kMod;
  const Expr& divisor = expr.operands()[1];
  const auto constant = [&](int64_t number) {
    return llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(number), true);
  };
  if (divisor.is_constant() && divisor.constant() > 0 &&
      std::has_single_bit(static_cast<uint64_t>(divisor.constant()))) {
    if (wants_rest) return b_.CreateAnd(x, constant(divisor.constant() - 1));
    return b_.CreateAShr(x, constant(std::countr_zero(static_cast<uint64_t>(divisor.constant()))));
  }
  if (!divisor.is_constant()) y = b_.CreateSelect(b_.CreateICmpEQ(y, constant(0)), constant(1), y);
  const bool is_plain = ranges_ && bounds(expr.operands()[0], *ranges_).low >= 0 && bounds(divisor, *ranges_).low >= 0;
  if (is_plain) return wants_rest ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
  Value* const rest = b_.CreateSRem(x, y);
  Value* const signs_differ = b_.CreateICmpSLT(b_.CreateXor(rest, y), constant(0));
  Value* const corrects = b_.CreateAnd(b_.CreateICmpNE(rest, constant(0)), signs_differ);
  if (wants_rest) return b_.CreateSelect(corrects, b_.CreateAdd(rest, y), rest);
  return b_.CreateSub(b_.CreateSDiv(x, y), b_.CreateZExt(corrects, x->getType()));
}

Value* Indices::address(Value* array, llvm::Type* element, const Expr& position) {
  const auto last = position.kind() == Kind::kAdd ? position.operands().back() : position;
  const Expr constant = last.is_constant() ? last : Expr(0);
  const Expr rest = position - constant;
  Value* base = array;
  if (!rest.is_constant(0)) {
    const size_t level = level_of(rest);
    const llvm::IRBuilderBase::InsertPointGuard guard(b_);
    Value** known = nullptr;
    if (level != kHere) {
      known = &levels_[level].addresses[{array, element}].try_emplace(rest, nullptr).first->second;
      b_.SetInsertPoint(levels_[level].anchor);
    }
    if (!known || !*known) {
      base = b_.CreateGEP(element, array, value(rest));
      if (known) levels_[level].addresses[{array, element}][rest] = base;
    } else {
      base = *known;
    }
  }
  return constant.is_constant(0) ? base : b_.CreateGEP(element, base, value(constant));
}

bool Indices::differs_by_lane(const Expr& expr) const {
  return !lanes_.empty() && std::ranges::any_of(symbols_of(expr), [&](Symbol s) { return lanes_.contains(s); });
}

Value* Indices::lanes(const Expr& expr, unsigned count) {
  if (!differs_by_lane(expr)) return b_.CreateVectorSplat(count, value(expr));
  if (expr.kind() == Kind::kSymbol) return lanes_.at(expr.symbol());
  std::vector<Value*> operands;
  for (const Expr& operand : expr.operands()) operands.push_back(lanes(operand, count));
  return compute(expr, operands);
}

std::map<symbolic::Symbol, Value*> Indices::symbols() const {
  std::map<Symbol, Value*> all;
  for (const Level& level : levels_) {
    for (const auto& [symbol, value] : level.symbols) all.insert_or_assign(symbol, value);
  }
  return all;
}

}  // namespace tenon::codegen
