// Kernels and programs on a GPU: every op of the table, random kernels under random schedules, kernels of real sizes,
// and whole graphs. Without a GPU these tests are skipped; tests/backends/cuda_test.cpp runs the same code emulated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backends/cuda/schedule.h"
#include "backends/device_backend.h"
#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "program/run.h"
#include "support/checked.h"
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
constexpr CudaScheduleOptions kEager{.least_product = 8, .least_spread = 3, .column_part = 2};

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
  for (ValueRef input : graph.inputs()) {
    const bool is_index = graph.type(input).dtype == DType::kI64;
    const std::optional<Domain> range = is_index ? std::optional(Domain{0, 4999}) : std::nullopt;
    inputs.push_back(test::random_tensor(graph.type(input), range, {-1, 1}, random));
  }
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

// ---- speed ----------------------------------------------------------------------------------------------------------

// The kernel's launches on random data, one after the other.
class Launches {
 public:
  explicit Launches(const std::string& text) : graph_(parse_graph(text).value()), ir_(lower(graph_).value()) {
    kernel_ = cuda().compile(schedule_cuda(ir_)).value();
    program_ = kernel_->device_program();
    Random random(3);
    for (const auto& refs : {ir_.reads(), ir_.writes()}) {
      for (loops::NodeRef ref : refs) {
        const TensorType type = ir_.type(ref);
        const Tensor some = test::random_tensor({type.dtype, {1 << 20}}, {}, {-1, 1}, random);
        const int64_t bytes = checked_mul(element_count(type.shape).constant(), size_of(type.dtype));
        std::vector<std::byte> data(static_cast<size_t>(bytes));  // the same numbers again and again
        const auto run = static_cast<size_t>(some.numel() * size_of(type.dtype));
        for (size_t at = 0; at < data.size(); at += run)
          std::memcpy(data.data() + at, some.data(), std::min(run, data.size() - at));
        bytes_ += bytes;
        blocks_.emplace_back(program_->shared_device(), bytes);
        buffers_.push_back(blocks_.back().data());
        program_->device().wait(program_->device().copy_in(buffers_.back(), data.data(), bytes));
      }
    }
    scratch_ = runtime::DeviceBlock(program_->shared_device(), program_->scratch_bytes());
  }

  // The median of some rounds, in seconds of a launch.
  double seconds() const {
    std::vector<double> rounds;
    for (int round = 0; round < 7; ++round) {
      constexpr int kLaunches = 20;
      std::vector<runtime::Ticket> tickets;
      const auto start = std::chrono::steady_clock::now();
      const tenon_launch launch{sizeof launch, buffers_.data(), buffers_.size(), nullptr, 0, scratch_.data()};
      for (int i = 0; i < kLaunches; ++i) tickets.push_back(program_->device().submit(program_->get(), launch));
      for (runtime::Ticket ticket : tickets) program_->device().wait(ticket);
      rounds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kLaunches);
    }
    std::ranges::sort(rounds);
    return rounds[rounds.size() / 2];
  }

  double bytes_per_second() const { return static_cast<double>(bytes_) / seconds(); }

 private:
  const Graph graph_;
  const IR ir_;
  std::unique_ptr<Compiled> kernel_;
  std::shared_ptr<const runtime::DeviceProgram> program_;
  std::vector<runtime::DeviceBlock> blocks_;
  std::vector<void*> buffers_;
  runtime::DeviceBlock scratch_;
  int64_t bytes_ = 0;  // of all arrays
};

class SpeedOnCuda : public testing::Test {
  void SetUp() override { skip_without_gpu(); }
};

TEST_F(SpeedOnCuda, OfStreamsIsThatOfMemory) {
  constexpr std::pair<const char*, const char*> kStreams[] = {
      {"add f32", "graph g(%x: f32[16777216], %y: f32[16777216]) {\n %z = add(%x, %y)\n return %z\n}"},
      {"add bf16", "graph g(%x: bf16[33554432], %y: bf16[33554432]) {\n %z = add(%x, %y)\n return %z\n}"},
      {"gelu bf16", "graph g(%x: bf16[33554432]) {\n %z = gelu(%x)\n return %z\n}"},
      {"add rows f32", "graph g(%x: f32[8192, 4096], %y: f32[4096]) {\n %z = add(%x, %y)\n return %z\n}"},
      {"softmax f32", "graph g(%x: f32[8192, 4096]) {\n %z = softmax(%x) {dim=-1}\n return %z\n}"},
      {"layer_norm bf16",
       "graph g(%x: bf16[32768, 768], %w: bf16[768], %b: bf16[768]) {\n"
       " %y, %m, %r = layer_norm(%x, %w, %b) {normalized_rank=1}\n return %y\n}"},
      {"sum f32", "graph g(%x: f32[33554432]) {\n %z = sum(%x)\n return %z\n}"},
      {"sum of columns f32", "graph g(%x: f32[8192, 4096]) {\n %z = sum(%x) {dims=[0]}\n return %z\n}"},
      {"permute f32", "graph g(%x: f32[4096, 8192]) {\n %z = permute(%x) {dims=[1, 0]}\n return %z\n}"},
  };
  const Launches copy("graph g(%x: f32[33554432]) {\n %z = neg(%x)\n return %z\n}");
  const double best = copy.bytes_per_second();
  fmt::print("{:24}{:10.0f} GB/s\n", "neg f32", best / 1e9);
  for (const auto& [name, text] : kStreams) {
    const double speed = Launches(text).bytes_per_second();
    fmt::print("{:24}{:10.0f} GB/s  {:.2f}\n", name, speed / 1e9, speed / best);
    EXPECT_GT(speed, best / 20) << name;
  }
}

TEST_F(SpeedOnCuda, OfProductsIsThatOfCublaslt) {
  for (const char* dtype : {"bf16", "f32"}) {
    const double seconds = Launches(fmt::format("graph g(%x: {0}[4096, 4096], %y: {0}[4096, 4096]) {{\n"
                                                " %z = matmul(%x, %y)\n return %z\n}}",
                                                dtype))
                               .seconds();
    const double flops = 2 * std::pow(4096.0, 3) / seconds;
    fmt::print("{:24}{:10.1f} TFLOP/s\n", fmt::format("matmul {}", dtype), flops / 1e12);
    EXPECT_GT(flops, 1e12) << dtype;
  }
}

}  // namespace
}  // namespace tenon
