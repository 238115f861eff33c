// The data of a training: arrays of an .npz file under the names of a program's inputs, whose rows are samples.
//
// The batch is the first dimension of the first input: a symbol, or a number where the model was exported with a fixed
// size. Inputs whose first dimension is that, or a multiple of it (the targets of a sequence, flattened), are taken
// sample by sample. Others are the same in every step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "runnable.h"

namespace tenon::cli {

// What a program says of its batch.
struct BatchSize {
  std::optional<int64_t> fixed;
  size_t symbol = 0;  // where it is not fixed
  int64_t low = 1;
  int64_t high = 1;
};
// Throws an Error for a program whose inputs have no dimension.
BatchSize batch_size_of(const std::string& path, const Runnable& program);

class TrainingData {
 public:
  // Throws an Error that names the file, for an array that is missing or does not fit.
  TrainingData(const std::string& path, const Runnable& program, const BatchSize& size);

  int64_t samples() const { return samples_; }
  // The inputs of the program for these samples. They change with the next call.
  std::vector<Tensor> batch(std::span<const int64_t> samples);

 private:
  struct Column {
    Tensor array;
    int64_t rows = 0;  // for each sample; 0: the array as it is
    Tensor buffer = {};
  };

  static Column column_of(const std::string& path, const Runnable& program, const BatchSize& size,
                          const InputInfo& spec, size_t input, const Tensor& array);
  void count_samples(const std::string& path, const std::vector<InputInfo>& specs, const BatchSize& size);

  std::vector<Column> columns_;
  int64_t samples_ = 0;
};

// How an epoch goes through its samples: all steps have `batch` of them but the last, which has what is left; where the
// model cannot have so few, they are left out.
struct EpochSize {
  int64_t samples;
  int64_t batch;
  int64_t steps;
  int64_t used;  // of the samples

  int64_t size_of(int64_t step) const { return std::min(batch, used - step * batch); }
};
EpochSize epoch_size(int64_t samples, int64_t batch, const BatchSize& size);

// 0, 1, ... in an order that depends on the seed and the epoch alone, on every machine.
std::vector<int64_t> shuffled(int64_t count, int64_t seed, int64_t epoch);

}  // namespace tenon::cli
