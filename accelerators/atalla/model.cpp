#include "model.h"

#include <algorithm>

#include "numerics.h"

namespace atalla {

namespace {

// One binary for every x86-64: the loader takes the widest vectors that the CPU has.
#if defined(__x86_64__) && defined(__linux__) && !defined(ATALLA_NO_CLONES)
#define ATALLA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ATALLA_CLONES
#endif
#define ATALLA_INLINE __attribute__((always_inline)) inline

uint16_t half(const uint8_t* bytes, uint32_t index) {
  uint16_t value = 0;
  std::memcpy(&value, bytes + 2 * index, 2);
  return value;
}

// One row through the array: the sum over k of row[k] * weights[k][n], and onto the accumulators if `accumulate`.
template <uint32_t kSize>
ATALLA_INLINE void integer_row(const uint8_t* row, const int16_t* weights, int32_t* accumulators, bool accumulate) {
  int32_t sums[kSize];
  for (uint32_t n = 0; n < kSize; ++n) sums[n] = accumulate ? accumulators[n] : 0;
  for (uint32_t k = 0; k < kSize; k += 2) {
    const auto a = static_cast<int16_t>(static_cast<int8_t>(row[k]));
    const auto b = static_cast<int16_t>(static_cast<int8_t>(row[k + 1]));
    for (uint32_t n = 0; n < kSize; ++n)  // the two products together: one instruction
      sums[n] = wrapping_add(sums[n], int32_t{a} * weights[k * kSize + n] + int32_t{b} * weights[(k + 1) * kSize + n]);
  }
  std::copy_n(sums, kSize, accumulators);
}

// Likewise for bf16. Products are exact; sums go from k = 0 to N - 1, each rounded, and then onto the accumulator.
template <uint32_t kSize>
ATALLA_INLINE void float_row(const uint8_t* row, const float* weights, int32_t* accumulators, bool accumulate) {
  float sums[kSize] = {};
  for (uint32_t k = 0; k < kSize; ++k) {
    const float a = from_bf16(half(row, k));
    for (uint32_t n = 0; n < kSize; ++n) sums[n] = flush(sums[n] + flush(a * weights[k * kSize + n]));
  }
  for (uint32_t n = 0; n < kSize; ++n) {
    const float old = accumulate ? flush(std::bit_cast<float>(accumulators[n])) : 0.0F;
    accumulators[n] = static_cast<int32_t>(canonical(flush(old + sums[n])));
  }
}

// Rows of one command that are `step` bytes apart, in consecutive accumulator rows.
struct Rows {
  const uint8_t* first;
  int64_t step;
  uint32_t count;
  int32_t* accumulators;
  bool accumulate;
  bool is_float;
};

template <uint32_t kSize>
ATALLA_INLINE void multiply_rows(const Rows& rows, const int16_t* weights, const float* float_weights) {
  for (uint32_t i = 0; i < rows.count; ++i) {
    const uint8_t* row = rows.first + i * rows.step;
    int32_t* accumulators = rows.accumulators + size_t{i} * kSize;
    if (rows.is_float) {
      float_row<kSize>(row, float_weights, accumulators, rows.accumulate);
    } else {
      integer_row<kSize>(row, weights, accumulators, rows.accumulate);
    }
  }
}

ATALLA_CLONES void multiply(uint32_t size, const Rows& rows, const int16_t* weights, const float* float_weights) {
  switch (size) {
    case 4:
      return multiply_rows<4>(rows, weights, float_weights);
    case 8:
      return multiply_rows<8>(rows, weights, float_weights);
    case 16:
      return multiply_rows<16>(rows, weights, float_weights);
    case 32:
      return multiply_rows<32>(rows, weights, float_weights);
    default:
      return multiply_rows<64>(rows, weights, float_weights);
  }
}

}  // namespace

Model::Model(const Machine& machine, std::span<uint8_t> memory)
    : machine_(machine),
      memory_(memory),
      scratchpad_(size_t{machine.scratchpad_lines} * machine.size),
      accumulators_(size_t{machine.accumulator_rows} * machine.size),
      weights_(size_t{machine.size} * machine.size),
      float_weights_(weights_.size()),
      bias_(machine.size),
      scale_(machine.size) {}

void Model::reset() {
  epilogue_ = {.residual_scale = 0};
  std::ranges::fill(bias_, 0);
  std::ranges::fill(scale_, 0.0F);
}

void Model::execute(uint32_t index, const Command& command, Recorder& recorder) {
  index_ = index;
  recorder_ = recorder.on() ? &recorder : nullptr;
  switch (static_cast<Opcode>(command.opcode)) {
    case Opcode::kLoad:
      return load(decode<Load>(command));
    case Opcode::kMatmul:
      return matmul(decode<Matmul>(command));
    case Opcode::kEpilogue:
      return epilogue(decode<Epilogue>(command));
    case Opcode::kStore:
      return store(decode<Store>(command));
  }
}

void Model::load(const Load& c) {
  const uint32_t size = machine_.size;
  for (int64_t i = 0; i < c.outer; ++i)
    for (int64_t j = 0; j < c.inner; ++j) {
      const int64_t line = c.line + i * c.outer_lines + j * c.inner_lines;
      const int64_t from = static_cast<int64_t>(address_of(c)) + i * c.outer_stride + j * c.inner_stride;
      uint8_t* to = scratchpad_.data() + line * size;
      std::memcpy(to, memory_.data() + from, c.run);
      const uint32_t lines = (c.run + size - 1) / size;
      std::memset(to + c.run, c.pad, lines * size - c.run);
      for (uint32_t k = 0; recorder_ && k < lines; ++k)
        recorder_->write(index_, static_cast<uint64_t>(line + k) * size, {to + k * size, size});
    }
}

void Model::load_weights(const Matmul& c) {
  const uint32_t size = machine_.size;
  const bool is_float = c.flags & Matmul::kFloat;
  for (uint32_t r = 0; r < size; ++r) {
    const uint8_t* bytes = line(c.weights + int64_t{r} * c.weight_lines);
    for (uint32_t i = 0; i < size; ++i) {
      const size_t at = c.flags & Matmul::kTranspose ? i * size + r : r * size + i;
      weights_[at] = is_float ? static_cast<int16_t>(half(bytes, i)) : static_cast<int8_t>(bytes[i]);
      float_weights_[at] = from_bf16(static_cast<uint16_t>(weights_[at]));
    }
  }
}

void Model::matmul(const Matmul& c) {
  const uint32_t size = machine_.size;
  if (!(c.flags & Matmul::kKeepWeights)) load_weights(c);
  const std::vector<uint8_t> padding(2 * size, c.pad);
  const auto rows = [&](uint32_t i, uint32_t first, uint32_t last, bool pads) {
    if (first >= last) return;
    const int64_t at = c.line + (int64_t{i} - c.outer_first) * c.outer_lines;
    int32_t* accumulators = accumulators_.data() + (c.accumulator + size_t{i} * c.inner + first) * size;
    multiply(size,
             {.first = pads ? padding.data() : line(at),
              .step = pads ? 0 : int64_t{c.inner_lines} * size,
              .count = last - first,
              .accumulators = accumulators,
              .accumulate = (c.flags & Matmul::kAccumulate) != 0,
              .is_float = (c.flags & Matmul::kFloat) != 0},
             weights_.data(), float_weights_.data());
  };
  for (uint32_t i = 0; i < c.outer; ++i) {
    const bool inside = i >= c.outer_first && i < c.outer_last && c.inner_first < c.inner_last;
    const uint32_t first = inside ? c.inner_first : c.inner;
    const uint32_t last = inside ? c.inner_last : c.inner;
    rows(i, 0, first, true);
    rows(i, first, last, false);
    rows(i, last, c.inner, true);
  }
  for (uint32_t i = 0; recorder_ && i < uint32_t{c.inner} * c.outer; ++i) {
    const size_t at = (c.accumulator + size_t{i}) * size;
    recorder_->write(index_, at * 4, {reinterpret_cast<const uint8_t*>(&accumulators_[at]), size_t{4} * size});
  }
}

void Model::epilogue(const Epilogue& c) {
  epilogue_ = c;
  epilogue_.low = flush(c.low);
  epilogue_.high = flush(c.high);
  epilogue_.residual_scale = flush(c.residual_scale);
  if (!(c.flags & Epilogue::kVectors)) return;
  std::memcpy(bias_.data(), line(c.line), size_t{4} * machine_.size);
  std::memcpy(scale_.data(), line(c.line + 4), size_t{4} * machine_.size);
}

void Model::store(const Store& c) {
  for (uint32_t i = 0; i < c.outer; ++i)
    for (uint32_t j = 0; j < c.inner; ++j) {
      const int64_t offset = int64_t{i} * c.outer_stride + int64_t{j} * c.inner_stride;
      store_row(c, i * c.inner + j, address_of(c) + static_cast<uint64_t>(offset));
    }
}

float Model::residual(const Store& c, uint32_t row, uint32_t column) const {
  if (c.flags & Store::kResidualBf16)
    return flush(from_bf16(half(line(c.residual + int64_t{2} * row), column)) * epilogue_.residual_scale);
  const int value = static_cast<int8_t>(line(c.residual + int64_t{row})[column]) - epilogue_.residual_zero_point;
  return flush(static_cast<float>(value) * epilogue_.residual_scale);
}

void Model::store_row(const Store& c, uint32_t row, uint64_t address) {
  const int32_t* accumulators = accumulators_.data() + (c.accumulator + size_t{row}) * machine_.size;
  uint8_t* to = memory_.data() + address;
  for (uint32_t n = 0; n < c.columns; ++n) {
    const int32_t sum = accumulators[n];
    const bool is_float = c.flags & Store::kFloat;
    const int32_t integer = is_float || !(c.flags & Store::kBias) ? sum : wrapping_add(sum, bias_[n]);
    float x = is_float ? flush(std::bit_cast<float>(sum)) : static_cast<float>(integer);
    if (is_float && c.flags & Store::kBias) x = flush(x + flush(std::bit_cast<float>(bias_[n])));
    if (c.flags & Store::kScale) x = flush(x * flush(scale_[n]));
    if (c.flags & Store::kResidual) x = flush(x + residual(c, row, n));
    if (c.flags & Store::kClamp) x = x < epilogue_.low ? epilogue_.low : x > epilogue_.high ? epilogue_.high : x;
    switch (c.type()) {
      case Output::kI8:
        to[n] = static_cast<uint8_t>(to_i8(x, epilogue_.zero_point));
        break;
      case Output::kBf16: {
        const uint16_t bits = to_bf16(x);
        std::memcpy(to + size_t{2} * n, &bits, 2);
        break;
      }
      case Output::kF32:
      case Output::kI32: {
        const uint32_t bits = c.type() == Output::kI32 ? static_cast<uint32_t>(integer) : canonical(x);
        std::memcpy(to + size_t{4} * n, &bits, 4);
      }
    }
  }
  const uint32_t bytes = c.columns * bytes_of(c.type());
  for (uint32_t at = 0; recorder_ && at < bytes; at += machine_.size)
    recorder_->write(index_, address + at, {to + at, std::min(machine_.size, bytes - at)});
}

}  // namespace atalla
