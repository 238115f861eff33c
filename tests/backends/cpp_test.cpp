#include "backends/cpp/cpp.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/backends/support_cpp.h"
#include "tests/graph/support_values.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::IR;
using loops::LoopTree;
using loops::testing::elements;
using loops::testing::filled;
using loops::testing::run_on;
using symbolic::Expr;
using symbolic::Symbol;
using test::compile_all;
using test::Environment;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

LoopTree tree_of(std::string_view statements) {
  return LoopTree(loops::parse(fmt::format("tenon loops 1\nkernel test {{\n{}\n}}\n", statements)).value());
}

std::string error_of(const std::function<void()>& body) {
  const Status status = attempt(body);
  return status.ok() ? "no error" : status.diagnostic().message;
}

std::vector<Tensor> run_cpp(const LoopTree& tree, const std::vector<Tensor>& inputs) {
  return run(*compile_all({tree})[0], tree.ir, inputs).value();
}

Tensor integers(std::initializer_list<int64_t> values, DType dtype = DType::kI64) {
  const std::vector<int64_t> list = values;
  return filled(dtype, {static_cast<int64_t>(list.size())}, [&](int64_t i) { return list[static_cast<size_t>(i)]; });
}

// ---- random kernels under random schedules --------------------------------------------------------------------------

constexpr uint32_t kBatch = 100;

void expect_batch_agrees(uint32_t first, const CppOptions& options) {
  std::vector<LoopTree> trees;
  std::vector<std::string> logs;
  for (uint32_t seed = first; seed < first + kBatch; ++seed) {
    std::mt19937 random(seed);
    trees.push_back(loops::testing::random_schedule(LoopTree(test::random_ir(seed)), 30, random, &logs.emplace_back()));
  }
  const auto kernels = compile_all(trees, options);
  for (uint32_t i = 0; i < kBatch; ++i) {
    SCOPED_TRACE(fmt::format("seed {}\n{}{}{}", first + i, logs[i], trees[i].dump(), kernels[i]->dump()));
    const std::vector<Tensor> inputs = test::inputs_for(trees[i].ir, first + i);
    const std::vector<Tensor> wanted = run_on("interpreter", trees[i], inputs);
    const std::vector<Tensor> got = run(*kernels[i], trees[i].ir, inputs).value();
    for (size_t out = 0; out < wanted.size(); ++out) ASSERT_EQ(elements(got[out]), elements(wanted[out]));
  }
}

TEST(CppFuzz, AgreesWithTheInterpreter) {
  for (uint32_t first = 0; first < 1500 && !HasFatalFailure(); first += kBatch) {
    const Environment compiler("TENON_CXX", test::kCompilers[first / kBatch % 2]);
    expect_batch_agrees(first, {.optimization = 0, .flags = {}});
  }
}

TEST(CppFuzz, AgreesWithTheInterpreterWhenOptimized) {
  for (const char* name : test::kCompilers) {
    const Environment compiler("TENON_CXX", name);
    expect_batch_agrees(2000, {});
  }
}

// The runtime of the sanitizer ends the process at the first error.
TEST(CppFuzz, IsFreeOfUndefinedBehaviour) {
  const Environment compiler("TENON_CXX", "g++");
  expect_batch_agrees(3000, {.optimization = 0, .flags = {"-fsanitize=undefined", "-fno-sanitize-recover=all"}});
}

TEST(CppFuzz, SymbolicSizesWorkUnderEverySchedule) {
  const std::vector<std::function<IR(Expr, Expr)>> makers = {
      [](Expr m, Expr n) { return loops::testing::matmul(m, n, m); },
      [](Expr m, Expr n) { return loops::testing::row_softmax(m, n); },
      [](Expr m, Expr) { return loops::testing::padded_conv1d(m, 5); },
  };
  std::vector<LoopTree> trees;
  for (uint32_t seed = 0; seed < 240; ++seed) {
    std::mt19937 random(seed);
    const IR ir = makers[seed % 3](Symbol("M"), Symbol("N"));
    trees.push_back(loops::testing::random_schedule(LoopTree(ir), 15, random));
  }
  const auto kernels = compile_all(trees);
  for (uint32_t seed = 0; seed < trees.size(); ++seed) {
    for (const auto& [m, n] :
         {std::pair(1, 1), std::pair(0, 3), std::pair(5, 2), std::pair(37, 13), std::pair(4, 40)}) {
      SCOPED_TRACE(fmt::format("seed {}, M = {}, N = {}\n{}{}", seed, m, n, trees[seed].dump(), kernels[seed]->dump()));
      const LoopTree plain(makers[seed % 3](m, n));
      const std::vector<Tensor> inputs = test::inputs_for(plain.ir, seed);
      const Tensor wanted = run_on("interpreter", plain, inputs)[0];
      ASSERT_TRUE(test::close(run(*kernels[seed], trees[seed].ir, inputs).value()[0], wanted));
    }
  }
}

