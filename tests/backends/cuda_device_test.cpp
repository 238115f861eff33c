// Kernels and programs on a GPU: every op of the table, random kernels under random schedules, kernels of real sizes,
// and whole graphs. Without a GPU these tests are skipped; tests/backends/cuda_test.cpp runs the same code emulated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cuda/schedule.h"
#include "backends/device_backend.h"
#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "program/run.h"
#include "tests/backends/support_cuda_kernels.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_lowered.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using test::close;
using test::Random;

// Small kernels take the ways of large ones.
constexpr CudaScheduleOptions kEager{.least_product = 8, .least_spread = 3};

const Backend& cuda() {
  static const std::shared_ptr<const Backend> backend = find_backend("cuda").value();
  return *backend;
}

void skip_without_gpu() {
  if (const std::string missing = cuda().missing_hardware(); !missing.empty()) GTEST_SKIP() << "no " << missing;
}

void expect_equal(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(close(actual[i], expected[i])) << "output " << i;
}

void expect_runs(const LoopTree& tree, const std::vector<Tensor>& arguments, const symbolic::Bindings& sizes,
                 const std::vector<Tensor>& expected) {
  const auto kernel = cuda().compile(tree);
  if (!kernel.ok() && kernel.diagnostic().message.find("has no code for a GPU") != std::string::npos) return;
  ASSERT_TRUE(kernel.ok()) << kernel.diagnostic().text();
  const auto outputs = run(**kernel, tree.ir, arguments, sizes);
  ASSERT_TRUE(outputs.ok()) << outputs.diagnostic().text();
  expect_equal(*outputs, expected);
}

// ---- ops ------------------------------------------------------------------------------------------------------------

class OpsOnCuda : public testing::TestWithParam<const OpDef*> {
  void SetUp() override { skip_without_gpu(); }
};

TEST_P(OpsOnCuda, SamplesAgreeWithTheReference) {
  for (const Sample& sample : samples_of(*GetParam())) {
    if (test::needs_library(sample.graph)) continue;
    SCOPED_TRACE(sample.name());
    const std::vector<Tensor> inputs = test::inputs_for(sample);
    expect_runs(schedule_cuda(lower(sample.graph).value(), kEager), test::kernel_arguments(sample.graph, inputs), {},
                evaluate(sample.graph, inputs).value());
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpsOnCuda, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& info) { return std::string(info.param->name.get()); });

// ---- random kernels -------------------------------------------------------------------------------------------------

class AgreementOnCuda : public testing::TestWithParam<int> {
  void SetUp() override { skip_without_gpu(); }
};

TEST_P(AgreementOnCuda, OfRandomSchedules) {
  const char* const pairs = std::getenv("TENON_CUDA_PAIRS");  // of all shards
  const int count = (pairs ? std::atoi(pairs) : 160) / 16;
  uint64_t seed = 57'000'000 + static_cast<uint64_t>(GetParam()) * 100'000;
  for (int done = 0; done < count && !HasFailure(); ++seed) {
    const std::optional<test::LoweredGraph> lowered = test::random_lowered(seed);
    if (!lowered) continue;
    ++done;
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string log = fmt::format("seed {}\n", seed);
    const LoopTree tree = done % 4 == 0 ? schedule_cuda(lowered->ir, done % 8 == 0 ? CudaScheduleOptions() : kEager)
                                        : loops::testing::random_schedule(LoopTree(lowered->ir), 20, random, &log);
    SCOPED_TRACE(log + to_string(lowered->graph) + tree.dump());
    expect_runs(tree, lowered->arguments, lowered->sizes, lowered->expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, AgreementOnCuda, testing::Range(0, 16));

// ---- real sizes -----------------------------------------------------------------------------------------------------

// Against the backend of the CPU, as one kernel and as a program on the device.
class LargeOnCuda : public testing::TestWithParam<test::LargeKernel> {
  void SetUp() override { skip_without_gpu(); }
};

TEST_P(LargeOnCuda, AgreesWithTheCpu) {
  const Graph graph = parse_graph(GetParam().graph).value();
  Random random(7);
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
  const std::vector<Tensor> expected = compile_program(graph).value().run(inputs);
  const IR ir = lower(graph).value();
  const LoopTree tree = schedule_cuda(ir);
  SCOPED_TRACE(tree.dump());
  expect_runs(tree, inputs, {}, expected);
  const Result<Program> program = compile_program(graph, {.devices = {"cuda"}});
  ASSERT_TRUE(program.ok()) << program.diagnostic().text();
  expect_equal(program->run(inputs), expected);
}

INSTANTIATE_TEST_SUITE_P(Kernels, LargeOnCuda, testing::ValuesIn(test::kLargeKernels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon
