#include "backends/wasm/function.h"

#include <algorithm>
#include <bit>

namespace tenon::wasm {
namespace {

using symbolic::Kind;

bool is_power_of_two(const Expr& expr) {
  return expr.is_constant() && expr.constant() > 0 && std::has_single_bit(static_cast<uint64_t>(expr.constant()));
}

int log2_of(const Expr& power) { return std::countr_zero(static_cast<uint64_t>(power.constant())); }

// An instruction on i32, or the same on i64.
Op either(ValueType type, Op narrow, Op wide) { return type == ValueType::kI32 ? narrow : wide; }

}  // namespace

// ---- locals and scopes ----------------------------------------------------------------------------------------------

uint32_t Function::add_local(ValueType type) {
  locals_.push_back(type);
  return static_cast<uint32_t>(locals_.size() - 1);
}

// A vacant local of this scope or one around it: what used that local ended before this point, in every iteration.
uint32_t Function::temporary(ValueType type, size_t level) {
  for (size_t i = 0; i <= level; ++i) {
    std::vector<uint32_t>& vacant = scopes_[i].vacant;
    const auto found = std::ranges::find_if(vacant, [&](uint32_t local) { return locals_[local] == type; });
    if (found == vacant.end()) continue;
    const uint32_t local = *found;
    vacant.erase(found);
    scopes_[level].owned.push_back(local);
    return local;
  }
  return scopes_[level].owned.emplace_back(add_local(type));
}

uint32_t Function::set_temporary(ValueType type) {
  const uint32_t local = temporary(type);
  code().op(Op::kSet, local);
  return local;
}

Code Function::close() {
  Scope ended = std::move(scopes_.back());
  scopes_.pop_back();
  if (scopes_.empty()) return std::move(ended.code);
  std::vector<uint32_t>& vacant = scopes_.back().vacant;
  vacant.insert(vacant.end(), ended.owned.begin(), ended.owned.end());
  vacant.insert(vacant.end(), ended.vacant.begin(), ended.vacant.end());
  return std::move(ended.code);
}

void Function::define(Symbol symbol, uint32_t local) {
  definitions_.insert_or_assign(symbol, Definition{local, level()});
}

uint32_t Function::constant(ValueType type, const Code& code) {
  const auto [found, is_new] = constants_.emplace(code.bytes(), 0);
  if (!is_new) return found->second;
  found->second = add_local(type);
  scopes_[0].code.append(code);
  scopes_[0].code.op(Op::kSet, found->second);
  return found->second;
}

// ---- loads ----------------------------------------------------------------------------------------------------------

std::optional<uint32_t> Function::find_load(const LoadKey& key) const {
  for (const Scope& scope : scopes_) {
    if (const auto found = scope.loads.find(key); found != scope.loads.end()) return found->second;
  }
  return {};
}

void Function::forget_loads(int64_t memory) {
  for (Scope& scope : scopes_)
    std::erase_if(scope.loads, [&](const auto& load) { return load.first.memory == memory; });
}

// ---- expressions ----------------------------------------------------------------------------------------------------

size_t Function::level_of(const Expr& expr) const {
  size_t innermost = 0;
  for (Symbol symbol : symbols_of(expr)) innermost = std::max(innermost, definitions_.at(symbol).level);
  return innermost;
}

bool Function::fits_32_bits(std::span<const Expr> exprs) const {
  return std::ranges::all_of(exprs, [&](const Expr& expr) {
    const symbolic::Interval range = bounds(expr, *ranges_);
    return range.low >= INT32_MIN && range.high <= INT32_MAX;
  });
}

std::optional<uint32_t> Function::find_value(const Expr& expr, ValueType type) const {
  if (type == ValueType::kI32 && expr.kind() == Kind::kSymbol) return definitions_.at(expr.symbol()).local;
  for (const Scope& scope : scopes_) {
    if (const auto found = scope.values.find({type, expr}); found != scope.values.end()) return found->second;
  }
  return {};
}

// In the scope `level`, or in one around it.
uint32_t Function::local_of(const Expr& expr, ValueType type, size_t level) {
  if (const auto known = find_value(expr, type)) return *known;
  const size_t home = expr.is_constant() ? level : std::min(level_of(expr), level);
  compute(expr, type, home);
  const uint32_t local = temporary(type, home);
  scopes_[home].code.op(Op::kSet, local);
  scopes_[home].values.emplace(std::pair(type, expr), local);
  return local;
}

void Function::push(const Expr& expr, ValueType type) {
  if (expr.is_constant()) return push(expr, type, level());
  code().op(Op::kGet, local_of(expr, type, level()));
}

void Function::push(const Expr& expr, ValueType type, size_t level) {
  Code& code = scopes_[level].code;
  if (expr.is_constant()) {
    return type == ValueType::kI64 ? code.i64(expr.constant()) : code.i32(static_cast<int32_t>(expr.constant()));
  }
  if (find_value(expr, type) || level_of(expr) < level)
    return scopes_[level].code.op(Op::kGet, local_of(expr, type, level));
  compute(expr, type, level);
}

// To the code of the scope `level`, without a local for the result.
void Function::compute(const Expr& expr, ValueType type, size_t level) {
  switch (expr.kind()) {
    case Kind::kConstant:
      return push(expr, type, level);
    case Kind::kSymbol:
      scopes_[level].code.op(Op::kGet, definitions_.at(expr.symbol()).local);
      if (type == ValueType::kI64) scopes_[level].code.op(Op::kI64ExtendI32);
      return;
    case Kind::kAdd:
      return add_up(expr, type, level);
    case Kind::kMul:
      return multiply(expr, type, level);
    default:
      return compute_exactly(expr, type, level);
  }
}

// Adds the terms that an outer scope knows in that scope, once.
void Function::add_up(const Expr& sum, ValueType type, size_t level) {
  std::vector<Expr> here, outside;
  for (const Expr& term : sum.operands()) (level_of(term) < level ? outside : here).push_back(term);
  if (!outside.empty() && !here.empty()) {
    const Expr part = symbolic::sum(outside);
    here.insert(here.begin(), part);
  } else if (here.empty()) {
    here = outside;
  }
  push(here[0], type, level);
  for (size_t i = 1; i < here.size(); ++i) {
    push(here[i], type, level);
    scopes_[level].code.op(either(type, Op::kI32Add, Op::kI64Add));
  }
}

void Function::multiply(const Expr& product, ValueType type, size_t level) {
  bool is_first = true;
  for (const Expr& factor : product.operands()) {
    const bool shifts = !is_first && is_power_of_two(factor);
    push(shifts ? Expr(log2_of(factor)) : factor, type, level);
    if (shifts) scopes_[level].code.op(either(type, Op::kI32Shl, Op::kI64Shl));
    if (!is_first && !shifts) scopes_[level].code.op(either(type, Op::kI32Mul, Op::kI64Mul));
    is_first = false;
  }
}

// Sums and products are right modulo 2^32. Everything else needs the numbers themselves.
void Function::compute_exactly(const Expr& expr, ValueType type, size_t level) {
  const ValueType inner = fits_32_bits(expr.operands()) ? ValueType::kI32 : ValueType::kI64;
  const bool compares = expr.kind() >= Kind::kEq;
  const bool chooses = expr.kind() == Kind::kMin || expr.kind() == Kind::kMax;
  compares ? compare(expr, inner, level) : chooses ? choose(expr, inner, level) : divide(expr, inner, level);
  const ValueType made = compares ? ValueType::kI32 : inner;
  Code& code = scopes_[level].code;
  if (type == ValueType::kI64 && made == ValueType::kI32) code.op(Op::kI64ExtendI32);
  if (type == ValueType::kI32 && made == ValueType::kI64) code.op(Op::kI32WrapI64);
}

void Function::divide(const Expr& expr, ValueType type, size_t level) {
  const bool is_rest = expr.kind() == Kind::kMod;
  const Expr &dividend = expr.operands()[0], &divisor = expr.operands()[1];
  push(dividend, type, level);
  if (is_power_of_two(divisor)) {
    push(is_rest ? divisor - 1 : Expr(log2_of(divisor)), type, level);
    const Op op = is_rest ? either(type, Op::kI32And, Op::kI64And) : either(type, Op::kI32ShrS, Op::kI64ShrS);
    return scopes_[level].code.op(op);
  }
  // An expression may be computed before a guard says that it is needed: its divisor may be 0. The functions
  // kFloorDiv and kFloorMod allow that; instructions would trap.
  if (divisor.is_constant() && divisor.constant() > 0 && bounds(dividend, *ranges_).low >= 0) {
    push(divisor, type, level);
    const Op op = is_rest ? either(type, Op::kI32RemS, Op::kI64RemS) : either(type, Op::kI32DivS, Op::kI64DivS);
    return scopes_[level].code.op(op);
  }
  if (type == ValueType::kI32) scopes_[level].code.op(Op::kI64ExtendI32);
  push(divisor, ValueType::kI64, level);
  const Signature signature{{ValueType::kI64, ValueType::kI64}, {ValueType::kI64}};
  scopes_[level].code.op(Op::kCall, module_.import(is_rest ? kFloorMod : kFloorDiv, signature));
  if (type == ValueType::kI32) scopes_[level].code.op(Op::kI32WrapI64);
}

void Function::choose(const Expr& expr, ValueType type, size_t level) {
  const bool is_min = expr.kind() == Kind::kMin;
  const Op op = is_min ? either(type, Op::kI32LtS, Op::kI64LtS) : either(type, Op::kI32GtS, Op::kI64GtS);
  uint32_t best = local_of(expr.operands()[0], type, level);
  for (size_t i = 1; i < expr.operands().size(); ++i) {
    const uint32_t other = local_of(expr.operands()[i], type, level);
    Code& code = scopes_[level].code;
    for (int times = 0; times < 2; ++times) code.op(Op::kGet, best), code.op(Op::kGet, other);
    code.op(op);
    code.op(Op::kSelect);
    if (i + 1 == expr.operands().size()) return;
    best = temporary(type, level);
    scopes_[level].code.op(Op::kSet, best);
  }
}

void Function::compare(const Expr& expr, ValueType type, size_t level) {
  for (const Expr& operand : expr.operands()) push(operand, type, level);
  const auto op = [&] {
    switch (expr.kind()) {
      case Kind::kEq:
        return either(type, Op::kI32Eq, Op::kI64Eq);
      case Kind::kNe:
        return either(type, Op::kI32Ne, Op::kI64Ne);
      case Kind::kLt:
        return either(type, Op::kI32LtS, Op::kI64LtS);
      default:
        return either(type, Op::kI32LeS, Op::kI64LeS);
    }
  };
  scopes_[level].code.op(op());
}

}  // namespace tenon::wasm
