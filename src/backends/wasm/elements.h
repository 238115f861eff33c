// The elements of a kernel's arrays: in memory, or in locals. Scratch arrays of one element are locals, and so are
// small ones whose positions are all known. Which ones, a draft of the function finds out.
#pragma once

#include <set>

#include "backends/wasm/arithmetic.h"
#include "loops/compiler.h"

namespace tenon::wasm {

using loops::Compiler;

bool is_one_element(const Compiler::Allocation& memory);

class Elements {
 public:
  // Arrays that are locals, by the number of their memory, with the lanes of their vectors.
  using InLocals = std::map<int64_t, int64_t>;

  // `prefix`: no symbol of the kernel starts with it.
  Elements(Function& function, Arithmetic& arithmetic, std::string prefix, InLocals in_locals)
      : function_(function), arithmetic_(arithmetic), prefix_(std::move(prefix)), in_locals_(std::move(in_locals)) {}

  InLocals arrays_for_locals() const;  // what the draft found

  bool needs_memory(const Compiler::Allocation& memory) const;
  Symbol pointer_of(const Compiler::Allocation& memory) const;  // emit.cpp defines it

  // ---- numbers ----
  WasmValue load(const Compiler::Allocation& memory, const Expr& position);
  void store(const Compiler::Allocation& memory, const Expr& position, const WasmValue& number);

  // ---- vectors, whose lanes are `stride` apart ----
  WasmValue load(const Compiler::Allocation& memory, const Expr& position, const Expr& stride, int64_t lanes);
  void store(const Compiler::Allocation& memory, const Expr& position, const Expr& stride, const WasmValue& vector);
  // A vector variable in the body of a loop: the array has one element there.
  WasmValue load_lanes(const Compiler::Allocation& memory, int64_t lanes);
  void store_lanes(const Compiler::Allocation& memory, const WasmValue& vector);

  // ---- starting a fold ----
  // Fills the positions with a number, if the array is in locals; else remembers them, and false. Without positions,
  // they are not known.
  bool fill_locals(const Compiler::Allocation& memory, const std::optional<std::set<int64_t>>& positions,
                   const WasmValue& number);
  void keep_in_memory(const Compiler::Allocation& memory) { usage_[memory.mem_idx].has_unknown_position = true; }
  void clear(const Compiler::Allocation& memory);  // all of an array in memory

 private:
  // How the elements of a scratch array are used. It can be locals if every position is known, and all are used alone
  // or all in the same groups of lanes.
  struct Usage {
    bool has_unknown_position = false;
    std::set<int64_t> lanes = {};                // of groups
    std::set<int64_t> positions = {};            // where groups start
    std::vector<std::set<int64_t>> filled = {};  // by the start of an accumulator
    bool fits_locals() const;
  };

  Code& code() { return function_.code(); }
  std::optional<uint32_t> local_of(const Compiler::Allocation& memory, const Expr& position, int64_t lanes);
  uint32_t push_address(const Compiler::Allocation& memory, const Expr& position);
  template <class Load>
  WasmValue loaded(const Compiler::Allocation& memory, const Expr& position, int64_t lanes, LoadKey::Kind kind,
                   Load load);
  WasmValue repeated(const Compiler::Allocation& memory, const Expr& position, int64_t lanes);
  WasmValue gathered(const Compiler::Allocation& memory, const Expr& position, const Expr& stride, int64_t lanes);

  Function& function_;
  Arithmetic& arithmetic_;
  std::string prefix_;
  InLocals in_locals_;
  std::map<int64_t, Usage> usage_;                                    // by memory
  std::map<std::tuple<int64_t, int64_t, int64_t>, uint32_t> locals_;  // by memory, position and lanes
};

}  // namespace tenon::wasm
