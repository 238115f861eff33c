// The functional model: runs commands one after the other, without time. The other bodies are judged by it.
#pragma once

#include "recorder.h"

namespace atalla {

class Model {
 public:
  Model(const Machine& machine, std::span<uint8_t> memory);
  // Clears everything but memory, scratchpad and accumulators: a stream begins like that.
  void reset();
  // `command` has passed a Checker; `index` is its place in the stream.
  void execute(uint32_t index, const Command& command, Recorder& recorder);

 private:
  void load(const Load& command);
  void matmul(const Matmul& command);
  void load_weights(const Matmul& command);
  void epilogue(const Epilogue& command);
  void store(const Store& command);
  void store_row(const Store& command, uint32_t row, uint64_t address);
  float residual(const Store& command, uint32_t row, uint32_t column) const;
  const uint8_t* line(int64_t index) const { return scratchpad_.data() + index * machine_.size; }

  Machine machine_;
  std::span<uint8_t> memory_;
  std::vector<uint8_t> scratchpad_;
  std::vector<int32_t> accumulators_;  // or the bits of floats
  std::vector<int16_t> weights_;       // [k][n]
  std::vector<float> float_weights_;   // the same as numbers, for bf16
  std::vector<int32_t> bias_;          // or the bits of floats
  std::vector<float> scale_;
  Epilogue epilogue_;
  uint32_t index_ = 0;
  Recorder* recorder_ = nullptr;
};

}  // namespace atalla