// ---- annotations ----------------------------------------------------------------------------------------------------

constexpr std::string_view kSumOfRows = R"(
  symbol N in [0, 1000]
  var i = 5
  var j = N
  %x: f32[i, j] = read 0
  %s: f32[i] = reduce add(%x) for i{}, j{}
  %out: f32[i] = write 0 (%s) for i{})";

TEST(Cpp, AnnotationsChangeTheTextAndNotTheResult) {
  const Tensor x = filled(DType::kF32, {5, 37}, [](int64_t i) { return i % 11 - 5; });
  const LoopTree plain = tree_of(fmt::format(fmt::runtime(kSumOfRows), "", "", ""));
  const std::vector<double> wanted = elements(run_on("interpreter", plain, {x})[0]);
  for (const auto& [rows, columns, sign] :
       {std::tuple("", "", "for (i64 j = 0; j < N; j += 1)"), std::tuple("", " vectorize", "f32x16 s_lanes"),
        std::tuple(" parallel", "", "in_parallel(services, 0, 5"), std::tuple(" unroll", "", "/* i = 4 */ {"),
        std::tuple("", " unroll", "#pragma GCC unroll"), std::tuple(" parallel", " vectorize", "s_lanes[lane]")}) {
    const LoopTree tree = tree_of(fmt::format(fmt::runtime(kSumOfRows), rows, columns, rows));
    EXPECT_THAT(emit_cpp(tree, "sum"), HasSubstr(sign));
    for (const char* name : test::kCompilers) {
      const Environment compiler("TENON_CXX", name);
      EXPECT_EQ(elements(run_cpp(tree, {x})[0]), wanted) << name << emit_cpp(tree, "sum");
    }
  }
}

TEST(Cpp, LongLoopsAreUnrolledByAPragma) {
  const std::string text = emit_cpp(tree_of(R"(
  var i = 65
  %x: f32[i] = read 0
  %out: f32[i] = write 0 (%x) for i unroll)"),
                                    "copy");
  EXPECT_THAT(text, HasSubstr("#pragma GCC unroll 8\n  for (i64 i = 0; i < 65; i += 1)"));
}

TEST(Cpp, RefusesTiles) {
  const LoopTree tree = tree_of("var i = 8\n%x: f32[i] = read 0\n%out: f32[i] = write 0 (%x) for i tile \"amx\"");
  EXPECT_EQ(error_of([&] { emit_cpp(tree, "copy"); }), "backend cpp has no tile \"amx\": take it off the loop over i");
}

// One number after the other in f32 would be off by 4 percent.
TEST(Cpp, LongSumsStayAccurate) {
  const Tensor x = filled(DType::kF32, {1 << 22}, [](int64_t) { return 0.1; });
  for (const char* loops : {"i", "i vectorize", "i by 1000, i", "i by 1000, i vectorize", "i by 64, i unroll"}) {
    const LoopTree tree = tree_of(fmt::format(
        "var i = 4194304\n%x: f32[i] = read 0\n%s: f32[] = reduce add(%x) for {}\n%out: f32[] = write 0 (%s)", loops));
    EXPECT_NEAR(elements(run_on("cpp", tree, {x})[0])[0], 419430.4, 0.4) << loops;
  }
}

