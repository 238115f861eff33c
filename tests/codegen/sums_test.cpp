// Sums of so many numbers that adding one after the other in f32 loses digits: 0.1 is always rounded the same way.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpp/cpp.h"
#include "tests/backends/support_fenced.h"
#include "tests/loops/support_kernels.h"

namespace tenon {
namespace {

using namespace loops;
using namespace loops::testing;

constexpr double kMostOff = 1.3e-6;  // of torch.testing.assert_close

struct LongSum {
  std::string name;
  std::string kernel;
  std::vector<Sizes> inputs;
};

void PrintTo(const LongSum& sum, std::ostream* out) { *out << sum.name; }

std::vector<Tensor> tenths(const LongSum& sum) {
  std::vector<Tensor> inputs;
  for (const Sizes& shape : sum.inputs) inputs.push_back(filled(DType::kF32, shape, [](int64_t) { return 0.1; }));
  return inputs;
}

// The interpreter adds up in f64.
void expect_exact(const LongSum& sum, const std::vector<Tensor>& results, const std::vector<Tensor>& exact) {
  ASSERT_EQ(results.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    const std::vector<double> ours = elements(results[i]), expected = elements(exact[i]);
    for (size_t at = 0; at < expected.size(); ++at) {
      ASSERT_NEAR(ours[at], expected[at], kMostOff * std::abs(expected[at])) << sum.name << ", element " << at;
    }
  }
}

LoopTree tree_of(const LongSum& sum) {
  return LoopTree(parse("tenon loops 1\nkernel sums {\n" + sum.kernel + "}\n").value());
}

const LongSum kSums[] = {
    {"FewColumns",
     R"(
  var i = 100003
  var j = 3
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for i, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{100003, 3}}},
    {"ColumnsInRegisters",
     R"(
  var i = 50001
  var j = 32
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for i, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{50001, 32}}},
    {"ManyColumns",
     R"(
  var i = 3001
  var j = 700
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for i, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{3001, 700}}},
    {"BlocksOfColumns",
     R"(
  var i = 20001
  var j = 100
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for j by 64 parallel, i by 4, j by 16, i unroll, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{20001, 100}}},
    {"OfUnknownLength",
     R"(
  symbol N in [1, 1000000]
  var i = N
  var j = 5
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for i, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{100003, 5}}},
    {"OfUnknownWidth",
     R"(
  symbol N in [1, 1000000]
  var i = 60001
  var j = N
  %x: f32[i, j] = read 0
  %s: f32[j] = reduce add(%x) for i, j vectorize
  %out: f32[j] = write 0 (%s) for j
)",
     {{60001, 5}}},
    {"Rows",
     R"(
  var i = 3
  var j = 300001
  %x: f32[i, j] = read 0
  %s: f32[i] = reduce add(%x) for i, j vectorize
  %out: f32[i] = write 0 (%s) for new i
)",
     {{3, 300001}}},
    {"FirstAndLast",
     R"(
  var i = 20001
  var j = 3
  var k = 7
  %x: f32[i, j, k] = read 0
  %s: f32[j] = reduce add(%x) for i, j, k vectorize
  %out: f32[j] = write 0 (%s) for new j
)",
     {{20001, 3, 7}}},
    {"TwoFirst",
     R"(
  var i = 3001
  var j = 11
  var k = 16
  %x: f32[i, j, k] = read 0
  %s: f32[k] = reduce add(%x) for i, j, k vectorize
  %out: f32[k] = write 0 (%s) for k
)",
     {{3001, 11, 16}}},
    {"LongInside",
     R"(
  symbol N in [1, 1000000]
  var i = 3
  var j = N
  var k = 16
  %x: f32[i, j, k] = read 0
  %s: f32[k] = reduce add(%x) for i, j, k vectorize
  %out: f32[k] = write 0 (%s) for k
)",
     {{3, 30001, 16}}},
    {"Products",
     R"(
  var m = 2
  var k = 100002
  var n = 16
  %a: f32[m, k] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for k by 2, k unroll, m unroll, n vectorize
  %c: f32[m, n] = reduce add(%p) for k by 2, k unroll, m unroll, n vectorize
  %out: f32[m, n] = write 0 (%c) for m, n
)",
     {{2, 100002}, {100002, 16}}},
    {"Transposed",
     R"(
  var k = 50001
  var m = 16
  var n = 16
  %a: f32[k, m] = read 0
  %b: f32[k, n] = read 1
  %p: f32[m, n, k] = mul(%a, %b) for k, m unroll, n vectorize
  %c: f32[m, n] = reduce add(%p) for k, m unroll, n vectorize
  %out: f32[n, m] = write 0 (%c) for n unroll, m vectorize
)",
     {{50001, 16}, {50001, 16}}},
    {"Scan",
     R"(
  var i = 100003
  %x: f32[i] = read 0
  %s: f32[i] = scan add(%x) along i for i
  %out: f32[i] = write 0 (%s) for i
)",
     {{100003}}},
    {"ScanOfColumns",
     R"(
  var i = 50001
  var j = 5
  %x: f32[i, j] = read 0
  %s: f32[i, j] = scan add(%x) along i for i, j vectorize
  %out: f32[i, j] = write 0 (%s) for i, j vectorize
)",
     {{50001, 5}}},
    {"ScanOfExponentials",
     R"(
  var i = 100003
  %x: f32[i] = read 0
  %s: f32[i] = scan logaddexp(%x) along i for i
  %out: f32[i] = write 0 (%s) for i
)",
     {{100003}}},
};

class LongSums : public ::testing::TestWithParam<LongSum> {};

TEST_P(LongSums, AreExactWithAndWithoutMasks) {
  const LoopTree tree = tree_of(GetParam());
  const std::vector<Tensor> inputs = tenths(GetParam());
  const std::vector<Tensor> exact = run_on("interpreter", tree, inputs);
  const LoopTree* const trees[] = {&tree};
  for (const char* cpu : {"native", "x86-64-v2"}) {
    SCOPED_TRACE(cpu);
    const auto compiled = test::compile_fenced(trees, {.cpu = cpu, .use_cache = false});
    expect_exact(GetParam(), run(*compiled[0], tree.ir, inputs).value(), exact);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LongSums, ::testing::ValuesIn(kSums),
                         [](const auto& info) { return info.param.name; });

TEST(Cpp, ManyLongSumsAreExact) {
  std::vector<LoopTree> trees;
  for (const LongSum& sum : kSums) trees.push_back(tree_of(sum));
  std::vector<const LoopTree*> all;
  for (const LoopTree& tree : trees) all.push_back(&tree);
  const auto kernels = compile_cpp(all, {.optimization = 1, .flags = {}});
  for (size_t i = 0; i < trees.size(); ++i) {
    const std::vector<Tensor> inputs = tenths(kSums[i]);
    expect_exact(kSums[i], run(*kernels[i], trees[i].ir, inputs).value(), run_on("interpreter", trees[i], inputs));
  }
}

}  // namespace
}  // namespace tenon
