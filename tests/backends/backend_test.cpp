#include "backends/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using namespace loops::testing;
using loops::LoopTree;
using ::testing::HasSubstr;

struct Named : Backend {
  explicit Named(std::string name, int hardware = kCpu) : Backend(std::move(name)), hardware(hardware) {}
  int hardware_requirement() const override { return hardware; }
  std::unique_ptr<Compiled> compile_impl(const LoopTree&) const override { return nullptr; }
  int hardware;
};

// Known for the length of a test.
struct Registered {
  explicit Registered(std::shared_ptr<const Backend> backend) : name(backend->name()) { register_backend(backend); }
  ~Registered() { unregister_backend(name); }
  std::string name;
};

std::string message_of(const Result<std::vector<Tensor>>& result) {
  return result.ok() ? "it ran" : result.diagnostic().message;
}

TEST(Backends, AreFoundByName) {
  const Registered mine(std::make_shared<Named>("mine"));
  EXPECT_EQ(find_backend("mine").value()->name(), "mine");
  std::vector<std::string> names;
  for (const auto& backend : backends()) names.push_back(backend->name());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"cpp", "interpreter", "mine"}));
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST(Backends, AnUnknownNameIsAnErrorThatListsThem) {
  const auto found = find_backend("interpretr");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(
      found.diagnostic().message,
      HasSubstr("there is no backend 'interpretr'; did you mean 'interpreter'? (there are: cpp, cpu, cuda, interpreter"));
}

TEST(Backends, ANameIsTakenOnce) {
  const Registered mine(std::make_shared<Named>("mine"));
  EXPECT_THROW(register_backend(std::make_shared<Named>("mine")), Error);
  EXPECT_THROW(register_backend(std::make_shared<Named>("")), Error);
  EXPECT_THROW(unregister_backend("yours"), Error);
}

struct OnAFarBoard : Named {
  using Named::Named;
  std::string missing_hardware() const override { return "a board on port 3"; }
};

TEST(Backends, MissingHardwareIsAnErrorThatNamesItInTheBackendsWords) {
  const OnAFarBoard elsewhere("elsewhere");
  EXPECT_FALSE(elsewhere.is_available());
  const auto compiled = elsewhere.compile(LoopTree(negate(3)));
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.diagnostic().message, "backend elsewhere needs a board on port 3, which this machine lacks");
  const auto unknown = Named("unknown", 1 << 10).compile(LoopTree(negate(3)));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.diagnostic().message, "backend unknown needs hardware 0x400, which this machine lacks");
}

TEST(Backends, CompilingToNothingIsAnError) {
  const auto compiled = Named("empty").compile(LoopTree(negate(3)));
  ASSERT_FALSE(compiled.ok());
  EXPECT_THAT(compiled.diagnostic().message, HasSubstr("returned no kernel"));
}

// ---- running on tensors ---------------------------------------------------------------------------------------------

Result<std::vector<Tensor>> run_kernel(const LoopTree& tree, const std::vector<Tensor>& inputs,
                                       const symbolic::Bindings& sizes = {}) {
  const auto kernel = find_backend("interpreter").value()->compile(tree).value();
  return run(*kernel, tree.ir, inputs, sizes);
}

TEST(RunKernel, ChecksItsInputs) {
  const LoopTree tree(matmul(4, 5, Symbol("N")));
  const Tensor a = Tensor::zeros(DType::kF32, {4, 5}), b = Tensor::zeros(DType::kF32, {5, 2});
  EXPECT_EQ(run_kernel(tree, {a, b})->at(0).shape(), (Sizes{4, 2}));
  EXPECT_THAT(message_of(run_kernel(tree, {a})), HasSubstr("takes 2 inputs, got 1"));
  EXPECT_THAT(message_of(run_kernel(tree, {a, Tensor()})), HasSubstr("input 1 must be f32[5, N], got nothing"));
  EXPECT_THAT(message_of(run_kernel(tree, {a, Tensor::zeros(DType::kF64, {5, 2})})), HasSubstr("got f64[5, 2]"));
  EXPECT_THAT(message_of(run_kernel(tree, {a, Tensor::zeros(DType::kF32, {4, 2})})),
              HasSubstr("input 1 must be f32[5, N], got f32[4, 2]"));
  EXPECT_THAT(message_of(run_kernel(tree, {a, b}, {{Symbol("N"), 3}})), HasSubstr("dimension 1 of input 1"));
  EXPECT_EQ(message_of(run_kernel(tree, {a, b}, {{Symbol("K"), 3}})), "kernel matmul has no size K (it has N)");
}

TEST(RunKernel, CopiesWhatIsNotContiguous) {
  const Tensor x = filled(DType::kF32, {3, 4}, [](int64_t i) { return i; });
  const Tensor column = Tensor::borrow(DType::kF32, {3}, {4}, x.data(), x.owner());
  EXPECT_EQ(elements(run_kernel(LoopTree(negate(3)), {column})->at(0)), (std::vector<double>{0, -4, -8}));
}

