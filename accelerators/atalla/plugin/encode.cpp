#include "plugin/encode.h"

#include <stdexcept>
#include <utility>

namespace atalla {

namespace {

// Fields are narrow. A value that does not fit is a mistake of the machine's description.
template <typename To, typename From>
To narrow(From value) {
  if (!std::in_range<To>(value))
    throw std::runtime_error("a tile action has the number " + std::to_string(value) + ", which no command holds");
  return static_cast<To>(value);
}

uint8_t tokens(const tenon_tile_action& action) { return static_cast<uint8_t>(action.wait | action.signal << 3); }

Command load(const tenon_tile_action& a) {
  Load c;
  c.tokens = tokens(a);
  c.run = narrow<uint16_t>(a.run);
  c.inner = narrow<uint16_t>(a.inner);
  c.outer = narrow<uint16_t>(a.outer);
  c.line = narrow<uint16_t>(a.line);
  c.inner_lines = narrow<int16_t>(a.inner_lines);
  c.outer_lines = narrow<int16_t>(a.outer_lines);
  if (a.flags & TENON_TILE_ZEROS) {
    if (a.run > 4096) throw std::runtime_error("a run of zeros is longer than the page of zeros");
    return encode(c);
  }
  c.inner_stride = narrow<int32_t>(a.inner_stride);
  c.outer_stride = narrow<int32_t>(a.outer_stride);
  set_address(c, static_cast<uint64_t>(a.offset));
  return encode(c);
}

Command matmul(const tenon_tile_action& a) {
  Matmul c;
  c.tokens = tokens(a);
  c.flags = static_cast<uint8_t>((a.flags & TENON_TILE_ACCUMULATE ? Matmul::kAccumulate : 0) |
                                 (a.flags & TENON_TILE_TRANSPOSE ? Matmul::kTranspose : 0) |
                                 (a.dtype == TENON_BF16 ? Matmul::kFloat : 0));
  c.line = narrow<uint16_t>(a.line);
  c.inner_lines = narrow<int16_t>(a.inner_lines);
  c.outer_lines = narrow<int16_t>(a.outer_lines);
  c.inner = narrow<uint16_t>(a.inner);
  c.outer = narrow<uint16_t>(a.outer);
  c.inner_first = narrow<uint16_t>(a.inner_first);
  c.inner_last = narrow<uint16_t>(a.inner_last);
  c.outer_first = narrow<uint16_t>(a.outer_first);
  c.outer_last = narrow<uint16_t>(a.outer_last);
  c.accumulator = narrow<uint16_t>(a.accumulator);
  c.weights = narrow<uint16_t>(a.weights);
  c.weight_lines = narrow<int16_t>(a.weight_lines);
  c.pad = static_cast<uint8_t>(narrow<int8_t>(a.pad));
  return encode(c);
}

Command epilogue(const tenon_tile_action& a) {
  Epilogue c;
  c.tokens = tokens(a);
  c.flags = a.epilogues != 0 ? Epilogue::kVectors : 0;
  c.line = narrow<uint16_t>(a.line);
  c.low = a.low;
  c.high = a.high;
  c.residual_scale = a.residual_scale;
  c.residual_zero_point = narrow<int8_t>(a.residual_zero_point);
  c.zero_point = narrow<int8_t>(a.zero_point);
  return encode(c);
}

Output output_of(uint32_t dtype) {
  switch (dtype) {
    case TENON_I8:
      return Output::kI8;
    case TENON_BF16:
      return Output::kBf16;
    case TENON_F32:
      return Output::kF32;
    case TENON_I32:
      return Output::kI32;
    default:
      throw std::runtime_error("a store writes dtype " + std::to_string(dtype) + ", which no command does");
  }
}

Command store(const tenon_tile_action& a) {
  Store c;
  c.tokens = tokens(a);
  const bool counts = (a.flags & TENON_TILE_INTEGERS) != 0;
  const uint8_t residual = counts ? Store::kResidual : Store::kResidual | Store::kResidualBf16;
  c.flags = static_cast<uint8_t>(
      static_cast<uint8_t>(output_of(a.dtype)) | (counts ? 0 : Store::kFloat) |
      (a.epilogues & TENON_TILE_BIAS ? Store::kBias : 0) | (a.epilogues & TENON_TILE_SCALE ? Store::kScale : 0) |
      (a.epilogues & TENON_TILE_RESIDUAL ? residual : 0) | (a.epilogues & TENON_TILE_CLAMP ? Store::kClamp : 0));
  set_address(c, static_cast<uint64_t>(a.offset));
  c.inner_stride = narrow<int32_t>(a.inner_stride);
  c.outer_stride = narrow<int32_t>(a.outer_stride);
  c.columns = narrow<uint16_t>(a.run);
  c.inner = narrow<uint16_t>(a.inner);
  c.outer = narrow<uint16_t>(a.outer);
  c.accumulator = narrow<uint16_t>(a.accumulator);
  c.residual = narrow<uint16_t>(a.line);
  return encode(c);
}

struct Header {
  std::array<char, 8> magic = {'a', 't', 'a', 'l', 'l', 'a', '1', 0};
  Machine machine;
  uint64_t count = 0;
};

}  // namespace

Relocatable encode(const tenon_tile_action& action) {
  switch (action.kind) {
    case TENON_TILE_LOAD:
      return {load(action), action.flags & TENON_TILE_ZEROS ? kZeros : action.buffer, action.node};
    case TENON_TILE_MULTIPLY:
      return {matmul(action), kNoBuffer, action.node};
    case TENON_TILE_EPILOGUE:
      return {epilogue(action), kNoBuffer, action.node};
    case TENON_TILE_STORE:
      return {store(action), action.buffer, action.node};
    default:
      throw std::runtime_error("there is no tile action " + std::to_string(action.kind));
  }
}

std::vector<uint8_t> to_bytes(std::span<const Relocatable> commands, const Machine& machine) {
  const Header header{.machine = machine, .count = commands.size()};
  std::vector<uint8_t> bytes(sizeof header + commands.size_bytes());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!commands.empty()) std::memcpy(bytes.data() + sizeof header, commands.data(), commands.size_bytes());
  return bytes;
}

std::vector<Relocatable> from_bytes(std::span<const uint8_t> bytes, const Machine& machine) {
  Header header;
  const std::array<char, 8> magic = header.magic;
  if (bytes.size() < sizeof header) throw std::runtime_error("the code is cut off");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) throw std::runtime_error("the code is not Atalla's");
  // Time is no part of the code: a machine with another memory or queue runs it.
  Machine like = header.machine;
  like.queue_depth = machine.queue_depth, like.dma_bytes = machine.dma_bytes, like.dma_latency = machine.dma_latency;
  if (!(like == machine))
    throw std::runtime_error("the code is for an array of " + std::to_string(header.machine.size) + " with " +
                             std::to_string(header.machine.scratchpad_lines) + " lines and " +
                             std::to_string(header.machine.accumulator_rows) +
                             " accumulator rows; open the device with the same options");
  if (header.count != (bytes.size() - sizeof header) / sizeof(Relocatable))
    throw std::runtime_error("the code is cut off");
  std::vector<Relocatable> commands(header.count);
  if (!commands.empty()) std::memcpy(commands.data(), bytes.data() + sizeof header, header.count * sizeof(Relocatable));
  return commands;
}

}  // namespace atalla