// Rounding a product keeps x * x - x * x at 0; a product that only feeds a sum over it is fused.
TEST(Cpp, FusesNoProductButThatOfASum) {
  const LoopTree tree = tree_of(R"(
  var i = 50
  %x: f32[i] = read 0
  %p: f32[i] = mul(%x, %x) for i vectorize
  %q: f32[i] = mul(%x, %x) for i vectorize
  %d: f32[i] = sub(%p, %q) for i vectorize
  %out: f32[i] = write 0 (%d) for i vectorize
  %p2: f32[i] = mul(%x, %x) for i
  %q2: f32[i] = mul(%x, %x) for i
  %d2: f32[i] = sub(%p2, %q2) for i
  %out2: f32[i] = write 1 (%d2) for i
  %p3: f32[i] = mul(%x, %x) for i
  %s: f32[] = reduce add(%p3) for i
  %out3: f32[] = write 2 (%s))");
  EXPECT_THAT(emit_cpp(tree, "f"), HasSubstr("s = mul_add<f64>((f64)x[i], (f64)x[i], s);"));
  const Tensor x = filled(DType::kF32, {50}, [](int64_t i) { return 1.0 + 1.0 / static_cast<double>(i + 3); });
  for (const char* name : test::kCompilers) {
    const Environment compiler("TENON_CXX", name);
    const std::vector<Tensor> got = run(*compile_all({tree}, {})[0], tree.ir, std::vector{x}).value();
    EXPECT_THAT(elements(got[0]), Each(0.0)) << name;
    EXPECT_THAT(elements(got[1]), Each(0.0)) << name;
  }
}

TEST(Cpp, AVectorOfNegativeZerosIsNegative) {
  const LoopTree tree = tree_of(R"(
  var i = 16
  %zero: f32[] = constant -0.0
  %y: f32[i] = add(%zero, %zero) for i vectorize
  %out: f32[i] = write 0 (%y) for i vectorize)");
  EXPECT_THAT(emit_cpp(tree, "f"), HasSubstr("splat<f32x16>(f32(-0.0f))"));
  for (double value : elements(run_cpp(tree, {})[0])) EXPECT_TRUE(std::signbit(value));
}

TEST(Cpp, ScattersIntoACopyOfTheInitialValue) {
  const LoopTree tree = tree_of(R"(
  var i = 5
  var one = 1
  %x: f32[i] = read 0
  %v: f32[one] = read 1
  %w: f32[i] = scatter set(%x, %v) at [one + 3] for one
  %out: f32[i] = write 0 (%w) for i)");
  const Tensor x = filled(DType::kF32, {5}, [](int64_t i) { return i; });
  const Tensor nine = filled(DType::kF32, {1}, [](int64_t) { return 9; });
  EXPECT_EQ(elements(run_cpp(tree, {x, nine})[0]), (std::vector<double>{0, 1, 2, 9, 4}));
}

// ---- errors at run time ---------------------------------------------------------------------------------------------

class CppLookup : public ::testing::TestWithParam<const char*> {};

TEST_P(CppLookup, OutOfRangeIsAnError) {
  const LoopTree tree = tree_of(fmt::format(R"(
  var i = 40
  var j = 5
  %x: f32[j] = read 0
  %indices: i64[i] = read 1
  %y: f32[i] = view %x[r] else 0.0 with r = %indices in 5 for i{0}
  %out: f32[i] = write 0 (%y) for i{0})",
                                            GetParam()));
  const auto kernel = std::move(compile_all({tree})[0]);
  const Tensor x = filled(DType::kF32, {5}, [](int64_t i) { return 10 * i; });
  const Tensor good = filled(DType::kI64, {40}, [](int64_t i) { return i % 5; });
  EXPECT_EQ(elements(run(*kernel, tree.ir, std::vector{x, good}).value()[0]),
            elements(run_on("interpreter", tree, {x, good})[0]));
  for (int64_t bad : {int64_t{-1}, int64_t{5}, int64_t{1} << 40}) {
    const Tensor indices = filled(DType::kI64, {40}, [&](int64_t i) { return i == 33 ? bad : 0; });
    EXPECT_EQ(run(*kernel, tree.ir, std::vector{x, indices}).diagnostic().message,
              fmt::format("%y: index {} is out of range for a size of 5", bad));
  }
}

INSTANTIATE_TEST_SUITE_P(Loops, CppLookup, ::testing::Values("", " parallel", " vectorize", " unroll"));

TEST(Cpp, DivisionByZeroIsAnError) {
  const LoopTree tree = tree_of(R"(
  var i = 3
  %x: i32[i] = read 0
  %y: i32[i] = read 1
  %q: i32[i] = floor_div(%x, %y) for i vectorize
  %out: i32[i] = write 0 (%q) for i vectorize)");
  const auto kernel = std::move(compile_all({tree})[0]);
  const Tensor x = integers({7, -7, 9}, DType::kI32);
  EXPECT_EQ(elements(run(*kernel, tree.ir, std::vector{x, integers({2, 2, -1}, DType::kI32)}).value()[0]),
            (std::vector<double>{3, -4, -9}));
  EXPECT_EQ(run(*kernel, tree.ir, std::vector{x, integers({2, 0, 1}, DType::kI32)}).diagnostic().message,
            "%q: integer division of -7 by zero");
}

