// A function under construction: its locals, its scopes, and index expressions in it.
//
// A scope is the body of a loop or of a condition. What it needs and does not change is computed before it: an
// expression is computed once, in the outermost scope that knows all of its symbols, so that inner loops only add.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "backends/wasm/code.h"
#include "symbolic/expr.h"

namespace tenon::wasm {

using symbolic::Expr;
using symbolic::Symbol;

// Something that a kernel loaded. Valid until that memory is written.
struct LoadKey {
  enum Kind : uint8_t { kPlain, kRepeated };  // different elements, or one in all lanes

  int64_t memory;
  Expr position;
  int64_t lanes;
  Kind kind = kPlain;
  auto operator<=>(const LoadKey&) const = default;
};

class Function {
 public:
  Function(WasmModule& module, std::vector<ValueType> parameters) : module_(module), locals_(std::move(parameters)) {
    parameters_ = locals_.size();
    scopes_.emplace_back();
  }

  WasmModule& module() { return module_; }
  Code& code() { return scopes_.back().code; }
  std::vector<ValueType> locals() const {
    return {locals_.begin() + static_cast<ptrdiff_t>(parameters_), locals_.end()};
  }

  uint32_t add_local(ValueType type);                                      // for the whole function
  uint32_t temporary(ValueType type) { return temporary(type, level()); }  // until the innermost scope ends
  uint32_t set_temporary(ValueType type);                                  // takes the value from the stack

  // ---- scopes ----
  void open() { scopes_.emplace_back(); }
  Code close();

  // ---- symbols: counters, sizes and addresses, all of them never negative ----
  void define(Symbol symbol, uint32_t local);  // an i32; known in the innermost scope from here on
  // The ranges of symbols. They must outlive their use.
  void set_ranges(const symbolic::Ranges& ranges) { ranges_ = &ranges; }

  // ---- expressions ----
  void push(const Expr& expr, ValueType type);  // kI64: the value; kI32: modulo 2^32

  uint32_t constant(ValueType type, const Code& code);  // what the code pushes, computed once

  // ---- loads ----
  std::optional<uint32_t> find_load(const LoadKey& key) const;
  void keep_load(const LoadKey& key, uint32_t local) { scopes_.back().loads[key] = local; }
  void forget_loads(int64_t memory);

 private:
  struct Scope {
    Code code = {};
    std::map<std::pair<ValueType, Expr>, uint32_t> values = {};
    std::map<LoadKey, uint32_t> loads = {};
    std::vector<uint32_t> owned = {};   // temporaries in use
    std::vector<uint32_t> vacant = {};  // temporaries of scopes inside of this one that ended
  };

  struct Definition {
    uint32_t local;
    size_t level;
  };

  size_t level() const { return scopes_.size() - 1; }
  size_t level_of(const Expr& expr) const;
  uint32_t temporary(ValueType type, size_t level);
  bool fits_32_bits(std::span<const Expr> exprs) const;

  std::optional<uint32_t> find_value(const Expr& expr, ValueType type) const;
  uint32_t local_of(const Expr& expr, ValueType type, size_t level);
  void push(const Expr& expr, ValueType type, size_t level);
  void compute(const Expr& expr, ValueType type, size_t level);
  void add_up(const Expr& sum, ValueType type, size_t level);
  void multiply(const Expr& product, ValueType type, size_t level);
  void compute_exactly(const Expr& expr, ValueType type, size_t level);
  void divide(const Expr& expr, ValueType type, size_t level);
  void choose(const Expr& expr, ValueType type, size_t level);
  void compare(const Expr& expr, ValueType type, size_t level);

  WasmModule& module_;
  std::vector<ValueType> locals_;
  size_t parameters_;
  std::vector<Scope> scopes_;
  std::map<Symbol, Definition> definitions_;
  std::map<std::string, uint32_t> constants_;  // by their code
  const symbolic::Ranges* ranges_ = nullptr;
};

// The floor of a quotient and its remainder, which modules import: (i64, i64) -> i64. A divisor of 0 gives 0.
inline constexpr std::string_view kFloorDiv = "floordiv";
inline constexpr std::string_view kFloorMod = "floormod";

}  // namespace tenon::wasm
