// What a file costs, through the C interface alone: `bench_artifact model.tenon` loads it, runs it with zeros, and
// prints one line of JSON. Times are in milliseconds, memory in bytes. With `hold` it stays until its input ends.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace {

constexpr int kRuns = 15;

void check(tenon_status status) {
  if (status == TENON_OK) return;
  std::fprintf(stderr, "%s\n", tenon_error());
  std::exit(1);
}

class Clock {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Pages of this process that no other process has.
long long private_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  long long bytes = 0;
  while (std::getline(file, line)) {
    if (line.starts_with("Private_")) bytes += std::atoll(line.c_str() + line.find(':') + 1) * 1024;
  }
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return std::fprintf(stderr, "usage: bench_artifact FILE [hold]\n"), 2;
  const long long private_before = private_bytes();
  const Clock load;
  tenon_program* program = nullptr;
  check(tenon_load_file(arguments[1], nullptr, &program));
  tenon_context* context = nullptr;
  check(tenon_context_create(program, nullptr, &context));
  const double load_ms = load.milliseconds();

  std::vector<std::vector<char>> memory;
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < tenon_input_count(program); ++i) {
    tenon_tensor_info info;
    check(tenon_input_info(program, i, &info));
    std::vector<int64_t>& shape = shapes.emplace_back();
    size_t bytes = tenon_dtype_size(info.dtype);
    for (int32_t dim = 0; dim < info.rank; ++dim) {
      shape.push_back(info.dims[dim].size < 0 ? 1 : info.dims[dim].size);
      bytes *= static_cast<size_t>(shape.back());
    }
    memory.emplace_back(bytes);
    const tenon_tensor tensor{memory.back().data(), info.dtype, info.rank, shape.data(), nullptr};
    check(tenon_set_input(context, i, &tensor));
  }
  const Clock first;
  check(tenon_run(context));
  const double first_ms = first.milliseconds();
  std::vector<double> steady;
  for (int i = 0; i < kRuns; ++i) {
    const Clock run;
    check(tenon_run(context));
    steady.push_back(run.milliseconds());
  }
  std::nth_element(steady.begin(), steady.begin() + kRuns / 2, steady.end());
  tenon_memory used;
  check(tenon_context_memory(context, &used));
  std::printf(
      "{\"load_ms\": %.3f, \"first_ms\": %.3f, \"steady_ms\": %.3f, \"arena\": %lld, \"arena_least\": %lld, "
      "\"peak\": %lld, \"private\": %lld}\n",
      load_ms, first_ms, steady[kRuns / 2], static_cast<long long>(used.arena),
      static_cast<long long>(used.arena_least), static_cast<long long>(used.peak), private_bytes() - private_before);
  std::fflush(stdout);
  if (count > 2 && std::strcmp(arguments[2], "hold") == 0) {
    while (std::getchar() != EOF) {
    }
  }
  tenon_context_free(context);
  tenon_program_free(program);
}
