// Trains a model with the runtime alone: no compiler, no Python. The model is a file of `tenon compile --train`, the
// data two .npy files: f32 inputs and i64 targets, a row for each sample. Goes on from the checkpoint where there is
// one.
//
//     train_model model.tenon x.npy target.npy EPOCHS CHECKPOINT
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <tenon/tenon.hpp>

namespace {

constexpr size_t kBatch = 32;

// The elements of a .npy file, which follow a header whose size stands in its bytes 8 and 9.
template <class T>
std::vector<T> read_npy(const char* path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char start[10] = {};
  file.read(reinterpret_cast<char*>(start), sizeof start);
  if (!file || start[0] != 0x93) throw std::runtime_error(std::string(path) + ": no .npy file");
  const auto begin = static_cast<std::streamoff>(sizeof start + start[8] + 256 * start[9]);
  const auto bytes = static_cast<size_t>(file.seekg(0, std::ios::end).tellg() - begin);
  std::vector<T> values(bytes / sizeof(T));
  file.seekg(begin).read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
  return values;
}

// The rows of some samples, one after the other.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, std::span<const size_t> samples, size_t size) {
  std::vector<T> rows;
  for (const size_t sample : samples) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(sample * size);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(size));
  }
  return rows;
}

void train(const char* model, const char* x_path, const char* target_path, int epochs, const std::string& checkpoint) {
  const std::vector<float> x = read_npy<float>(x_path);
  const std::vector<int64_t> target = read_npy<int64_t>(target_path);
  std::vector<size_t> order(target.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(0);

  // [training]
  const tenon::Program step = tenon::Program::load(model);  // the first entry of the file
  tenon::States states(step);                               // what all entries share, as it is in the file
  if (std::filesystem::exists(checkpoint)) states.load(checkpoint);
  tenon::Context training(step, states), evaluation(step.entry("evaluate"), states);

  std::vector<int64_t> shape = {kBatch};  // of a batch: then the dimensions of a sample
  for (const tenon_dim& dim : step.input(0).dims().subspan(1)) shape.push_back(dim.size);
  const std::vector<int64_t> target_shape = {kBatch};
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    float loss = 0;
    for (size_t first = 0; first + kBatch <= order.size(); first += kBatch) {
      const auto samples = std::span(order).subspan(first, kBatch);
      std::vector<float> inputs = rows_of(x, samples, x.size() / target.size());
      std::vector<int64_t> targets = rows_of(target, samples, 1);
      training.set_input(0, tenon::Tensor::of(inputs, shape));
      training.set_input(1, tenon::Tensor::of(targets, target_shape));
      training.run();  // forward, backward and the update of the states
      loss = training.output(0).values<float>()[0];
    }
    states.save(checkpoint);  // in one step: whoever is killed has this one or the one before
    std::printf("epoch %d: loss %.4f\n", epoch, loss);
  }
  // [training]

  shape[0] = static_cast<int64_t>(target.size());
  std::vector<float> inputs = x;
  std::vector<int64_t> targets = target;
  evaluation.set_input(0, tenon::Tensor::of(inputs, shape));
  evaluation.set_input(1, tenon::Tensor::of(targets, std::span(shape).first(1)));
  evaluation.run();
  std::printf("all samples: loss %.4f\n", evaluation.output(1).values<float>()[0]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: train_model model.tenon x.npy target.npy EPOCHS CHECKPOINT\n");
    return 2;
  }
  try {
    train(argv[1], argv[2], argv[3], std::atoi(argv[4]), argv[5]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
