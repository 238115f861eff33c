// Random kernels under random schedules: a legal edit never changes a result, an illegal one is refused with a reason.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loops/compiler.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon::loops {
namespace {

using namespace testing;

TEST(LoopFuzz, LegalEditsNeverChangeAResult) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const IR ir = test::random_ir(seed);
    const std::vector<Tensor> inputs = test::inputs_for(ir, seed);
    const LoopTree plain(ir);
    const std::vector<Tensor> wanted = run_on("interpreter", plain, inputs);
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string log;
    const LoopTree tree = random_schedule(plain, 30, random, &log);
    SCOPED_TRACE(fmt::format("seed {}\n{}{}{}", seed, to_string(ir), log, tree.dump()));
    const std::vector<Tensor> got = run_on("interpreter", tree, inputs);
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(elements(got[i]), elements(wanted[i])) << "output " << i;
    ASSERT_EQ(parse(to_string(tree.ir)).value(), tree.ir);
  }
}

// A kernel of symbolic sizes under a random schedule, run with several sizes, against the plain kernel of those sizes.
void expect_symbolic_agrees(const std::function<IR(Expr, Expr)>& kernel, uint32_t seed) {
  std::mt19937 random(seed);
  std::string log;
  const LoopTree tree = random_schedule(LoopTree(kernel(Symbol("M"), Symbol("N"))), 15, random, &log);
  for (const auto& [m, n] : {std::pair(1, 1), std::pair(0, 3), std::pair(5, 2), std::pair(7, 13), std::pair(4, 8)}) {
    SCOPED_TRACE(fmt::format("seed {}, M = {}, N = {}\n{}{}", seed, m, n, log, tree.dump()));
    const LoopTree plain(kernel(m, n));
    const std::vector<Tensor> inputs = test::inputs_for(plain.ir, seed);
    const std::vector<Tensor> wanted = run_on("interpreter", plain, inputs), got = run_on("interpreter", tree, inputs);
    // Two stages of a fold round twice.
    const auto is_near = ::testing::Pointwise(::testing::DoubleNear(1e-6), elements(wanted[0]));
    ASSERT_THAT(elements(got[0]), is_near);
  }
}

TEST(LoopFuzz, SymbolicSizesWorkUnderEverySchedule) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    expect_symbolic_agrees([](const Expr& m, const Expr& n) { return matmul(m, n, m); }, seed);
    expect_symbolic_agrees([](const Expr& m, const Expr& n) { return row_softmax(m, n); }, seed);
    expect_symbolic_agrees([](const Expr& m, const Expr&) { return padded_conv1d(m, 3); }, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(LoopFuzz, IllegalEditsAreRefusedWithAReason) {
  int refused = 0;
  for (uint64_t seed = 0; refused < 1000; ++seed) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    LoopTree tree(test::random_ir(seed));
    const IR before = tree.ir;
    for (int i = 0; i < 20; ++i) {
      const Proposal proposal = random_edit(tree, random);
      if (proposal.result.ok()) continue;
      ++refused;
      EXPECT_GT(proposal.result.diagnostic().message.size(), 10u) << proposal.what;
    }
    ASSERT_EQ(tree.ir, before);
  }
}

}  // namespace
}  // namespace tenon::loops