TEST(Cpp, ScratchThatDoesNotFitIsAnError) {
  const LoopTree tree = tree_of(R"(
  var i = N
  var j = M
  %x: f32[i] = read 0
  %y: f32[i, j] = neg(%x) for i, j
  %z: f32[i, j] = neg(%y) for new i, j
  %s: f32[i] = reduce add(%z) for j, i
  %out: f32[i] = write 0 (%s) for i)");
  const auto kernel = std::move(compile_all({tree})[0]);
  float number = 1;
  void* const memory[] = {&number, &number};
  const int64_t fine[] = {1, 1}, large[] = {int64_t{1} << 40, int64_t{1} << 40},
                negative_when_wrapped[] = {1, int64_t{1} << 62};
  kernel->run(memory, fine);
  for (std::span<const int64_t> sizes : {std::span(large), std::span(negative_when_wrapped)}) {
    EXPECT_THAT(error_of([&] { kernel->run(memory, sizes); }), HasSubstr("out of memory for its scratch array"));
  }
}

TEST(Cpp, ManyArraysDoNotOverflowTheStack) {
  IR ir("chain");
  const loops::VarRef i = ir.add_var("i", 4096);
  loops::NodeRef x = ir.add_read(DType::kF32, {i});
  for (int k = 0; k < 600; ++k) {
    x = ir.add_compute(op_named("neg"), {x}, {i});
    ir.set_loops(x, {{.var = i, .fresh = true}});
  }
  ir.set_loops(ir.add_write(x, {i}), {{.var = i, .fresh = true}});
  const LoopTree tree(std::move(ir));
  const Tensor ones = filled(DType::kF32, {4096}, [](int64_t) { return 1; });
  const auto kernel = std::move(compile_all({tree}, {.optimization = 0, .flags = {}})[0]);
  EXPECT_THAT(elements(run(*kernel, tree.ir, std::vector{ones}).value()[0]), Each(1));
}

