#include "backends/cpu/cpu.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/cache.h"
#include "codegen/codegen.h"
#include "codegen/objects.h"
#include "loops/key.h"
#include "runtime/thread_pool.h"
#include "tests/loops/support_kernels.h"
#include "tests/support/support_environment.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using namespace loops;
using namespace loops::testing;

// A cache of its own.
class CpuBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tenon_cpu_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    cache_.emplace("TENON_CACHE", folder_.c_str());
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string folder_;
  std::optional<tenon::testing::WithVariable> cache_;
};

Tensor numbers(Sizes shape) {
  return filled(DType::kF32, std::move(shape), [](int64_t i) { return static_cast<double>(i * 7 % 11) - 4; });
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

LoopTree renamed(IR ir) {
  for (NodeRef ref : ir.node_refs()) ir.set_name(ref, "renamed_" + ir.node(ref).name);
  return LoopTree(std::move(ir));
}

TEST_F(CpuBackend, ComputesWhatTheInterpreterDoes) {
  const LoopTree product(matmul(9, 20, 33));
  const std::vector<Tensor> inputs = {numbers({9, 20}), numbers({20, 33})};
  EXPECT_EQ(elements(run_on("cpu", product, inputs)[0]), elements(run_on("interpreter", product, inputs)[0]));
  const LoopTree conv(padded_conv1d(50, 5));
  const std::vector<Tensor> signal = {numbers({50}), numbers({5})};
  EXPECT_EQ(elements(run_on("cpu", conv, signal)[0]), elements(run_on("interpreter", conv, signal)[0]));
}

// 3 * 5 iterations, which each of 2 to 16 threads take in stretches that end anywhere.
TEST_F(CpuBackend, TwoParallelLoopsAreOneOverTheirPairs) {
  const LoopTree tree(parse(R"(tenon loops 1
kernel pairs {
  var i = 3
  var j = 5
  var k = 30000
  %x: f32[i, j, k] = read 0
  %y: f32[i, j, k] = read 1
  %z: f32[i, j, k] = add(%x, %y) for j parallel, i parallel, k vectorize
  %o: f32[i, j, k] = write 0 (%z) for j parallel, i parallel, k vectorize
}
)")
                          .value());
  const std::vector<Tensor> inputs = {numbers({3, 5, 30000}), numbers({3, 5, 30000})};
  const std::vector<double> wanted = elements(run_on("interpreter", tree, inputs)[0]);
  for (int64_t threads : {1, 2, 4, 16}) {
    const ThreadCount count(threads);
    EXPECT_EQ(elements(run_on("cpu", tree, inputs)[0]), wanted) << threads << " threads";
  }
  const codegen::KernelSource source{&tree, "kernel"};
  EXPECT_THAT(codegen::emit_llvm({&source, 1}, codegen::find_target("x86-64-v4")), HasSubstr("%pair"));
}

TEST_F(CpuBackend, ObjectsComeFromTheCache) {
  const LoopTree tree(negate(100));
  EXPECT_EQ(elements(run_on("cpu", tree, {numbers({100})})[0])[1], -3);
  EXPECT_EQ(files(), 1);
  // Another object under that key is what the next one runs.
  const codegen::ObjectCache cache = *codegen::ObjectCache::from_environment();
  const codegen::Target target = codegen::find_target("native");
  IR other("double");
  const VarRef i = other.add_var("i", 100);
  const NodeRef x = other.add_read(DType::kF32, {i}, "x");
  other.add_write(other.add_compute(op_named("add"), {x, x}, {i}, {}, "y"), {i}, "out");
  const LoopTree twice(other);
  const LoopTree* const trees[] = {&twice};
  const std::string key = codegen::object_key(tree, target);
  cache.store(key, codegen::compile_objects(trees, target, nullptr).objects[0]);
  EXPECT_EQ(elements(run_on("cpu", tree, {numbers({100})})[0])[1], 6);
  // What is no object there is compiled anew, and not a failure; so is a damaged file.
  std::filesystem::resize_file(cache.path(digest(key)), 100);
  EXPECT_EQ(elements(run_on("cpu", tree, {numbers({100})})[0])[1], -3);
  const LoopTree* const same[] = {&tree};
  fs::remove_all(folder_);
  EXPECT_EQ(compile_cpu(same, {.use_cache = false}).size(), 1);
  EXPECT_FALSE(fs::exists(folder_));
}

// What is kept for a kernel runs with that kernel's memory, or is not taken.
TEST_F(CpuBackend, AKeptScheduleIsOfTheKernel) {
  const auto backend = find_backend("cpu").value();
  const IR kernel = negate(100);
  LoopTree unrolled(kernel);
  unrolled = annotate(unrolled, loop(unrolled, "y", 0), {Mark::kUnroll}).value();
  ASSERT_TRUE(backend->keep(kernel, unrolled));
  EXPECT_EQ(backend->schedule(kernel).dump(), unrolled.dump());
  for (const LoopTree& other :
       {LoopTree(negate(101)), LoopTree(negate(Expr(Symbol("N")))), LoopTree(matmul(9, 20, 33))}) {
    ASSERT_TRUE(backend->keep(kernel, other));
    EXPECT_EQ(backend->schedule(kernel).ir.type(backend->schedule(kernel).ir.reads()[0]),
              kernel.type(kernel.reads()[0]));
  }
}

TEST_F(CpuBackend, NamesMakeNoOtherCode) {
  const LoopTree tree(negate(100)), same = renamed(negate(100)), other(negate(101));
  EXPECT_EQ(key_of(tree.ir), key_of(same.ir));
  EXPECT_NE(key_of(tree.ir), key_of(other.ir));
  const LoopTree* const trees[] = {&tree, &same, &other, &tree};
  const codegen::Target target = codegen::find_target("native");
  const codegen::Objects objects = codegen::compile_objects(trees, target, nullptr);
  EXPECT_EQ(objects.of_tree, (std::vector<size_t>{0, 0, 1, 0}));
  EXPECT_EQ(objects.objects.size(), 2);
  EXPECT_NE(codegen::object_key(tree, target), codegen::object_key(tree, codegen::find_target("x86-64-v2")));
}

// The object is shared, but what goes wrong is told in the kernel's own names.
TEST_F(CpuBackend, ErrorsNameTheKernelsOwnNodes) {
  IR ir("divide");
  const VarRef i = ir.add_var("i", 4);
  const NodeRef x = ir.add_read(DType::kI64, {i}, "x"), y = ir.add_read(DType::kI64, {i}, "y");
  ir.add_write(ir.add_compute(op_named("floor_div"), {x, y}, {i}, {}, "q"), {i}, "out");
  const LoopTree tree(ir), other = renamed(ir);
  const LoopTree* const trees[] = {&tree, &other};
  const auto kernels = compile_cpu(trees);
  const Tensor ones = filled(DType::kI64, {4}, [](int64_t) { return 1; }), zeros = Tensor::zeros(DType::kI64, {4});
  void* const memory[] = {ones.data(), zeros.data(), zeros.data()};
  EXPECT_THAT(error_of([&] { kernels[0]->run(memory); }), HasSubstr("%q: integer division of 1 by zero"));
  EXPECT_THAT(error_of([&] { kernels[1]->run(memory); }), HasSubstr("%renamed_q: integer division of 1 by zero"));
}

TEST_F(CpuBackend, ManyKernelsAtOnce) {
  std::vector<LoopTree> trees;
  for (int64_t size = 1; size <= 24; ++size) trees.emplace_back(matmul(size, 3, 5));
  std::vector<const LoopTree*> pointers;
  for (const LoopTree& tree : trees) pointers.push_back(&tree);
  for (int round = 0; round < 2; ++round) {  // compiled, then from the cache
    const auto kernels = compile_cpu(pointers);
    for (int64_t size = 1; size <= 24; ++size) {
      const std::vector<Tensor> inputs = {numbers({size, 3}), numbers({3, 5})};
      const auto i = static_cast<size_t>(size - 1);
      const Tensor out = run(*kernels[i], trees[i].ir, inputs).value()[0];
      EXPECT_EQ(elements(out), elements(run_on("interpreter", trees[i], inputs)[0]));
    }
  }
  EXPECT_EQ(files(), 24);
}

TEST_F(CpuBackend, CodeForAnotherMachineCompilesAndSaysWhatIsMissing) {
  const LoopTree tree(negate(10));
  const LoopTree* const trees[] = {&tree};
  const Tensor x = numbers({10});
  void* const memory[] = {x.data(), x.data()};
  EXPECT_THAT(error_of([&] { compile_cpu(trees, {.cpu = "wasm32"})[0]->run(memory); }),
              HasSubstr("kernel negate is compiled for wasm32, and this machine lacks wasm32"));
  EXPECT_THAT(error_of([&] { compile_cpu(trees, {.cpu = "pentium"}); }), HasSubstr("there is no CPU 'pentium'"));
  if (codegen::runs_here(codegen::find_target("sapphirerapids"))) GTEST_SKIP() << "this machine has all of it";
  EXPECT_THAT(error_of([&] { compile_cpu(trees, {.cpu = "sapphirerapids"})[0]->run(memory); }), HasSubstr("amx-tile"));
}

TEST_F(CpuBackend, EveryLevelThatRunsHereComputesTheSame) {
  const LoopTree product(matmul(9, 20, 33));
  const std::vector<Tensor> inputs = {numbers({9, 20}), numbers({20, 33})};
  const std::vector<double> expected = elements(run_on("interpreter", product, inputs)[0]);
  const LoopTree* const trees[] = {&product};
  for (const std::string& cpu : codegen::target_names()) {
    if (!codegen::runs_here(codegen::find_target(cpu))) continue;
    const auto kernels = compile_cpu(trees, {.cpu = cpu});
    EXPECT_EQ(elements(run(*kernels[0], product.ir, inputs).value()[0]), expected) << cpu;
  }
}

TEST_F(CpuBackend, DumpsItsCode) {
  const auto kernel = find_backend("cpu").value()->compile(LoopTree(negate(10))).value();
  EXPECT_THAT(kernel->dump(), HasSubstr("define"));
  EXPECT_THAT(kernel->dump(), HasSubstr("@negate("));
}

}  // namespace
}  // namespace tenon
