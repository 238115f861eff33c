#include "backends/wasm/code.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace tenon::wasm {
namespace {

constexpr uint32_t kPrefixed = 0xfc00;  // Codes from here on have the prefix 0xfc,
constexpr uint32_t kVectors = 0xfd000;  // and from here on 0xfd.
constexpr uint8_t kNoResult = 0x40;     // The type of a block.
constexpr uint32_t kSmallestAlign = 0;  // Buffers of kernels need not be aligned.

void add_byte(std::string& bytes, uint32_t byte) { bytes += static_cast<char>(byte); }

void add_unsigned(std::string& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) add_byte(bytes, (value & 0x7f) | 0x80);
  add_byte(bytes, static_cast<uint32_t>(value));
}

void add_signed(std::string& bytes, int64_t value) {
  for (; value < -0x40 || value >= 0x40; value >>= 7) add_byte(bytes, (value & 0x7f) | 0x80);
  add_byte(bytes, value & 0x7f);
}

template <class Bits>
void add_bits(std::string& bytes, Bits bits) {
  for (size_t i = 0; i < sizeof bits; ++i) add_byte(bytes, (bits >> 8 * i) & 0xff);
}

void add_text(std::string& bytes, std::string_view text) {
  add_unsigned(bytes, text.size());
  bytes += text;
}

void add_types(std::string& bytes, const std::vector<ValueType>& types) {
  add_unsigned(bytes, types.size());
  for (ValueType type : types) add_byte(bytes, static_cast<uint8_t>(type));
}

std::string section(Section id, size_t count, std::string_view entries) {
  std::string content;
  add_unsigned(content, count);
  content += entries;
  std::string bytes(1, static_cast<char>(id));
  add_text(bytes, content);
  return bytes;
}

// Runs of locals of one type.
std::string declarations(const std::vector<ValueType>& locals) {
  std::string runs;
  size_t count = 0;
  for (auto begin = locals.begin(); begin != locals.end(); ++count) {
    const auto end = std::find_if(begin, locals.end(), [&](ValueType type) { return type != *begin; });
    add_unsigned(runs, static_cast<uint64_t>(end - begin));
    add_byte(runs, static_cast<uint8_t>(*begin));
    begin = end;
  }
  std::string bytes;
  add_unsigned(bytes, count);
  return bytes + runs;
}

}  // namespace

const OpText* find_text(uint32_t code) {
  static const std::unordered_map<uint32_t, OpText> texts = {
#define INSTRUCTION(id, code, text, immediates) {code, {Op::id, text, Immediates::immediates}},
#include "backends/wasm/instructions.inc"
  };
  const auto found = texts.find(code);
  return found == texts.end() ? nullptr : &found->second;
}

// ---- code -----------------------------------------------------------------------------------------------------------

void Code::op(Op op) {
  const auto code = static_cast<uint32_t>(op);
  if (code < kPrefixed) return add_byte(bytes_, code);
  const bool is_vector = code >= kVectors;
  add_byte(bytes_, is_vector ? 0xfd : 0xfc);
  add_unsigned(bytes_, is_vector ? code - kVectors : code - kPrefixed);
}

void Code::op(Op op, uint32_t index) {
  this->op(op);
  add_unsigned(bytes_, index);
}

void Code::memory(Op op, uint32_t offset) {
  this->op(op, kSmallestAlign);
  add_unsigned(bytes_, offset);
}

void Code::memory(Op op, uint32_t offset, uint32_t lane) {
  memory(op, offset);
  add_byte(bytes_, lane);
}

void Code::open(Op op) {
  this->op(op);
  add_byte(bytes_, kNoResult);
}

void Code::i32(int32_t value) {
  op(Op::kI32Const);
  add_signed(bytes_, value);
}

void Code::i64(int64_t value) {
  op(Op::kI64Const);
  add_signed(bytes_, value);
}

void Code::f32(float value) {
  op(Op::kF32Const);
  add_bits(bytes_, std::bit_cast<uint32_t>(value));
}

void Code::f64(double value) {
  op(Op::kF64Const);
  add_bits(bytes_, std::bit_cast<uint64_t>(value));
}

// ---- modules --------------------------------------------------------------------------------------------------------

uint32_t WasmModule::type_of(const Signature& signature) {
  const auto found = std::ranges::find(types_, signature);
  if (found != types_.end()) return static_cast<uint32_t>(found - types_.begin());
  types_.push_back(signature);
  return static_cast<uint32_t>(types_.size() - 1);
}

uint32_t WasmModule::import(std::string_view name, const Signature& signature) {
  const auto found = std::ranges::find(imports_, name, &Import::name);
  if (found != imports_.end()) return static_cast<uint32_t>(found - imports_.begin());
  imports_.push_back({std::string(name), type_of(signature)});
  return static_cast<uint32_t>(imports_.size() - 1);
}

uint32_t WasmModule::add(const Signature& signature, const std::vector<ValueType>& locals, const Code& body) {
  functions_.push_back(type_of(signature));
  std::string bytes = declarations(locals) + body.bytes();
  add_byte(bytes, static_cast<uint32_t>(Op::kEnd));
  std::string& sized = bodies_.emplace_back();
  add_text(sized, bytes);
  return static_cast<uint32_t>(imports_.size() + functions_.size() - 1);
}

std::string WasmModule::bytes(uint32_t exported, std::string_view name) const {
  constexpr uint8_t kFunction = 0, kMemory = 2, kFunctionType = 0x60;
  std::string types, imports, functions, exports, bodies;
  for (const auto& [parameters, results] : types_) {
    add_byte(types, kFunctionType);
    add_types(types, parameters);
    add_types(types, results);
  }
  add_text(imports, "env");
  add_text(imports, "memory");
  add_byte(imports, kMemory);
  add_unsigned(imports, 0);  // no upper bound,
  add_unsigned(imports, 1);  // and at least one page
  for (const Import& import : imports_) {
    add_text(imports, "env");
    add_text(imports, import.name);
    add_byte(imports, kFunction);
    add_unsigned(imports, import.type);
  }
  for (uint32_t type : functions_) add_unsigned(functions, type);
  add_text(exports, name);
  add_byte(exports, kFunction);
  add_unsigned(exports, exported);
  for (const std::string& body : bodies_) bodies += body;
  return std::string("\0asm\1\0\0\0", 8) + section(kTypes, types_.size(), types) +
         section(kImports, imports_.size() + 1, imports) + section(kFunctions, functions_.size(), functions) +
         section(kExports, 1, exports) + section(kBodies, bodies_.size(), bodies);
}

}  // namespace tenon::wasm
