// WebAssembly as bytes: instructions, and the module around a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::wasm {

enum class ValueType : uint8_t { kI32 = 0x7f, kI64 = 0x7e, kF32 = 0x7d, kF64 = 0x7c, kV128 = 0x7b };

// The operands that stand behind an instruction's code.
enum class Immediates : uint8_t {
  kNone,
  kBlockType,
  kIndex,     // of a local, or of a block around
  kFunction,  // its index
  kMemory,    // alignment and offset
  kMemoryLane,
  kLane,
  kInteger,
  kFloat,
  kDouble,
};

enum class Op : uint32_t {
#define INSTRUCTION(id, code, text, immediates) id = code,
#include "backends/wasm/instructions.inc"
};

struct OpText {
  Op op;
  std::string_view name;
  Immediates immediates;
};
const OpText* find_text(uint32_t code);  // null for an instruction that is not in instructions.inc

// A sequence of instructions.
class Code {
 public:
  void op(Op op);
  void op(Op op, uint32_t index);  // of a local, a block, a function or a lane
  void memory(Op op, uint32_t offset);
  void memory(Op op, uint32_t offset, uint32_t lane);
  void open(Op op);  // block, loop, if: of no result
  void i32(int32_t value);
  void i64(int64_t value);
  void f32(float value);
  void f64(double value);
  void append(const Code& code) { bytes_ += code.bytes_; }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Sections of a module by their ids.
enum Section : uint8_t { kTypes = 1, kImports = 2, kFunctions = 3, kExports = 7, kBodies = 10 };

struct Signature {
  std::vector<ValueType> parameters;
  std::vector<ValueType> results;
  bool operator==(const Signature&) const = default;
};

// One module. It imports the memory and functions of "env", and exports one function.
class WasmModule {
 public:
  WasmModule() = default;
  // With the imports of another, which were found by writing the same function.
  explicit WasmModule(const WasmModule& draft) : types_(draft.types_), imports_(draft.imports_) {}

  // The index of an imported function; the same for the same name.
  uint32_t import(std::string_view name, const Signature& signature);
  // A function of the module, for call(). `locals` come behind its parameters. All imports come before it.
  uint32_t add(const Signature& signature, const std::vector<ValueType>& locals, const Code& body);
  std::string bytes(uint32_t exported, std::string_view name) const;

 private:
  struct Import {
    std::string name;
    uint32_t type;
  };
  uint32_t type_of(const Signature& signature);

  std::vector<Signature> types_;
  std::vector<Import> imports_;
  std::vector<uint32_t> functions_;  // types
  std::vector<std::string> bodies_;
};

}  // namespace tenon::wasm