TEST(RunKernel, WantsEveryArray) {
  const LoopTree tree(negate(3));
  float numbers[3] = {};
  void* const memory[] = {numbers};
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    EXPECT_ANY_THROW(find_backend(backend).value()->compile(tree).value()->run(memory)) << backend;
  }
}

TEST(RunKernel, WantsSizesThatNoInputSays) {
  loops::IR ir("count");
  const loops::VarRef i = ir.add_var("i", Symbol("N"));
  ir.add_write(ir.add_index(Symbol("i"), {i}), {i});
  EXPECT_THAT(message_of(run_kernel(LoopTree(ir), {})), HasSubstr("the size N follows from no input"));
  EXPECT_EQ(elements(run_kernel(LoopTree(ir), {}, {{Symbol("N"), 3}})->at(0)), (std::vector<double>{0, 1, 2}));
}

TEST(RunKernel, OneKernelOnManyThreads) {
  const LoopTree tree(matmul(8, 8, 8));
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    const auto kernel = find_backend(backend).value()->compile(annotate(tree, {0}, {loops::Mark::kParallel}).value());
    std::vector<std::thread> threads;
    for (int id = 0; id < 4; ++id) {
      threads.emplace_back([&, id] {
        const Tensor a = filled(DType::kF32, {8, 8}, [&](int64_t i) { return i % 8 == i / 8 ? id : 0; });
        const Tensor b = filled(DType::kF32, {8, 8}, [](int64_t i) { return i; });
        for (int round = 0; round < 50; ++round) {
          const std::vector<double> got = elements(run(**kernel, tree.ir, std::vector{a, b}).value()[0]);
          for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], id * static_cast<double>(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// ---- the interpreter ------------------------------------------------------------------------------------------------

TEST(Interpreter, OverwritesInOrder) {
  loops::IR ir = loops::parse(R"(tenon loops 1
kernel last {
  var i = 3
  var one = 1
  %x: f32[i] = read 0
  %start: f32[one] = read 1
  %y: f32[one] = scatter set(%start, %x) at [0] for i
  %out: f32[one] = write 0 (%y)
})")
                     .value();
  const std::vector<Tensor> inputs = {filled(DType::kF32, {3}, [](int64_t i) { return i + 1; }),
                                      Tensor::zeros(DType::kF32, {1})};
  EXPECT_EQ(elements(run_kernel(LoopTree(ir), inputs)->at(0)), std::vector<double>{3});
  // Its order matters, so the loop cannot be parallel.
  const auto parallel = annotate(LoopTree(ir), {0}, {loops::Mark::kParallel});
  ASSERT_FALSE(parallel.ok());
  EXPECT_THAT(parallel.diagnostic().message, HasSubstr("%y folds i"));
}

TEST(Interpreter, FoldsWide) {
  loops::IR ir("sum");
  const loops::VarRef i = ir.add_var("i", 1 << 16);
  const loops::NodeRef x = ir.add_read(DType::kF32, {i});
  ir.add_write(ir.add_reduce(op_named("add"), x, {}), {});
  const Tensor values = filled(DType::kF32, {1 << 16}, [](int64_t k) { return k == 0 ? 1e8 : 1; });
  EXPECT_EQ(elements(run_kernel(LoopTree(ir), {values})->at(0)), std::vector<double>{100065536});
}

TEST(Interpreter, ConstantsHaveTheirDtype) {
  const LoopTree tree(loops::parse(R"(tenon loops 1
kernel equal {
  var i = 1
  %x: f32[i] = read 0
  %c: f32[] = constant 0.1
  %same: bool[i] = eq(%x, %c)
  %out: bool[i] = write 0 (%same)
})")
                          .value());
  const Tensor x = filled(DType::kF32, {1}, [](int64_t) { return 0.1; });
  for (const std::string_view backend : {"interpreter", "cpp"}) {
    EXPECT_EQ(elements(run_on(backend, tree, {x})[0]), std::vector<double>{1}) << backend;
  }
}

TEST(Interpreter, ScratchThatDoesNotFitIsAnError) {
#ifdef TENON_SANITIZED_CXX
  GTEST_SKIP() << "AddressSanitizer ends the process where memory runs out";
#endif
  loops::IR ir("huge");
  const loops::VarRef i = ir.add_var("i", int64_t{1} << 50);
  const loops::NodeRef y = ir.add_compute(op_named("neg"), {ir.add_read(DType::kF32, {i})}, {i}, {}, "y");
  const loops::NodeRef sum = ir.add_reduce(op_named("add"), y, {}, "sum");
  ir.add_write(sum, {});
  LoopTree tree(ir);
  tree = unfuse(tree, {0}, tree.find(sum)).value();
  const auto kernel = find_backend("interpreter").value()->compile(tree).value();
  float unused = 0;
  const std::vector<void*> memory = {&unused, &unused};
  const auto ran = attempt([&] { kernel->run(memory); });
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.diagnostic().message, HasSubstr("out of memory: %y needs 4503599627370496 bytes of scratch"));
}

}  // namespace
}  // namespace tenon
