#include "isa.h"

#include <sstream>

namespace atalla {

namespace {

bool is_power_of_two(uint32_t value) { return value != 0 && (value & (value - 1)) == 0; }

std::string tokens_text(uint8_t tokens) {
  std::string result;
  for (const bool signals : {false, true}) {
    std::string units;
    for (int unit = 0; unit < kUnits; ++unit) {
      const auto bit = signals ? signal(static_cast<Unit>(unit)) : wait(static_cast<Unit>(unit));
      if (tokens & bit) units.append(units.empty() ? "" : ",").append(name(static_cast<Unit>(unit)));
    }
    if (!units.empty()) result.append(signals ? " signal=" : " wait=").append(units);
  }
  return result;
}

// Writes "name=value" for each field.
class Fields {
 public:
  explicit Fields(const char* opcode) { out_ << opcode; }
  template <typename T>
  Fields& operator()(const char* field, T value) {
    out_ << ' ' << field << '=' << +value;
    return *this;
  }
  Fields& flag(const char* word, bool on) {
    if (on) out_ << ' ' << word;
    return *this;
  }
  std::string str() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

std::string text_of(const Load& c) {
  return Fields("load")("address", address_of(c))("run", c.run)("inner", c.inner)("outer", c.outer)(
             "inner_stride", c.inner_stride)("outer_stride", c.outer_stride)("line", c.line)(
             "inner_lines", c.inner_lines)("outer_lines", c.outer_lines)("pad", c.pad)
      .str();
}

std::string text_of(const Matmul& c) {
  return Fields("matmul")
      .flag("float", c.flags & Matmul::kFloat)
      .flag("accumulate", c.flags & Matmul::kAccumulate)
      .flag("keep_weights", c.flags & Matmul::kKeepWeights)
      .flag("transpose", c.flags & Matmul::kTranspose)("line", c.line)("inner", c.inner)("outer", c.outer)(
          "inner_lines", c.inner_lines)("outer_lines", c.outer_lines)("inner_first", c.inner_first)(
          "inner_last", c.inner_last)("outer_first", c.outer_first)("outer_last", c.outer_last)("pad", c.pad)(
          "weights", c.weights)("weight_lines", c.weight_lines)("accumulator", c.accumulator)
      .str();
}

std::string text_of(const Epilogue& c) {
  return Fields("epilogue")
      .flag("vectors", c.flags & Epilogue::kVectors)("line", c.line)("zero_point", c.zero_point)("low", c.low)(
          "high", c.high)("residual_scale", c.residual_scale)("residual_zero_point", c.residual_zero_point)
      .str();
}

std::string text_of(const Store& c) {
  static constexpr const char* kTypes[] = {"i8", "bf16", "f32", "i32"};
  return Fields("store")
      .flag(kTypes[c.flags & Store::kTypeMask], true)
      .flag("float", c.flags & Store::kFloat)
      .flag("bias", c.flags & Store::kBias)
      .flag("scale", c.flags & Store::kScale)
      .flag("clamp", c.flags & Store::kClamp)
      .flag("residual", c.flags & Store::kResidual)
      .flag("bf16_residual", c.flags & Store::kResidualBf16)("address", address_of(c))("columns", c.columns)(
          "inner", c.inner)("outer", c.outer)("inner_stride", c.inner_stride)("outer_stride", c.outer_stride)(
          "accumulator", c.accumulator)("residual_line", c.residual)
      .str();
}

}  // namespace

std::string invalid(const Machine& m) {
  const auto say = [](const char* what, uint32_t value, const char* rule) {
    return std::string(what) + " is " + std::to_string(value) + "; it must be " + rule;
  };
  if (!is_power_of_two(m.size) || m.size < 4 || m.size > 64) return say("size", m.size, "4, 8, 16, 32 or 64");
  if (!is_power_of_two(m.scratchpad_banks)) return say("scratchpad_banks", m.scratchpad_banks, "a power of two");
  if (!is_power_of_two(m.accumulator_banks)) return say("accumulator_banks", m.accumulator_banks, "a power of two");
  if (!is_power_of_two(m.scratchpad_lines) || m.scratchpad_lines > 65536 ||
      m.scratchpad_lines / m.scratchpad_banks < 2 * m.size)
    return say("scratchpad_lines", m.scratchpad_lines, "a power of two, up to 65536, at least 2 * size for each bank");
  if (!is_power_of_two(m.accumulator_rows) || m.accumulator_rows > 65536 ||
      m.accumulator_rows / m.accumulator_banks < m.size)
    return say("accumulator_rows", m.accumulator_rows, "a power of two, up to 65536, at least size for each bank");
  if (!is_power_of_two(m.queue_depth) || m.queue_depth < 4 || m.queue_depth > 256)
    return say("queue_depth", m.queue_depth, "a power of two from 4 to 256");
  if (!is_power_of_two(m.dma_bytes) || m.dma_bytes > 64)
    return say("dma_bytes", m.dma_bytes, "a power of two up to 64");
  if (m.dma_latency < 1 || m.dma_latency > 65536) return say("dma_latency", m.dma_latency, "from 1 to 65536");
  return {};
}

const char* name(Unit unit) {
  static constexpr const char* kNames[] = {"load", "compute", "store"};
  return kNames[static_cast<int>(unit)];
}

std::optional<Unit> unit_of(const Command& command) {
  switch (static_cast<Opcode>(command.opcode)) {
    case Opcode::kLoad:
      return Unit::kLoad;
    case Opcode::kMatmul:
      return Unit::kCompute;
    case Opcode::kEpilogue:
    case Opcode::kStore:
      return Unit::kStore;
  }
  return std::nullopt;
}

std::string text(const Command& command) {
  const std::string tokens = tokens_text(command.tokens);
  switch (static_cast<Opcode>(command.opcode)) {
    case Opcode::kLoad:
      return text_of(decode<Load>(command)) + tokens;
    case Opcode::kMatmul:
      return text_of(decode<Matmul>(command)) + tokens;
    case Opcode::kEpilogue:
      return text_of(decode<Epilogue>(command)) + tokens;
    case Opcode::kStore:
      return text_of(decode<Store>(command)) + tokens;
  }
  return "opcode " + std::to_string(command.opcode);
}

}  // namespace atalla
