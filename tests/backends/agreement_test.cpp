// Random graphs under random schedules: the reference, the interpreter, the C++ and the CPU backend agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "backends/cpp/cpp.h"
#include "graph/evaluate.h"
#include "tests/backends/support_fenced.h"
#include "tests/loops/support_lowered.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using loops::LoopTree;

constexpr int kShards = 20;    // tests that run side by side
constexpr int kPairs = 150;    // of a graph and a schedule, in each
constexpr size_t kBatch = 50;  // kernels that are compiled at once

struct Case {
  test::LoweredGraph lowered;
  LoopTree tree;
  std::string log;
};

// Draws seeds until there are enough graphs that can be a kernel and have a result.
std::vector<Case> draw(uint64_t& seed, size_t count) {
  std::vector<Case> cases;
  for (; cases.size() < count; ++seed) {
    std::optional<test::LoweredGraph> lowered = test::random_lowered(seed);
    if (!lowered) continue;
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string log = fmt::format("seed {}\n", seed);
    LoopTree tree = loops::testing::random_schedule(LoopTree(lowered->ir), 20, random, &log);
    cases.push_back({std::move(*lowered), std::move(tree), std::move(log)});
  }
  return cases;
}

void expect_agrees(const Case& one, const Compiled& kernel) {
  const auto outputs = run(kernel, one.tree.ir, one.lowered.arguments, one.lowered.sizes);
  ASSERT_TRUE(outputs.ok()) << outputs.diagnostic().text();
  ASSERT_EQ(outputs->size(), one.lowered.expected.size());
  for (size_t i = 0; i < outputs->size(); ++i) {
    ASSERT_TRUE(test::close((*outputs)[i], one.lowered.expected[i])) << "output " << i;
  }
}

// Where the tests run under sanitizers, so do the kernels: the same compiler must make them.
CppOptions kernel_options() {
#ifdef TENON_SANITIZED_CXX
  setenv("TENON_CXX", TENON_SANITIZED_CXX, 1);
  return {.optimization = 0, .flags = {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"}};
#else
  return {.optimization = 0, .flags = {}};
#endif
}

class Agreement : public ::testing::TestWithParam<int> {};

TEST_P(Agreement, OfReferenceInterpreterCppAndCpu) {
  uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000;
  const auto interpreter = find_backend("interpreter").value();
  for (size_t done = 0; done < kPairs; done += kBatch) {
    const std::vector<Case> cases = draw(seed, kBatch);
    std::vector<const LoopTree*> trees;
    for (const Case& one : cases) trees.push_back(&one.tree);
    const std::vector<std::unique_ptr<Compiled>> kernels = compile_cpp(trees, kernel_options());
    const std::vector<std::unique_ptr<Compiled>> native = test::compile_fenced(trees, {.use_cache = false});
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(to_string(cases[i].lowered.graph) + cases[i].log + cases[i].tree.dump());
      expect_agrees(cases[i], *interpreter->compile(cases[i].tree).value());
      expect_agrees(cases[i], *kernels[i]);
      expect_agrees(cases[i], *native[i]);
      if (HasFatalFailure()) return;
    }
  }
}

// Under qemu: `make test-arm` says how many.
class AgreementOnArm64 : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = test::cannot_run(GetParam()); !why.empty()) GTEST_SKIP() << why;
    if (const char* const text = std::getenv("TENON_ARM64_PAIRS")) pairs_ = std::strtoull(text, nullptr, 10);
  }
  void TearDown() override {
    if (!IsSkipped() && !HasFailure() && std::getenv("TENON_ARM64_PAIRS"))
      fmt::print("{} random kernels under random schedules agree on {}\n", pairs_, GetParam());
  }

  size_t pairs_ = 200;
};

TEST_P(AgreementOnArm64, OfReferenceAndCode) {
  uint64_t seed = 77'000'000;
  for (size_t done = 0; done < pairs_; done += kBatch) {
    const std::vector<Case> cases = draw(seed, std::min(kBatch, pairs_ - done));
    std::vector<const LoopTree*> trees;
    for (const Case& one : cases) trees.push_back(&one.tree);
    const auto kernels = test::compile_fenced(trees, {.cpu = GetParam(), .use_cache = false});
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(to_string(cases[i].lowered.graph) + cases[i].log + cases[i].tree.dump());
      expect_agrees(cases[i], *kernels[i]);
      if (HasFatalFailure()) return;
    }
  }
}

std::string without_punctuation(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::ranges::replace_if(name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cpus, AgreementOnArm64, ::testing::Values("aarch64", "neoverse-v2", "neoverse-v1+sve256"),
                         without_punctuation);

INSTANTIATE_TEST_SUITE_P(Shards, Agreement, ::testing::Range(0, kShards));

}  // namespace
}  // namespace tenon
