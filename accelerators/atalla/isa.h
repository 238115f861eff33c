// Atalla's machine and its commands. README.md is the specification; this header is the same in C++.
//
// A command is 32 bytes, little-endian, and begins with opcode, tokens, flags and a byte of its own. The structs below
// are its layouts: they have no padding, so that memory holds the bytes of the command.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace atalla {

static_assert(std::endian::native == std::endian::little, "command structs are the bytes of commands");

// The parameters of a machine. `model` and `cycles` take any that invalid() accepts; the RTL is built with one set.
struct Machine {
  uint32_t size = 16;                 // N: rows and columns of the array, bytes of a line
  uint32_t scratchpad_lines = 16384;  // of N bytes
  uint32_t scratchpad_banks = 8;
  uint32_t accumulator_rows = 2048;  // of N 32-bit words
  uint32_t accumulator_banks = 4;
  uint32_t queue_depth = 16;  // commands that each unit's queue holds
  uint32_t dma_bytes = 16;    // that the memory moves in a cycle, each way
  uint32_t dma_latency = 32;  // cycles from a read request to its data

  bool operator==(const Machine&) const = default;
};

// Why the machine cannot be built; empty if it can.
std::string invalid(const Machine& machine);

enum class Unit : uint8_t { kLoad, kCompute, kStore };
inline constexpr int kUnits = 3;
const char* name(Unit unit);

enum class Opcode : uint8_t { kLoad = 1, kMatmul = 2, kEpilogue = 3, kStore = 4 };

// Bits of `tokens`: take a token of that unit before the command begins, give that unit a token when it is done.
constexpr uint8_t wait(Unit unit) { return static_cast<uint8_t>(1U << static_cast<int>(unit)); }
constexpr uint8_t signal(Unit unit) { return static_cast<uint8_t>(8U << static_cast<int>(unit)); }

struct Command {
  uint8_t opcode = 0;
  uint8_t tokens = 0;
  uint8_t flags = 0;
  uint8_t value = 0;
  std::array<uint8_t, 28> operands{};

  bool operator==(const Command&) const = default;
};

// Copies runs of bytes from memory into lines of the scratchpad. RunResult (i, j) begins at byte address + i *
// outer_stride + j * inner_stride and fills consecutive lines from line + i * outer_lines + j * inner_lines. `pad`
// fills its last line.
struct Load {
  uint8_t opcode = static_cast<uint8_t>(Opcode::kLoad);
  uint8_t tokens = 0;
  uint8_t flags = 0;
  uint8_t pad = 0;
  uint32_t address_low = 0;
  int32_t inner_stride = 0;
  int32_t outer_stride = 0;
  uint16_t address_high = 0;
  uint16_t run = 0;  // bytes
  uint16_t inner = 1;
  uint16_t outer = 1;
  uint16_t line = 0;
  int16_t inner_lines = 0;
  int16_t outer_lines = 0;
  uint16_t reserved = 0;
};

// Multiplies outer x inner rows of activations by a tile of N x N weights. Rows outside of the window (i in outer_first
// to outer_last - 1, j in inner_first to inner_last - 1) consist of `pad`; row (i, j) in it is read at line + (i -
// outer_first) * outer_lines + (j - inner_first) * inner_lines. The result of (i, j) goes to accumulator row
// accumulator
// + i * inner + j. Row r of the weights is read at weights + r * weight_lines; with kTranspose, that is column r.
struct Matmul {
  enum : uint8_t { kAccumulate = 1, kFloat = 2, kKeepWeights = 4, kTranspose = 8, kAllFlags = 15 };
  uint8_t opcode = static_cast<uint8_t>(Opcode::kMatmul);
  uint8_t tokens = 0;
  uint8_t flags = 0;
  uint8_t pad = 0;
  uint16_t line = 0;
  int16_t inner_lines = 0;
  int16_t outer_lines = 0;
  uint16_t inner = 1;
  uint16_t outer = 1;
  uint16_t inner_first = 0;
  uint16_t inner_last = 1;
  uint16_t outer_first = 0;
  uint16_t outer_last = 1;
  uint16_t accumulator = 0;
  uint16_t weights = 0;
  int16_t weight_lines = 1;
  uint32_t reserved = 0;
};

// Sets what later stores do to the values that they write. With kVectors, reads eight lines: N biases, then N scales.
struct Epilogue {
  enum : uint8_t { kVectors = 1, kAllFlags = 1 };
  uint8_t opcode = static_cast<uint8_t>(Opcode::kEpilogue);
  uint8_t tokens = 0;
  uint8_t flags = 0;
  int8_t zero_point = 0;
  uint16_t line = 0;
  int8_t residual_zero_point = 0;
  uint8_t reserved = 0;
  float low = 0;
  float high = 0;
  float residual_scale = 1;
  std::array<uint32_t, 3> reserved_words{};
};

enum class Output : uint8_t { kI8, kBf16, kF32, kI32 };
inline uint32_t bytes_of(Output type) { return type == Output::kI8 ? 1 : type == Output::kBf16 ? 2 : 4; }

// Writes `columns` values of accumulator row accumulator + i * inner + j to memory at address + i * outer_stride + j *
// inner_stride. The row's residual is at line residual + (i * inner + j) * (1 for int8, 2 for bf16).
struct Store {
  enum : uint8_t {
    kTypeMask = 3,  // an Output
    kFloat = 4,
    kBias = 8,
    kScale = 16,
    kResidual = 32,
    kResidualBf16 = 64,
    kClamp = 128
  };
  uint8_t opcode = static_cast<uint8_t>(Opcode::kStore);
  uint8_t tokens = 0;
  uint8_t flags = 0;
  uint8_t reserved = 0;
  uint32_t address_low = 0;
  int32_t inner_stride = 0;
  int32_t outer_stride = 0;
  uint16_t address_high = 0;
  uint16_t columns = 0;
  uint16_t inner = 1;
  uint16_t outer = 1;
  uint16_t accumulator = 0;
  uint16_t residual = 0;
  uint32_t reserved_word = 0;

  Output type() const { return static_cast<Output>(flags & kTypeMask); }
};

template <typename T>
concept Layout = std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(Command);
static_assert(Layout<Load> && Layout<Matmul> && Layout<Epilogue> && Layout<Store> && sizeof(Command) == 32);

template <Layout T>
Command encode(const T& command) {
  return std::bit_cast<Command>(command);
}
template <Layout T>
T decode(const Command& command) {
  return std::bit_cast<T>(command);
}

template <typename T>
uint64_t address_of(const T& command) {
  return static_cast<uint64_t>(command.address_high) << 32 | command.address_low;
}
template <typename T>
void set_address(T& command, uint64_t address) {
  command.address_low = static_cast<uint32_t>(address);
  command.address_high = static_cast<uint16_t>(address >> 32);
}

// The unit that runs the command; none for an unknown opcode.
std::optional<Unit> unit_of(const Command& command);

// "matmul line=0 ... wait=load signal=store": for people.
std::string text(const Command& command);

}  // namespace atalla
