// What launching a task costs: a program of 1,000 tiny kernels, beside calls of the same kernels one after the other.
// Each round times both; medians over rounds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "driver/pipeline.h"
#include "graph/builder.h"
#include "program/artifact.h"
#include "runtime/artifact.h"
#include "runtime/context.h"
#include "runtime/services.h"
#include "runtime/thread_pool.h"

namespace {

using namespace tenon;

constexpr int kTasks = 1000, kRounds = 101;

double nanoseconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// A product of 2x2 matrices is a kernel of its own: each needs all of the one before.
Graph chain() {
  Graph graph("chain");
  Builder b(graph);
  const Value x = b.value(graph.add_input("x", {DType::kF32, {2, 2}}));
  Value y = x;
  for (int i = 0; i < kTasks; ++i) y = b.matmul(y, x);
  graph.set_outputs({y.ref()});
  return graph;
}

}  // namespace

int main() {
  const ThreadCount one(1);
  const Program program = compile_program(chain()).value();
  const std::vector<std::byte> bytes = artifact_bytes({&program}).value();
  const auto container = std::make_shared<const runtime::Container>(runtime::Container::of_memory(bytes));
  const auto loaded = runtime::load_program(container, {});
  runtime::Context context(loaded, {.threads = 1});
  Tensor input = Tensor::zeros(DType::kF32, {2, 2});
  input.set_real(0, 1);
  context.set_input(0, {input.data(), TENON_F32, 2, input.shape().data(), nullptr});

  const size_t tasks = loaded->graph().tasks.size();
  float scratch[3][4] = {};
  void* const memory[] = {scratch[0], scratch[1], scratch[2]};
  std::vector<double> runs, calls;
  for (int round = 0; round < kRounds; ++round) {
    runs.push_back(nanoseconds([&] { context.run(); }));
    calls.push_back(nanoseconds([&] {
      for (size_t i = 0; i < tasks; ++i) {
        int64_t error[4] = {};
        loaded->kernel(loaded->graph().tasks[i].kernel).native(memory, nullptr, error, tenon_default_services());
      }
    }));
  }
  const double all = median(runs) / static_cast<double>(tasks), kernels = median(calls) / static_cast<double>(tasks);
  fmt::print("{} tasks: {:.1f} ns each, of which the kernel takes {:.1f}: {:.1f} ns to launch one (at most 150) {}\n",
             tasks, all, kernels, all - kernels, all - kernels <= 150 ? "PASS" : "MISS");
}