TEST(Cpp, RunsFromSeveralThreadsAtOnce) {
  const LoopTree tree = tree_of(fmt::format(fmt::runtime(kSumOfRows), " parallel", " vectorize", " parallel"));
  const auto kernel = std::move(compile_all({tree})[0]);
  const Tensor x = filled(DType::kF32, {5, 100}, [](int64_t i) { return i % 7; });
  const std::vector<double> wanted = elements(run_on("interpreter", tree, {x})[0]);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        wrong += elements(run(*kernel, tree.ir, std::vector{x}).value()[0]) != wanted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- the text -------------------------------------------------------------------------------------------------------

TEST(Cpp, NamesThatCppKnowsAlreadyAreAvoided) {
  const LoopTree tree = tree_of(R"(
  var for = NULL
  var i = 3
  var load = 20
  %int: f32[for, load] = read 0
  %f32x16: f32[for, i, load] = neg(%int) for for, i, load vectorize
  %for: f32[for, i] = reduce add(%f32x16) for for, i, load vectorize
  %error: f32[for, i] = exp(%for) for for, i
  %memory: f32[for, i] = write 0 (%error) for for, i)");
  const Tensor x = filled(DType::kF32, {2, 20}, [](int64_t i) { return i % 3 - 1; });
  EXPECT_EQ(elements(run_cpp(tree, {x})[0]), elements(run_on("interpreter", tree, {x})[0]));
  const LoopTree errors = tree_of(R"(
  var i = 2
  %kTenonOutOfRange: f32[i] = read 0
  %kTenonDivisionByZero: i64[] = read 1
  %kTenonOutOfMemory: f32[] = view %kTenonOutOfRange[failed] with failed = %kTenonDivisionByZero in 2
  %out: f32[] = write 0 (%kTenonOutOfMemory))");
  const Tensor one = filled(DType::kI64, {}, [](int64_t) { return 1; });
  const Tensor numbers = filled(DType::kF32, {2}, [](int64_t i) { return i + 7; });
  EXPECT_EQ(elements(run_cpp(errors, {numbers, one})[0]), std::vector<double>{8});
  for (const char* name : {"", "for", "EOF", "1st", "a b"}) {
    EXPECT_EQ(error_of([&] { emit_cpp(tree, name); }), fmt::format("a C++ function cannot be named '{}'", name));
  }
}

TEST(Cpp, TheSourceCompilesOnItsOwn) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("tenon-test-{}", getpid());
  std::filesystem::create_directory(folder);
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const LoopTree tree = loops::testing::random_schedule(LoopTree(test::random_ir(seed)), 20, random);
    std::ofstream(folder / "kernel.cpp") << emit_cpp(tree, "kernel");
    for (const char* compiler : test::kCompilers) {
      const std::string command =
          fmt::format("cd {} && {} -std=c++17 -shared -fPIC -o kernel.so kernel.cpp", folder.string(), compiler);
      EXPECT_EQ(std::system(command.c_str()), 0) << emit_cpp(tree, "kernel");
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(Cpp, HelpersAreThereOnlyWhereTheyAreUsed) {
  const std::string text = emit_cpp(LoopTree(loops::testing::negate(10)), "negate");
  EXPECT_THAT(text, HasSubstr("// %y: f32[i] = neg(%x)\n    const f32 y = -x[i];"));
  for (const char* helper : {"erfinv", "splat", "struct Scratch", "floordiv"})
    EXPECT_THAT(text, Not(HasSubstr(helper)));
}

// ---- the compiler ---------------------------------------------------------------------------------------------------

TEST(Cpp, SaysWhatTheCompilerSays) {
  const LoopTree tree(loops::testing::negate(10));
  for (const char* name : test::kCompilers) {
    const Environment compiler("TENON_CXX", name);
    const std::string message =
        error_of([&] { compile_all({tree}, {.optimization = 1, .flags = {"-fno-such-thing"}}); });
    EXPECT_THAT(message, HasSubstr("the C++ compiler failed"));
    EXPECT_THAT(message, HasSubstr("no-such-thing"));
  }
}

TEST(Cpp, AMissingCompilerIsAnError) {
  const LoopTree tree(loops::testing::negate(10));
  {
    const Environment compiler("TENON_CXX", "/nowhere/c++");
    EXPECT_EQ(error_of([&] { compile_all({tree}); }), "cannot run the compiler /nowhere/c++ that TENON_CXX names");
  }
  {
    const Environment compiler("TENON_CXX", "false");
    EXPECT_THAT(error_of([&] { compile_all({tree}); }), HasSubstr("the C++ compiler failed:\n  false "));
  }
  const Environment compiler("TENON_CXX", ""), other("CXX", ""), path("PATH", "/nowhere");
  EXPECT_THAT(error_of([&] { compile_all({tree}); }), HasSubstr("there is no C++ compiler"));
}

TEST(Cpp, LeavesNoFilesBehind) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("tenon files {}", getpid());
  std::filesystem::create_directory(folder);
  {
    const Environment temporary("TMPDIR", folder.string());
    const LoopTree tree(loops::testing::negate(10));
    const auto kernels = compile_all({tree});
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    EXPECT_THAT(error_of([&] { compile_all({tree}, {.optimization = 1, .flags = {"-fno-such-thing"}}); }),
                HasSubstr("failed"));
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove(folder);
}

TEST(Cpp, ACompilerMayHaveSpacesInItsPathAndArguments) {
  const LoopTree tree(loops::testing::negate(10));
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("tenon cxx {}", getpid());
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("/usr/bin/g++", folder / "g++");
  for (const std::string& command : {(folder / "g++").string(), std::string("g++ -DNAME=1")}) {
    const Environment compiler("TENON_CXX", command);
    EXPECT_EQ(error_of([&] { compile_all({tree}); }), "no error");
  }
  std::filesystem::remove_all(folder);
}

TEST(Cpp, AMissingFolderForTemporaryFilesIsAnError) {
  const Environment temporary("TMPDIR", "/nowhere");
  EXPECT_EQ(error_of([] { compile_all({LoopTree(loops::testing::negate(10))}); }),
            "there is no folder /nowhere for temporary files: see TMPDIR");
}

TEST(Cpp, IsABackendByName) {
  const auto backend = find_backend("cpp").value();
  EXPECT_TRUE(backend->is_available());
  EXPECT_FALSE(backend->doc().empty());
  const LoopTree tree(loops::testing::negate(3));
  EXPECT_EQ(elements(run_on("cpp", tree, {filled(DType::kF32, {3}, [](int64_t i) { return i; })})[0]),
            (std::vector<double>{0, -1, -2}));
  EXPECT_EQ(backend->compile(tree).value()->dump(), emit_cpp(tree, "tenon_kernel_0"));
}

}  // namespace
}  // namespace tenon
