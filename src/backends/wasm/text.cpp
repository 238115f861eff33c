// WebAssembly's text format, from the bytes of a module that code.h wrote.
#include <fmt/format.h>

#include <bit>

#include "backends/wasm/code.h"
#include "backends/wasm/wasm.h"
#include "support/diagnostic.h"

namespace tenon::wasm {
namespace {

constexpr uint8_t kHeaderBytes = 8;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool at_end() const { return at_ == bytes_.size(); }

  uint8_t byte() {
    check(at_ < bytes_.size(), "a WebAssembly module ends early");
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t part = byte();
      value |= uint64_t{part & 0x7fU} << shift;
      if (!(part & 0x80)) return value;
    }
  }

  int64_t signed_number() {
    int64_t value = 0;
    for (int shift = 0;;) {
      const uint8_t part = byte();
      value |= static_cast<int64_t>(uint64_t{part & 0x7fU} << shift);
      shift += 7;
      if (part & 0x80) continue;
      return (part & 0x40) && shift < 64 ? value | -(int64_t{1} << shift) : value;
    }
  }

  template <class Bits>
  Bits bits() {
    Bits value = 0;
    for (size_t i = 0; i < sizeof value; ++i) value |= Bits{byte()} << 8 * i;
    return value;
  }

  std::string_view sized() {
    const size_t size = number();
    check(size <= bytes_.size() - at_, "a WebAssembly module ends early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

std::string_view name_of(uint8_t type) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kI32:
      return "i32";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF32:
      return "f32";
    case ValueType::kF64:
      return "f64";
    case ValueType::kV128:
      return "v128";
  }
  check(false, "WebAssembly has no type {}", int{type});
  return "";
}

std::string real_text(double value) {
  if (value != value) return "nan";
  return value - value != 0 ? (value < 0 ? "-inf" : "inf") : fmt::format("{}", value);
}

class Printer {
 public:
  explicit Printer(std::string_view module) : module_(module.substr(kHeaderBytes)) {}

  std::string print() {
    line("(module");
    while (!module_.at_end()) {
      const uint8_t id = module_.byte();
      section(id, Reader(module_.sized()));
    }
    depth_ = 0;
    line(")");
    return std::move(text_);
  }

 private:
  void line(std::string_view content) { text_ += fmt::format("{:{}}{}\n", "", 2 * depth_, content); }

  void section(uint8_t id, Reader content) {
    depth_ = 1;
    const uint64_t count = content.number();
    for (uint64_t i = 0; i < count; ++i) {
      if (id == kTypes) types_.push_back(signature(content));
      if (id == kImports) import(content);
      if (id == kFunctions) functions_.push_back(types_.at(content.number()));
      if (id == kExports) export_(content);
      if (id == kBodies) function(i, Reader(content.sized()));
    }
  }

  static std::string signature(Reader& content) {
    content.byte();
    std::string text;
    for (const char* kind : {"param", "result"}) {
      const uint64_t count = content.number();
      if (count > 0) text += fmt::format(" ({}", kind);
      for (uint64_t i = 0; i < count; ++i) text += fmt::format(" {}", name_of(content.byte()));
      if (count > 0) text += ")";
    }
    return text;
  }

  void import(Reader& content) {
    const std::string_view from = content.sized(), name = content.sized();
    if (content.byte() != 0) {
      content.number();
      return line(fmt::format("(import \"{}\" \"{}\" (memory {}))", from, name, content.number()));
    }
    line(fmt::format("(import \"{}\" \"{}\" (func ${}{}))", from, name, name, types_.at(content.number())));
    names_.emplace_back(name);
  }

  void export_(Reader& content) {
    const std::string_view name = content.sized();
    content.byte();
    line(fmt::format("(export \"{}\" (func {}))", name, content.number()));
  }

  void function(uint64_t number, Reader body) {
    line(fmt::format("(func (;{};){}", names_.size() + number, functions_.at(number)));
    depth_ = 2;
    const uint64_t runs = body.number();
    for (uint64_t i = 0; i < runs; ++i) {
      const uint64_t count = body.number();
      const std::string_view type = name_of(body.byte());
      std::string locals;
      for (uint64_t each = 0; each < count; ++each) locals += fmt::format(" {}", type);
      line(fmt::format("(local{})", locals));
    }
    while (!body.at_end()) instruction(body);
    depth_ = 1;
  }

  void instruction(Reader& body) {
    uint32_t code = body.byte();
    if (code == 0xfc) code = 0xfc00 + static_cast<uint32_t>(body.number());
    if (code == 0xfd) code = 0xfd000 + static_cast<uint32_t>(body.number());
    const OpText* const op = find_text(code);
    check(op != nullptr, "no kernel has the instruction {}", code);
    if (op->op == Op::kEnd && body.at_end()) {
      depth_ = 1;
      return line(")");
    }
    if (op->op == Op::kEnd || op->op == Op::kElse) --depth_;
    line(std::string(op->name) + immediates(op->immediates, body));
    if (op->immediates == Immediates::kBlockType || op->op == Op::kElse) ++depth_;
  }

  std::string immediates(Immediates kind, Reader& body) {
    switch (kind) {
      case Immediates::kNone:
        return "";
      case Immediates::kBlockType:
        return body.byte(), "";
      case Immediates::kIndex:
        return fmt::format(" {}", body.number());
      case Immediates::kLane:
        return fmt::format(" {}", body.byte());
      case Immediates::kFunction: {
        const uint64_t index = body.number();
        return index < names_.size() ? fmt::format(" ${}", names_[index]) : fmt::format(" {}", index);
      }
      case Immediates::kMemory:
      case Immediates::kMemoryLane: {
        const uint64_t align = body.number(), offset = body.number();
        const std::string lane = kind == Immediates::kMemoryLane ? fmt::format(" {}", body.byte()) : "";
        return fmt::format("{} align={}{}", offset == 0 ? "" : fmt::format(" offset={}", offset), 1 << align, lane);
      }
      case Immediates::kInteger:
        return fmt::format(" {}", body.signed_number());
      case Immediates::kFloat:
        return " " + real_text(std::bit_cast<float>(body.bits<uint32_t>()));
      case Immediates::kDouble:
        return " " + real_text(std::bit_cast<double>(body.bits<uint64_t>()));
    }
    return "";
  }

  Reader module_;
  std::vector<std::string> types_;
  std::vector<std::string> functions_;  // their types
  std::vector<std::string> names_;      // of imported functions
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(std::string_view module) { return Printer(module).print(); }

}  // namespace tenon::wasm
