#include "support.h"

#include <algorithm>
#include <cmath>

namespace atalla {

namespace {

constexpr uint64_t kAlignment = 64;

float bf16(const uint8_t* bytes) {
  const uint32_t bits = static_cast<uint32_t>(bytes[0] | bytes[1] << 8) << 16;
  return std::bit_cast<float>(bits);
}

template <typename T>
T at(const std::vector<uint8_t>& memory, uint64_t address) {
  T value;
  std::memcpy(&value, memory.data() + address, sizeof(T));
  return value;
}

uint16_t small_bf16(std::mt19937& random) {
  const float value = std::normal_distribution<float>(0, 1)(random);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

// The accumulator of one output: integers, or floats summed tile by tile.
class Sum {
 public:
  Sum(const Machine& machine, const Problem& problem) : size_(machine.size), p_(problem) {
    tiles_ = rounded(p_.layer.channels, size_) / size_;
  }

  int64_t integer = 0;
  float number = 0;

  void compute(uint32_t y, uint32_t x, uint32_t n) {
    const Layer& l = p_.layer;
    for (uint32_t r = 0; r < l.kernel; ++r)
      for (uint32_t s = 0; s < l.kernel; ++s)
        for (uint32_t tile = 0; tile < tiles_; ++tile)
          add_tile(int64_t{y} * l.stride + r - l.padding, int64_t{x} * l.stride + s - l.padding, r * l.kernel + s, tile,
                   n);
  }

 private:
  void add_tile(int64_t y, int64_t x, uint32_t tap, uint32_t tile, uint32_t n) {
    const Layer& l = p_.layer;
    const bool inside = y >= 0 && y < l.height && x >= 0 && x < l.width;
    float partial = 0;
    for (uint32_t k = 0; k < size_; ++k) {
      const uint32_t channel = tile * size_ + k;
      const uint64_t step = (uint64_t{n / size_} * l.kernel * l.kernel + tap) * tiles_ + tile;
      const uint64_t weight = l.weights + ((step * size_ + k) * size_ + n % size_) * l.element_bytes();
      const uint64_t pixel = static_cast<uint64_t>(y * l.width + x) * l.channels + channel;
      const bool present = inside && channel < l.channels;
      if (l.is_float) {
        partial += (present ? bf16(&p_.memory[l.input + 2 * pixel]) : 0.0F) * bf16(&p_.memory[weight]);
      } else {
        integer += (present ? at<int8_t>(p_.memory, l.input + pixel) : static_cast<int8_t>(l.pad)) *
                   at<int8_t>(p_.memory, weight);
      }
    }
    number += partial;
  }

  uint32_t size_, tiles_;
  const Problem& p_;
};

float residual_of(const Problem& p, uint64_t index) {
  const Layer& l = p.layer;
  if (l.is_float) return bf16(&p.memory[l.residual + 2 * index]) * l.epilogue.residual_scale;
  return static_cast<float>(at<int8_t>(p.memory, l.residual + index) - l.epilogue.residual_zero_point) *
         l.epilogue.residual_scale;
}

void append(std::vector<uint8_t>& bytes, const void* value, size_t count) {
  const auto* from = static_cast<const uint8_t*>(value);
  bytes.insert(bytes.end(), from, from + count);
}

void append_output(const Machine& machine, const Problem& p, const Sum& sum, uint32_t n, uint64_t index,
                   std::vector<uint8_t>& bytes) {
  const Layer& l = p.layer;
  const uint64_t vectors = l.vectors + uint64_t{n / machine.size} * 8 * machine.size + uint64_t{4} * (n % machine.size);
  const bool has_bias = l.store_flags & Store::kBias;
  const auto integer = static_cast<int32_t>(sum.integer + (has_bias ? at<int32_t>(p.memory, vectors) : 0));
  float x = l.is_float ? sum.number + (has_bias ? at<float>(p.memory, vectors) : 0.0F) : static_cast<float>(integer);
  if (l.store_flags & Store::kScale) x *= at<float>(p.memory, vectors + uint64_t{4} * machine.size);
  if (l.store_flags & Store::kResidual) x += residual_of(p, index);
  if (l.store_flags & Store::kClamp) x = std::clamp(x, l.epilogue.low, l.epilogue.high);
  if (l.output == Output::kI8) {
    const double rounded_x = std::nearbyint(static_cast<double>(x)) + l.epilogue.zero_point;
    const auto value = static_cast<int8_t>(std::clamp(rounded_x, -128.0, 127.0));
    append(bytes, &value, 1);
  } else if (l.output == Output::kBf16) {
    const auto bits = std::bit_cast<uint32_t>(x);
    const auto value = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    append(bytes, &value, 2);
  } else if (l.output == Output::kF32) {
    append(bytes, &x, 4);
  } else {
    append(bytes, &integer, 4);
  }
}

}  // namespace

std::unique_ptr<Body> open_body(const std::string& name, const Machine& machine, const BodyOptions& options) {
  std::string error;
  auto body = make_body(name, machine, options, error);
  EXPECT_NE(body, nullptr) << error;
  return body;
}

Problem random_problem(const Machine& machine, Layer layer, uint32_t seed) {
  std::mt19937 random(seed);
  uint64_t end = 0;
  const auto place = [&end](uint64_t bytes) {
    const uint64_t address = end;
    end = (end + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return address;
  };
  const uint64_t outputs = uint64_t{layer.out_height()} * layer.out_width() * layer.outputs;
  layer.input = place(uint64_t{layer.height} * layer.width * layer.channels * layer.element_bytes());
  layer.weights = place(weight_bytes(machine, layer));
  layer.residual = place(outputs * layer.element_bytes());
  const uint64_t elements = end;
  const uint32_t vectors = rounded(layer.outputs, machine.size);
  layer.vectors = place(uint64_t{8} * vectors);
  layer.result = place(outputs * bytes_of(layer.output));
  Problem problem{layer, std::vector<uint8_t>(end)};
  for (uint64_t i = 0; i + 2 <= elements; i += 2) {
    const auto value = layer.is_float ? small_bf16(random) : static_cast<uint16_t>(random());
    std::memcpy(&problem.memory[i], &value, 2);
  }
  for (uint32_t n = 0; n < vectors; ++n) {
    const uint64_t address =
        layer.vectors + uint64_t{n / machine.size} * 8 * machine.size + uint64_t{4} * (n % machine.size);
    const float scale = std::uniform_real_distribution<float>(0.0001F, 0.01F)(random);
    const float number = std::normal_distribution<float>(0, 1)(random);
    const auto integer = static_cast<int32_t>(random() % 20000) - 10000;
    std::memcpy(&problem.memory[address], layer.is_float ? static_cast<const void*>(&number) : &integer, 4);
    std::memcpy(&problem.memory[address + uint64_t{4} * machine.size], &scale, 4);
  }
  return problem;
}

std::vector<uint8_t> reference_result(const Machine& machine, const Problem& problem) {
  const Layer& l = problem.layer;
  std::vector<uint8_t> bytes;
  for (uint32_t y = 0; y < l.out_height(); ++y)
    for (uint32_t x = 0; x < l.out_width(); ++x)
      for (uint32_t n = 0; n < l.outputs; ++n) {
        Sum sum(machine, problem);
        sum.compute(y, x, n);
        append_output(machine, problem, sum, n, (uint64_t{y} * l.out_width() + x) * l.outputs + n, bytes);
      }
  return bytes;
}

std::vector<uint8_t> result_of(Body& body, const Problem& problem, RunResult* run) {
  std::ranges::copy(problem.memory, body.memory().begin());
  const RunResult done = body.submit(emit(body.machine(), problem.layer));
  EXPECT_FALSE(done.fault) << "command " << done.fault->command << ": " << done.fault->reason;
  if (run) *run = done;
  const Layer& l = problem.layer;
  const uint64_t bytes = uint64_t{l.out_height()} * l.out_width() * l.outputs * bytes_of(l.output);
  const auto result = body.memory().subspan(l.result, bytes);
  return {result.begin(), result.end()};
}

}  // namespace atalla
