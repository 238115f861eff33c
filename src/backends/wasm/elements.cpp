#include "backends/wasm/elements.h"

#include <algorithm>
#include <ranges>

namespace tenon::wasm {
namespace {

using Allocation = Compiler::Allocation;

constexpr int64_t kMostLocals = 64;  // of one array

// Of symbols that are never negative.
bool never_negative(const Expr& expr) {
  if (expr.is_constant()) return expr.constant() >= 0;
  return std::ranges::all_of(expr.operands(), never_negative);
}

// The constant among the terms.
Expr constant_term(const Expr& expr) {
  if (expr.is_constant()) return expr;
  const bool is_sum = expr.kind() == symbolic::Kind::kAdd;
  return is_sum && expr.operands().back().is_constant() ? expr.operands().back() : Expr(0);
}

bool has_whole_groups(const std::set<int64_t>& positions, int64_t lanes) {
  return std::ranges::all_of(positions, [&](int64_t position) {
    const auto in_group = [&](int64_t lane) { return positions.contains(position - position % lanes + lane); };
    return std::ranges::all_of(std::views::iota(int64_t{0}, lanes), in_group);
  });
}

}  // namespace

bool is_one_element(const Allocation& memory) { return memory.scratch && memory.size().is_constant(1); }

// ---- arrays in locals -----------------------------------------------------------------------------------------------

bool Elements::Usage::fits_locals() const {
  if (has_unknown_position || lanes.size() != 1 || positions.size() > kMostLocals) return false;
  const int64_t group = *lanes.begin();
  return std::ranges::all_of(positions, [&](int64_t position) { return position % group == 0; }) &&
         std::ranges::all_of(filled, [&](const auto& block) { return has_whole_groups(block, group); });
}

Elements::InLocals Elements::arrays_for_locals() const {
  InLocals found;
  for (const auto& [memory, usage] : usage_) {
    if (usage.fits_locals()) found.emplace(memory, *usage.lanes.begin());
  }
  return found;
}

bool Elements::needs_memory(const Allocation& memory) const {
  return memory.scratch && !is_one_element(memory) && !in_locals_.contains(memory.mem_idx);
}

Symbol Elements::pointer_of(const Allocation& memory) const {
  return Symbol(prefix_ + "at" + std::to_string(memory.mem_idx));
}

// The local of an element, or of the vector that starts with it. Nothing for what is in memory.
std::optional<uint32_t> Elements::local_of(const Allocation& memory, const Expr& position, int64_t lanes) {
  if (!memory.scratch) return {};
  if (needs_memory(memory)) {
    Usage& usage = usage_[memory.mem_idx];
    usage.lanes.insert(lanes);
    position.is_constant() ? void(usage.positions.insert(position.constant()))
                           : void(usage.has_unknown_position = true);
    return {};
  }
  const int64_t at = is_one_element(memory) ? 0 : position.constant();
  const auto [found, is_new] = locals_.emplace(std::tuple(memory.mem_idx, at, lanes), 0);
  if (is_new) found->second = function_.add_local(type_of(memory.dtype, lanes));
  return found->second;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// Pushes an address; what is to be added to it is the result. An engine adds an offset without wrapping around, so what
// is below must not be negative.
uint32_t Elements::push_address(const Allocation& memory, const Expr& position) {
  const Expr bytes = position * size_of(memory.dtype), offset = constant_term(bytes);
  const bool is_offset = offset.constant() >= 0 && offset.constant() <= INT32_MAX && never_negative(bytes - offset);
  function_.push(pointer_of(memory) + (is_offset ? bytes - offset : bytes), ValueType::kI32);
  return is_offset ? static_cast<uint32_t>(offset.constant()) : 0;
}

// The value of an earlier load from the same place, or else the value that `load` pushes.
template <class Load>
WasmValue Elements::loaded(const Allocation& memory, const Expr& position, int64_t lanes, LoadKey::Kind kind,
                           Load load) {
  const LoadKey key{memory.mem_idx, position, lanes, kind};
  if (const auto before = function_.find_load(key)) return {memory.dtype, lanes, *before};
  load();
  const WasmValue value = arithmetic_.keep(memory.dtype, lanes);
  function_.keep_load(key, std::get<uint32_t>(value.is));
  return value;
}

WasmValue Elements::load(const Allocation& memory, const Expr& position) {
  if (const auto local = local_of(memory, position, 1)) return {memory.dtype, 1, *local};
  return loaded(memory, position, 1, LoadKey::kPlain, [&] {
    arithmetic_.load(memory.dtype, push_address(memory, position));
    if (memory.dtype == DType::kBool && !memory.scratch) code().i32(0), code().op(Op::kI32Ne);
  });
}

WasmValue Elements::load(const Allocation& memory, const Expr& position, const Expr& stride, int64_t lanes) {
  if (stride.is_constant(0)) return repeated(memory, position, lanes);
  if (!stride.is_constant(1)) return gathered(memory, position, stride, lanes);
  if (const auto local = local_of(memory, position, lanes)) return {memory.dtype, lanes, *local};
  return loaded(memory, position, lanes, LoadKey::kPlain,
                [&] { arithmetic_.load_vector(memory.dtype, push_address(memory, position)); });
}

// One element in all lanes.
WasmValue Elements::repeated(const Allocation& memory, const Expr& position, int64_t lanes) {
  const auto local = local_of(memory, position, 1);
  const bool has_instruction =
      memory.dtype == DType::kF32 || memory.dtype == DType::kI32 || memory.dtype == DType::kF64;
  if (local || !has_instruction) return arithmetic_.splat(load(memory, position), lanes);
  return loaded(memory, position, lanes, LoadKey::kRepeated, [&] {
    const Op op = size_of(memory.dtype) == 8 ? Op::kV128Load64Splat : Op::kV128Load32Splat;
    code().memory(op, push_address(memory, position));
  });
}

WasmValue Elements::gathered(const Allocation& memory, const Expr& position, const Expr& stride, int64_t lanes) {
  if (memory.scratch) keep_in_memory(memory);
  const bool is_wide = size_of(memory.dtype) == 8;
  uint32_t offset = push_address(memory, position);
  code().memory(is_wide ? Op::kV128Load64Zero : Op::kV128Load32Zero, offset);
  WasmValue value = arithmetic_.keep(memory.dtype, lanes);
  for (int64_t lane = 1; lane < lanes; ++lane) {
    offset = push_address(memory, position + lane * stride);
    arithmetic_.push(value);
    code().memory(is_wide ? Op::kV128Load64Lane : Op::kV128Load32Lane, offset, static_cast<uint32_t>(lane));
    value = arithmetic_.keep(memory.dtype, lanes);
  }
  return value;
}

void Elements::store(const Allocation& memory, const Expr& position, const WasmValue& number) {
  if (const auto local = local_of(memory, position, 1)) return arithmetic_.set(*local, number);
  const uint32_t offset = push_address(memory, position);
  arithmetic_.push(number);
  arithmetic_.store(memory.dtype, offset);
  function_.forget_loads(memory.mem_idx);
}

void Elements::store(const Allocation& memory, const Expr& position, const Expr& stride, const WasmValue& vector) {
  if (stride.is_constant(0)) return store(memory, position, arithmetic_.lane(vector, 0));
  if (!stride.is_constant(1)) {
    for (int64_t lane = 0; lane < vector.lanes; ++lane) {
      store(memory, position + lane * stride, arithmetic_.lane(vector, lane));
    }
    return;
  }
  if (const auto local = local_of(memory, position, vector.lanes)) return arithmetic_.set(*local, vector);
  arithmetic_.store_vector(vector, push_address(memory, position));
  function_.forget_loads(memory.mem_idx);
}

WasmValue Elements::load_lanes(const Allocation& memory, int64_t lanes) {
  return {memory.dtype, lanes, *local_of(memory, 0, lanes)};
}

void Elements::store_lanes(const Allocation& memory, const WasmValue& vector) {
  arithmetic_.set(*local_of(memory, 0, vector.lanes), vector);
}

// ---- starting a fold ------------------------------------------------------------------------------------------------

bool Elements::fill_locals(const Allocation& memory, const std::optional<std::set<int64_t>>& positions,
                           const WasmValue& number) {
  const auto in_locals = in_locals_.find(memory.mem_idx);
  if (in_locals == in_locals_.end()) {
    positions ? usage_[memory.mem_idx].filled.push_back(*positions) : keep_in_memory(memory);
    return false;
  }
  const int64_t lanes = in_locals->second;
  const WasmValue all = arithmetic_.splat(number, lanes);
  for (int64_t position : *positions) {
    if (position % lanes == 0) arithmetic_.set(*local_of(memory, position, lanes), all);
  }
  return true;
}

void Elements::clear(const Allocation& memory) {
  function_.push(pointer_of(memory), ValueType::kI32), code().i32(0);
  function_.push(memory.size() * size_of(memory.dtype), ValueType::kI32), code().op(Op::kMemoryFill, 0);
  function_.forget_loads(memory.mem_idx);
}

}  // namespace tenon::wasm
