// Loads a compiled model, says what it takes and gives, runs it on made-up inputs and prints a summary of each result.
//
//     run_model model.tenon [SIZE]      SIZE: of every symbolic dimension; 4 unless told
#include <cstdio>
#include <cstdlib>
#include <tenon/tenon.hpp>

namespace {

// An input with memory of its own.
struct Input {
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
  tenon_dtype dtype;

  tenon::Tensor view() { return {data.data(), dtype, shape}; }
};

template <class T>
void fill(std::span<T> values, size_t period, T step) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i % period) * step;
}

// Small numbers that differ: 0, 0.25, 0.5, ... for floats, and 0, 1, 2 for integers, which are often indices.
Input make_input(const tenon::TensorInfo& info, int64_t size) {
  Input input{{}, {}, info.dtype()};
  for (const tenon_dim& dim : info.dims()) input.shape.push_back(dim.size >= 0 ? dim.size : size);
  input.data.resize(input.view().bytes());
  const tenon::Tensor view = input.view();
  if (info.dtype() == TENON_F32) fill(view.values<float>(), 9, 0.25f);
  if (info.dtype() == TENON_F64) fill(view.values<double>(), 9, 0.25);
  if (info.dtype() == TENON_I64) fill(view.values<int64_t>(), 3, int64_t{1});
  return input;
}

template <class T>
double sum(std::span<T> values) {
  double total = 0;
  for (const T value : values) total += static_cast<double>(value);
  return total;
}

double sum(const tenon::Tensor& tensor) {
  if (tensor.dtype() == TENON_F32) return sum(tensor.values<const float>());
  if (tensor.dtype() == TENON_F64) return sum(tensor.values<const double>());
  if (tensor.dtype() == TENON_I64) return sum(tensor.values<const int64_t>());
  return 0;
}

void describe(const char* role, const tenon::TensorInfo& info) {
  std::printf("%s %s: %s\n", role, std::string(info.name()).c_str(), info.text().c_str());
}

void run(const char* path, int64_t size) {
  const tenon::Program program = tenon::Program::load(path);
  std::printf("%s, by Tenon %s\n", std::string(program.name()).c_str(), tenon_version());
  tenon::Context context(program);
  std::vector<Input> inputs;
  for (size_t i = 0; i < program.input_count(); ++i) {
    describe("input", program.input(i));
    inputs.push_back(make_input(program.input(i), size));
  }
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(i, inputs[i].view());
  context.run();
  for (size_t i = 0; i < program.output_count(); ++i) {
    const tenon::Tensor output = context.output(i);
    describe("output", program.output(i));
    std::printf("  shape");
    for (const int64_t extent : output.shape()) std::printf(" %lld", static_cast<long long>(extent));
    std::printf(", sum %.6g\n", sum(output));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_model model.tenon [SIZE]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::atoll(argv[2]) : 4);
  } catch (const tenon::RuntimeError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
