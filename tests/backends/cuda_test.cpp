// The code of backend cuda: every op of the table under its schedule and under random ones, on an emulated GPU against
// the reference, and assembled by ptxas where there is one.
#include "backends/cuda/cuda.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <numbers>

#include "backends/cuda/schedule.h"
#include "backends/other_machines.h"
#include "driver/pipeline.h"
#include "graph/evaluate.h"
#include "loops/lower.h"
#include "tests/backends/support_cuda_kernels.h"
#include "tests/backends/support_emulated.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_lowered.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using testing::HasSubstr;

// Small kernels take the ways of large ones.
constexpr CudaScheduleOptions kEager{.least_product = 8, .least_spread = 3, .column_part = 2};

bool has_no_code(const Diagnostic& diagnostic) {
  return diagnostic.message.find("has no code for a GPU") != std::string::npos;
}

void expect_as_reference(const LoopTree& tree, const std::vector<Tensor>& arguments, const symbolic::Bindings& sizes,
                         const std::vector<Tensor>& expected) {
  Result<std::unique_ptr<Compiled>> kernel = attempt([&] { return test::compile_emulated(tree); });
  if (!kernel.ok() && has_no_code(kernel.diagnostic())) return;
  ASSERT_TRUE(kernel.ok()) << kernel.diagnostic().text();
  const auto outputs = run(**kernel, tree.ir, arguments, sizes);
  ASSERT_TRUE(outputs.ok()) << outputs.diagnostic().text();
  ASSERT_EQ(outputs->size(), expected.size());
  for (size_t i = 0; i < outputs->size(); ++i) EXPECT_TRUE(test::close((*outputs)[i], expected[i])) << "output " << i;
}

// ---- ops ------------------------------------------------------------------------------------------------------------

class CudaOps : public testing::TestWithParam<const OpDef*> {};

