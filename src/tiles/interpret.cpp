#include "tiles/interpret.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

#include "tiles/text.h"

namespace tenon {
namespace {

using Action = tenon_tile_action;

constexpr int kUnitCount = 3;

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t to_bf16(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  if (number != number) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int unit_of(const Action& a) { return a.kind == TENON_TILE_LOAD ? 0 : a.kind == TENON_TILE_MULTIPLY ? 1 : 2; }

// How many actions of each unit are known to be done.
using Knowledge = std::array<uint32_t, kUnitCount>;

// Who wrote and read a place last, by the number of the action in its unit.
struct PlaceUse {
  uint32_t written = 0;
  Knowledge read = {};
};

class TileInterpreter {
 public:
  TileInterpreter(const TileCode& code, const tenon_tile_machine& machine,
                  std::span<const std::span<std::byte>> buffers)
      : code_(code),
        machine_(machine),
        buffers_(buffers),
        scratch_(static_cast<size_t>(code.scratch_bytes)),
        lines_(size_t{machine.lines} * machine.line_bytes),
        accumulators_(size_t{machine.accumulator_rows} * machine.columns),
        vectors_(size_t{machine.columns} * 2),
        line_uses_(machine.lines),
        accumulator_uses_(machine.accumulator_rows) {}

  void run() {
    for (action_ = 0; action_ < code_.actions.size(); ++action_) {
      const Action& a = code_.actions[action_];
      unit_ = unit_of(a);
      take_tokens(a);
      if (a.kind == TENON_TILE_LOAD) load(a);
      if (a.kind == TENON_TILE_MULTIPLY) multiply(a);
      if (a.kind == TENON_TILE_EPILOGUE) set_epilogue(a);
      if (a.kind == TENON_TILE_STORE) store(a);
      for (int to = 0; to < kUnitCount; ++to) {
        if ((a.signal >> to & 1) != 0) tokens_[unit_][to].push_back(known_[unit_]);
      }
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(MessageFor<Args...> format, const Args&... args) const {
    fail("action {}, {}: {}", action_, to_string(code_.actions[action_]), fill_in(format, args...));
  }

  // ---- order ----

  void take_tokens(const Action& a) {
    for (int from = 0; from < kUnitCount; ++from) {
      if ((a.wait >> from & 1) == 0) continue;
      auto& queue = tokens_[from][unit_];
      if (queue.empty()) refuse("it waits for a token that no earlier action gives");
      for (int i = 0; i < kUnitCount; ++i) known_[unit_][i] = std::max(known_[unit_][i], queue.front()[i]);
      queue.pop_front();
    }
    known_[unit_][unit_] = ++counts_[unit_];
  }

  // `writer` is the only unit that writes such places.
  void touch(PlaceUse& use, int writer, bool writes, const char* what, int64_t place) {
    if (use.written > known_[unit_][writer]) refuse("{} {} was written, and no token says so", what, place);
    if (!writes) {
      use.read[unit_] = counts_[unit_];
      return;
    }
    for (int reader = 0; reader < kUnitCount; ++reader) {
      if (use.read[reader] > known_[unit_][reader]) refuse("{} {} may still be read", what, place);
    }
    use.written = counts_[unit_];
  }

  // ---- places ----

  std::byte* line(int64_t index, bool writes) {
    if (index < 0 || index >= machine_.lines) refuse("line {} is outside of {}", index, machine_.lines);
    touch(line_uses_[static_cast<size_t>(index)], 0, writes, "line", index);
    return lines_.data() + index * machine_.line_bytes;
  }

  // A row that takes several lines.
  const std::byte* row(int64_t first, int64_t bytes) {
    const int64_t count = ceil_div(bytes, machine_.line_bytes);
    for (int64_t i = 1; i < count; ++i) line(first + i, false);
    return line(first, false);
  }

  int32_t* accumulator(int64_t index, bool writes) {
    if (index >= machine_.accumulator_rows) refuse("accumulator row {} is outside", index);
    touch(accumulator_uses_[static_cast<size_t>(index)], 1, writes, "accumulator row", index);
    return accumulators_.data() + index * machine_.columns;
  }

  std::byte* memory(const Action& a, int64_t offset, int64_t bytes) {
    if (a.buffer != TENON_SCRATCH && a.buffer >= buffers_.size()) refuse("there is no buffer {}", a.buffer);
    const std::span<std::byte> all = a.buffer == TENON_SCRATCH ? std::span(scratch_) : buffers_[a.buffer];
    if (offset < 0 || bytes > std::ssize(all) - offset)
      refuse("bytes {} to {} are outside of a buffer of {}", offset, offset + bytes, all.size());
    return all.data() + offset;
  }

  template <class Body>
  static void repeat(const Action& a, Body body) {
    for (int64_t i = 0; i < a.outer; ++i) {
      for (int64_t j = 0; j < a.inner; ++j) body(i, j);
    }
  }

  // ---- actions ----

  void load(const Action& a) {
    repeat(a, [&](int64_t i, int64_t j) {
      const int64_t to = a.line + i * a.outer_lines + j * a.inner_lines;
      const int64_t from = a.offset + i * a.outer_stride + j * a.inner_stride;
      for (int64_t at = 0; at < a.run; at += machine_.line_bytes) {
        const int64_t bytes = std::min<int64_t>(machine_.line_bytes, a.run - at);
        std::byte* const place = line(to + at / machine_.line_bytes, true);
        std::memset(place, 0, machine_.line_bytes);
        if ((a.flags & TENON_TILE_ZEROS) == 0)
          std::memcpy(place, memory(a, from + at, bytes), static_cast<size_t>(bytes));
      }
    });
  }

  // A row of operands as numbers: bf16, or bytes, whose products and sums are exact in double.
  std::vector<double> numbers(int64_t first_line, int64_t count, bool bytes) {
    const std::byte* const from = row(first_line, count * (bytes ? 1 : 2));
    std::vector<double> result;
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits = 0;
      if (!bytes) std::memcpy(&bits, from + i * 2, sizeof bits);
      result.push_back(bytes ? static_cast<double>(static_cast<int8_t>(from[i])) : from_bf16(bits));
    }
    return result;
  }

  void multiply(const Action& a) {
    if (a.dtype != TENON_BF16 && a.dtype != TENON_I8) refuse("the interpreter multiplies bf16 and i8 only");
    const bool transposed = (a.flags & TENON_TILE_TRANSPOSE) != 0, bytes = a.dtype == TENON_I8;
    const int64_t k = machine_.rows, n = machine_.columns;
    std::vector<std::vector<double>> weights;
    for (int64_t r = 0; r < (transposed ? n : k); ++r)
      weights.push_back(numbers(a.weights + r * a.weight_lines, transposed ? k : n, bytes));
    const auto weight = [&](int64_t r, int64_t c) {
      return transposed ? weights[static_cast<size_t>(c)][static_cast<size_t>(r)]
                        : weights[static_cast<size_t>(r)][static_cast<size_t>(c)];
    };
    repeat(a, [&](int64_t i, int64_t j) {
      const bool is_inside = i >= a.outer_first && i < a.outer_last && j >= a.inner_first && j < a.inner_last;
      std::vector<double> x(static_cast<size_t>(k), a.pad);
      const int64_t at = a.line + (i - a.outer_first) * a.outer_lines + (j - a.inner_first) * a.inner_lines;
      if (is_inside) x = numbers(at, k, bytes);
      int32_t* const sums = accumulator(a.accumulator + i * a.inner + j, true);
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < k; ++r) {
          sum += x[static_cast<size_t>(r)] * weight(r, c);
          if (!bytes) sum = static_cast<float>(sum);
        }
        add_sum(sums[c], sum, bytes, (a.flags & TENON_TILE_ACCUMULATE) != 0);
      }
    });
  }

  static void add_sum(int32_t& to, double sum, bool bytes, bool accumulates) {
    if (bytes) {
      const auto before = static_cast<uint32_t>(accumulates ? to : 0);
      to = static_cast<int32_t>(before + static_cast<uint32_t>(static_cast<int64_t>(sum)));
    } else {
      to = std::bit_cast<int32_t>((accumulates ? std::bit_cast<float>(to) : 0.0F) + static_cast<float>(sum));
    }
  }

  void set_epilogue(const Action& a) {
    epilogue_ = a;
    if (a.epilogues == 0) return;
    const int64_t bytes = int64_t{machine_.columns} * 4, lines = ceil_div(bytes, machine_.line_bytes);
    std::memcpy(vectors_.data(), row(a.line, bytes), static_cast<size_t>(bytes));
    std::memcpy(vectors_.data() + machine_.columns, row(a.line + lines, bytes), static_cast<size_t>(bytes));
  }

  void store(const Action& a) {
    const bool counts = (a.flags & TENON_TILE_INTEGERS) != 0;
    const int64_t residual_lines = ceil_div(int64_t{machine_.columns} * (counts ? 1 : 2), machine_.line_bytes);
    const int64_t bytes = size_of(static_cast<DType>(a.dtype));
    if (a.run > machine_.columns) refuse("it stores {} columns of {}", a.run, machine_.columns);
    repeat(a, [&](int64_t i, int64_t j) {
      const int32_t* const sums = accumulator(a.accumulator + i * a.inner + j, false);
      std::vector<double> residual;
      if ((a.epilogues & TENON_TILE_RESIDUAL) != 0)
        residual = numbers(a.line + (i * a.inner + j) * residual_lines, machine_.columns, counts);
      std::byte* to = memory(a, a.offset + i * a.outer_stride + j * a.inner_stride, a.run * bytes);
      for (uint32_t column = 0; column < a.run; ++column, to += bytes) write(a, to, sums[column], column, residual);
    });
  }

  void write(const Action& a, std::byte* to, int32_t sum, uint32_t column, const std::vector<double>& residual) const {
    if (a.dtype == TENON_I32) return void(std::memcpy(to, &sum, sizeof sum));
    const float y = finished(a, sum, column, residual);
    if (a.dtype == TENON_F32) return void(std::memcpy(to, &y, sizeof y));
    if (a.dtype == TENON_BF16) {
      const uint16_t narrow = to_bf16(y);
      return void(std::memcpy(to, &narrow, sizeof narrow));
    }
    if (a.dtype != TENON_I8) refuse("the interpreter stores no such dtype");
    const double rounded = y != y ? 0 : std::nearbyint(y);
    *to = static_cast<std::byte>(static_cast<int8_t>(std::clamp(rounded + epilogue_.zero_point, -128.0, 127.0)));
  }

  float finished(const Action& a, int32_t sum, uint32_t column, const std::vector<double>& residual) const {
    const bool has_bias = (a.epilogues & TENON_TILE_BIAS) != 0;
    float y = std::bit_cast<float>(sum);
    if ((a.flags & TENON_TILE_INTEGERS) != 0) {
      const auto bias = has_bias ? std::bit_cast<uint32_t>(vectors_[column]) : 0U;
      y = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(sum) + bias));
    } else if (has_bias) {
      y += vectors_[column];
    }
    if ((a.epilogues & TENON_TILE_SCALE) != 0) y *= vectors_[machine_.columns + column];
    if (!residual.empty())
      y += static_cast<float>(residual[column] - epilogue_.residual_zero_point) * epilogue_.residual_scale;
    if ((a.epilogues & TENON_TILE_CLAMP) == 0) return y;
    return y < epilogue_.low ? epilogue_.low : y > epilogue_.high ? epilogue_.high : y;
  }

  const TileCode& code_;
  const tenon_tile_machine& machine_;
  std::span<const std::span<std::byte>> buffers_;
  std::vector<std::byte> scratch_, lines_;
  std::vector<int32_t> accumulators_;  // or the bits of floats
  std::vector<float> vectors_;         // or the bits of integers
  std::vector<PlaceUse> line_uses_, accumulator_uses_;
  Action epilogue_ = {};
  size_t action_ = 0;
  int unit_ = 0;
  Knowledge counts_ = {};
  std::array<Knowledge, kUnitCount> known_ = {};
  std::array<std::array<std::deque<Knowledge>, kUnitCount>, kUnitCount> tokens_;  // [from][to]
};

}  // namespace

Status interpret_tiles(const TileCode& code, const tenon_tile_machine& machine,
                       std::span<const std::span<std::byte>> buffers) {
  return attempt([&] { TileInterpreter(code, machine, buffers).run(); });
}

}  // namespace tenon
