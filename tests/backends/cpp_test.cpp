#include "backends/cpp/cpp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/graph/support_values.h"
#include "tests/loops/support_kernels.h"
#include "tests/loops/support_random_ir.h"
#include "tests/loops/support_random_schedule.h"

namespace tenon {
namespace {

using namespace loops;
using namespace loops::testing;
using ::testing::HasSubstr;

TEST(CppScratch, Dump) {
  const LoopTree tree(parse(R"(tenon loops 1
kernel matmul {
  var m = 512
  var k = 512
  var n = 512
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for m by 2, n by 64, k, m unroll, n by 16 unroll, n vectorize
  %c: f32[m, n] = reduce add(%p) for m by 2, n by 64, k, m unroll, n by 16 unroll, n vectorize
  %out: f32[m, n] = write 0 (%c) for m by 2, n by 64, m unroll, n by 16 unroll, n vectorize
})").value());
  fmt::print("{}\n{}", tree.dump(), emit_cpp(tree, "matmul"));
  fmt::print("{}\n", emit_cpp(LoopTree(row_softmax(Symbol("N"), 10)), "softmax"));
}

TEST(CppFuzz, AgreesWithTheInterpreter) {
  const int count = std::getenv("COUNT") ? atoi(std::getenv("COUNT")) : 100;
  const int first = std::getenv("FIRST") ? atoi(std::getenv("FIRST")) : 0;
  const int batch = 100;
  for (int begin = first; begin < count; begin += batch) {
    std::vector<LoopTree> trees;
    std::vector<std::string> logs;
    for (int seed = begin; seed < std::min(begin + batch, count); ++seed) {
      std::mt19937 random(static_cast<uint32_t>(seed));
      trees.push_back(random_schedule(LoopTree(test::random_ir(static_cast<uint64_t>(seed))), 30, random, &logs.emplace_back()));
    }
    std::vector<const LoopTree*> pointers;
    for (const LoopTree& tree : trees) pointers.push_back(&tree);
    CppOptions options{.optimization = 1};
    if (std::getenv("FLAG")) options.flags.push_back(std::getenv("FLAG"));
    const auto kernels = compile_cpp(pointers, options);
    for (size_t i = 0; i < trees.size(); ++i) {
      const auto inputs = test::inputs_for(trees[i].ir, begin + i);
      const auto wanted = run_on("interpreter", trees[i], inputs);
      const auto got = run(*kernels[i], trees[i].ir, inputs);
      SCOPED_TRACE(fmt::format("seed {}\n{}{}{}", begin + i, logs[i], trees[i].dump(), kernels[i]->dump()));
      for (size_t j = 0; j < wanted.size(); ++j) ASSERT_EQ(elements(got.value()[j]), elements(wanted[j])) << "output " << j;
    }
  }
}

}  // namespace
}  // namespace tenon