TEST_P(CudaOps, SamplesAgreeWithTheReference) {
  for (const Sample& sample : samples_of(*GetParam())) {
    if (test::needs_library(sample.graph)) continue;
    SCOPED_TRACE(sample.name());
    const IR ir = lower(sample.graph).value();
    const std::vector<Tensor> inputs = test::inputs_for(sample);
    const auto expected = evaluate(sample.graph, inputs);
    ASSERT_TRUE(expected.ok());
    std::string before;
    for (const CudaScheduleOptions& options : {CudaScheduleOptions(), kEager}) {
      const LoopTree tree = schedule_cuda(ir, options);
      if (tree.dump() == std::exchange(before, tree.dump())) continue;
      SCOPED_TRACE(tree.dump());
      expect_as_reference(tree, test::kernel_arguments(sample.graph, inputs), {}, *expected);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CudaOps, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& info) { return std::string(info.param->name.get()); });

// ---- random kernels -------------------------------------------------------------------------------------------------

class CudaAgreement : public testing::TestWithParam<int> {};

TEST_P(CudaAgreement, OfRandomSchedules) {
  const char* const pairs = std::getenv("TENON_CUDA_PAIRS");
  const int count = pairs ? std::atoi(pairs) : 60;
  uint64_t seed = 31'000'000 + static_cast<uint64_t>(GetParam()) * 100'000;
  for (int done = 0; done < count && !HasFailure(); ++seed) {
    const std::optional<test::LoweredGraph> lowered = test::random_lowered(seed);
    if (!lowered) continue;
    ++done;
    std::mt19937 random(static_cast<uint32_t>(seed));
    const LoopTree own = schedule_cuda(lowered->ir, done % 2 == 0 ? CudaScheduleOptions() : kEager);
    const bool is_own = done % 4 == 0;
    std::string log = fmt::format("seed {}\n", seed);
    const LoopTree tree = is_own ? own : loops::testing::random_schedule(LoopTree(lowered->ir), 20, random, &log);
    SCOPED_TRACE(log + to_string(lowered->graph) + tree.dump());
    expect_as_reference(tree, lowered->arguments, lowered->sizes, lowered->expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, CudaAgreement, testing::Range(0, 8));

// ---- marks and launches ---------------------------------------------------------------------------------------------

std::vector<Tensor> random_inputs(const Graph& graph, test::Random& random) {
  std::vector<Tensor> inputs;
  for (ValueRef input : graph.inputs()) inputs.push_back(test::random_tensor(graph.type(input), {}, {-1, 1}, random));
  return inputs;
}

LoopTree tree_of(std::string_view text) { return LoopTree(loops::parse(text).value()); }

int64_t at(const Expr& expr, int64_t n) { return evaluate(expr, {{Symbol("N"), n}}); }

TEST(CudaMarks, PrintAndParse) {
  const std::string text =
      "tenon loops 1\nkernel k {\n  var m = N\n  var k = 8\n  %x: f32[m, k] = read 0\n"
      "  %s: f32[m] = reduce add(%x) for m block, k thread\n  %o: f32[m] = write 0 (%s) for m block\n}\n";
  const IR ir = loops::parse(text).value();
  EXPECT_EQ(loops::parse(to_string(ir)).value(), ir);
  EXPECT_EQ(LoopTree(ir).dump(),
            "for m in N block\n  for k in 8 thread\n    %s: f32[m] = reduce add(%x)\n  %o: f32[m] = write 0 (%s)\n");
}

TEST(CudaMarks, AreRefusedWhereIterationsDepend) {
  const auto refusal = [](std::string_view loops, std::string_view node) {
    const auto tree = attempt([&] {
      return tree_of(
          fmt::format("tenon loops 1\nkernel k {{\n  var m = 8\n  %x: f32[m] = read 0\n  {} for m {}\n"
                      "  %o: f32[{}] = write 0 (%s)\n}}\n",
                      node, loops, node.find("scan") == node.npos ? "" : "m"));
    });
    return tree.ok() ? std::string() : tree.diagnostic().message;
  };
  EXPECT_THAT(refusal("block", "%s: f32[] = reduce add(%x)"), HasSubstr("cannot be marked block: %s folds m"));
  EXPECT_EQ(refusal("thread", "%s: f32[] = reduce add(%x)"), "");
  EXPECT_THAT(refusal("thread", "%s: f32[m] = scan add(%x) along m"), HasSubstr("cannot be marked thread: %s goes"));
}

TEST(CudaLaunches, OfAStreamAreFlat) {
  const LoopTree tree = schedule_cuda(loops::testing::negate(Symbol("N")));
  EXPECT_THAT(tree.dump(), HasSubstr("in N thread"));
  const CudaCode code = compile_cuda(tree);
  ASSERT_EQ(code.steps.size(), 1u);
  const auto& kernel = std::get<CudaKernel>(code.steps[0]);
  EXPECT_EQ(at(kernel.grid, 0), 0);
  EXPECT_EQ(at(kernel.grid, 1), 1);
  EXPECT_EQ(at(kernel.grid, 1024), 1);  // 4 elements for each thread
  EXPECT_EQ(at(kernel.grid, 1025), 2);
  EXPECT_EQ(at(kernel.grid, int64_t{1} << 40), int64_t{1} << 30);  // threads loop
  EXPECT_EQ(at(kernel.block, 1000), 256);
  EXPECT_EQ(at(code.scratch, 1000), 0);
  EXPECT_THAT(code.ptx, HasSubstr("ld.global.v4.f32"));
  EXPECT_THAT(code.ptx, HasSubstr("st.global.v4.f32"));
}

TEST(CudaLaunches, OfRowsHaveABlockForEach) {
  const Symbol n("N");
  const LoopTree tree = schedule_cuda(loops::testing::row_softmax(n, 4000));
  const CudaCode code = compile_cuda(tree);
  ASSERT_EQ(code.steps.size(), 1u);
  const auto& kernel = std::get<CudaKernel>(code.steps[0]);
  EXPECT_EQ(at(kernel.grid, 77), 77);
  EXPECT_EQ(at(kernel.block, 77), 128);
  EXPECT_THAT(code.ptx, HasSubstr("shfl.sync.bfly.b32"));
  EXPECT_THAT(code.ptx, HasSubstr("bar.sync"));
  EXPECT_THAT(code.ptx, HasSubstr(".shared"));
}

TEST(CudaLaunches, OfAProductAreOneCall) {
  const LoopTree tree = schedule_cuda(loops::testing::matmul(Symbol("N"), 64, 96));
  const CudaCode code = compile_cuda(tree);
  ASSERT_EQ(code.steps.size(), 1u) << tree.dump();
  const auto& product = std::get<CudaMatmul>(code.steps[0]);
  EXPECT_EQ(at(product.m, 10), 10);
  EXPECT_EQ(at(product.n, 10), 96);
  EXPECT_EQ(at(product.k, 10), 64);
  EXPECT_EQ(at(product.a.row, 10), 64);
  EXPECT_EQ(at(product.b.row, 10), 96);
  EXPECT_EQ(product.d.address.buffer, 2u);
}

TEST(CudaLaunches, OfAProductWithOddColumnsAndUnitDimensionsAreOneCall) {
  const Graph graph = parse_graph(
                          "graph g(%x: bf16[1, 24, 64], %w: bf16[501, 64]) {\n"
                          " %y = linear(%x, %w, none)\n return %y\n}")
                          .value();
  const LoopTree tree = schedule_cuda(lower(graph).value());
  const CudaCode code = compile_cuda(tree);
  ASSERT_EQ(code.steps.size(), 1u) << tree.dump();
  const auto& product = std::get<CudaMatmul>(code.steps[0]);
  EXPECT_EQ(product.operand, DType::kBF16);
  EXPECT_EQ(product.result, DType::kBF16);
  EXPECT_EQ(product.d.row, Expr(501));
  EXPECT_EQ(product.d.address.buffer, 2u);
  test::Random random(5);
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  expect_as_reference(tree, inputs, {}, evaluate(graph, inputs).value());
}

TEST(CudaLaunches, OfAttentionMultiplyNarrowTensorsWhereTheyAre) {
  const Graph graph = parse_graph(
                          "graph g(%q: bf16[1, 48, 2, 16], %k: bf16[1, 48, 2, 16], %v: bf16[1, 48, 2, 16]) {\n"
                          " %a = permute(%q) {dims=[0, 2, 1, 3]}\n %b = permute(%k) {dims=[0, 2, 1, 3]}\n"
                          " %c = permute(%v) {dims=[0, 2, 1, 3]}\n"
                          " %y = scaled_dot_product_attention(%a, %b, %c, none) {scale=0.25}\n"
                          " %z = permute(%y) {dims=[0, 2, 1, 3]}\n return %z\n}")
                          .value();
  const LoopTree tree = schedule_cuda(lower(graph).value());
  const CudaCode code = compile_cuda(tree);
  ASSERT_EQ(code.steps.size(), 4u) << tree.dump();  // scores, softmax, mix, division
  const auto& scores = std::get<CudaMatmul>(code.steps[0]);
  EXPECT_EQ(scores.operand, DType::kBF16);
  EXPECT_EQ(scores.result, DType::kF32);
  EXPECT_NEAR(scores.alpha, 0.25 * std::numbers::log2e, 1e-6);
  EXPECT_EQ(scores.a.address.buffer, 0u);
  const auto& mix = std::get<CudaMatmul>(code.steps[2]);
  EXPECT_EQ(mix.operand, DType::kBF16);
  EXPECT_EQ(mix.b.address.buffer, 2u);
  test::Random random(5);
  const std::vector<Tensor> inputs = random_inputs(graph, random);
  expect_as_reference(tree, inputs, {}, evaluate(graph, inputs).value());
}

TEST(CudaErrors, AreRecorded) {
  const LoopTree tree = tree_of(
      "tenon loops 1\nkernel k {\n  var i = 4\n  var v = 5\n  %x: f32[v] = read 0\n  %idx: i64[i] = read 1\n"
      "  %y: f32[i] = view %x[r] else 0.0 with r = %idx in 5 for i thread\n  %o: f32[i] = write 0 (%y) for i "
      "thread\n}\n");
  const std::vector<Tensor> inputs = {loops::testing::filled(DType::kF32, {5}, [](int64_t i) { return i; }),
                                      loops::testing::filled(DType::kI64, {4}, [](int64_t i) { return 2 * i; })};
  const auto result = run(*test::compile_emulated(tree), tree.ir, inputs);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().message, "%y: index 6 is out of range for a size of 5");
}

TEST(CudaBackend, IsFoundWithOptions) {
  EXPECT_EQ(find_backend("cuda").value()->name(), "cuda");
  EXPECT_EQ(find_backend("cuda:1").value()->name(), "cuda:1");
  EXPECT_THAT(find_backend("cudo:1").diagnostic().message, HasSubstr("there is no backend 'cudo:1'"));
}

TEST(CudaBackend, SaysWhatAMachineWithoutAGpuLacks) {
  const auto backend = find_backend("cuda").value();
  if (backend->is_available()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(backend->missing_hardware(), testing::StartsWith("a CUDA device ("));
  const auto kernel = backend->compile(schedule_cuda(loops::testing::negate(8)));
  EXPECT_THAT(kernel.diagnostic().message, HasSubstr("backend cuda needs a CUDA device"));
  const auto program = compile_program(parse_graph("graph g(%x: f32[4]) {\n %y = neg(%x)\n return %y\n}").value(),
                                       {.devices = {"cuda"}});
  EXPECT_THAT(program.diagnostic().message, HasSubstr("device cuda needs a CUDA device"));
}

TEST(CudaBackend, CompilesForFilesWithoutAGpu) {
  const auto backend = find_backend("cuda").value();
  if (backend->is_available()) GTEST_SKIP() << "this machine has a GPU";
  const Graph graph = parse_graph("graph g(%x: f32[4]) {\n %y = neg(%x)\n return %y\n}").value();
  const ForOtherMachines devices_may_be_missing;
  const Program program = compile_program(graph, {.devices = {"cuda"}}).value();
  ASSERT_EQ(program.spaces.size(), 1u);
  EXPECT_EQ(program.spaces[0].device, "cuda");
  const auto run = attempt([&] { return program.run(std::vector{Tensor::zeros(DType::kF32, {4})}); });
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.diagnostic().message, HasSubstr("this machine has no GPU that Tenon can use"));
}

// ---- assembly -------------------------------------------------------------------------------------------------------

bool has_ptxas() {
  static const bool has = std::system("ptxas --version > /dev/null 2>&1") == 0;
  return has;
}

// About so many samples of an op: each takes a process.
size_t most_assembled() {
  const char* const most = std::getenv("TENON_CUDA_ASSEMBLED");
  return most ? static_cast<size_t>(std::max(std::atoi(most), 1)) : 2;
}

// What ptxas says; empty if it is content.
std::string assembled(const std::string& ptx) {
  const std::string path = fmt::format("{}tenon_{}.ptx", testing::TempDir(), getpid());
  std::ofstream(path) << ptx;
  const std::string command = fmt::format("ptxas -arch=sm_80 -O0 -o /dev/null {0} > {0}.log 2>&1", path);
  if (std::system(command.c_str()) == 0) return "";
  std::stringstream text;
  text << std::ifstream(path + ".log").rdbuf();
  return text.str() + ptx;
}

class CudaAssembly : public testing::TestWithParam<const OpDef*> {};

TEST_P(CudaAssembly, OfSamples) {
  if (!has_ptxas()) GTEST_SKIP() << "there is no ptxas";
  const std::vector<Sample> samples = samples_of(*GetParam());
  const size_t step = std::max<size_t>(samples.size() / most_assembled(), 1);
  for (size_t i = 0; i < samples.size(); i += step) {
    const Sample& sample = samples[i];
    if (test::needs_library(sample.graph)) continue;
    SCOPED_TRACE(sample.name());
    const LoopTree tree = schedule_cuda(lower(sample.graph).value(), kEager);
    const Result<CudaCode> code = attempt([&] { return compile_cuda(tree); });
    if (!code.ok() && has_no_code(code.diagnostic())) continue;
    ASSERT_TRUE(code.ok()) << code.diagnostic().text();
    if (!code->ptx.empty()) EXPECT_EQ(assembled(code->ptx), "");
  }
}

class CudaLarge : public testing::TestWithParam<test::LargeKernel> {};

TEST_P(CudaLarge, Assembles) {
  if (!has_ptxas()) GTEST_SKIP() << "there is no ptxas";
  const LoopTree tree = schedule_cuda(lower(parse_graph(GetParam().graph).value()).value());
  const CudaCode code = compile_cuda(tree);
  if (std::getenv("TENON_CUDA_DUMP"))
    fmt::print("{}{}\n", tree.dump(), to_text(code).substr(0, to_text(code).size() - code.ptx.size()));
  if (!code.ptx.empty()) EXPECT_EQ(assembled(code.ptx), "");
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaLarge, testing::ValuesIn(test::kLargeKernels),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Table, CudaAssembly, testing::ValuesIn(op_table().begin(), op_table().end()),
                         [](const auto& info) { return std::string(info.param->name.get()); });

}  // namespace
}  // namespace tenon
