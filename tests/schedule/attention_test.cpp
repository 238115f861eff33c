#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backends/backend.h"
#include "graph/evaluate.h"
#include "loops/compiler.h"
#include "loops/lower.h"
#include "schedule/default_schedule.h"
#include "tests/graph/support_values.h"
#include "tests/schedule/support_schedule.h"

namespace tenon {
namespace {

using loops::Compiler;
using loops::LoopTree;
using test::expect_schedule_agrees;
using test::scheduled;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Shapes {
  std::string query, key, value, out;
  std::string mask = "";
  std::string attrs = "";
  std::string dtype = "f32";
};

std::string attention(const Shapes& s) {
  const bool is_symbolic = (s.query + s.key).find('N') != std::string::npos;
  const std::string mask_input = s.mask.empty() ? "" : ", %m: " + s.mask;
  return fmt::format(
      "graph g(%q: {0}[{1}], %k: {0}[{2}], %v: {0}[{3}]{5}) {{\n{8}  %o: {0}[{4}] = "
      "scaled_dot_product_attention(%q, %k, %v, {6}){7}\n  return %o\n}}\n",
      s.dtype, s.query, s.key, s.value, s.out, mask_input, s.mask.empty() ? "none" : "%m",
      s.attrs.empty() ? "" : " {" + s.attrs + "}", is_symbolic ? "  symbol N in [0, 4096]\n" : "");
}

std::string square(int64_t heads, int64_t length, int64_t features, const std::string& attrs = "") {
  const std::string shape = fmt::format("1, {}, {}, {}", heads, length, features);
  return attention({shape, shape, shape, shape, "", attrs});
}

// ---- the schedule ---------------------------------------------------------------------------------------------------

TEST(AttentionSchedule, ThreadsShareAllBatchesIfOneLoopHasTooFew) {
  const Shapes shapes{"8, 12, 128, 64", "8, 12, 128, 64", "8, 12, 128, 64", "8, 12, 128, 64"};
  const loops::IR kernel = lower(parse_graph(attention(shapes)).value()).value();
  const auto text = [&](int64_t threads) { return default_schedule(kernel, {.threads = threads}).dump(); };
  EXPECT_THAT(text(8), ::testing::HasSubstr("for i in 8 parallel\n  for j in 12\n"));
  EXPECT_THAT(text(16), ::testing::HasSubstr("for i in 8 parallel\n  for j in 12 parallel\n"));
}

TEST(AttentionSchedule, HasNoArrayOfAllQueriesAndKeys) {
  for (const std::string attrs : {"", "causal=true"}) {
    const LoopTree tree = scheduled(square(12, 1024, 64, attrs));
    const Compiler compiler(tree);
    int64_t largest = 0;
    for (const auto& [ref, memory] : compiler.allocations) {
      if (memory.scratch) largest = std::max(largest, memory.size().constant());
    }
    EXPECT_LE(largest, 1024 * 64) << tree.dump();  // the keys of a head
  }
}

TEST(AttentionSchedule, KeepsTilesOfBothProductsInRegisters) {
  const std::string tree = scheduled(square(12, 1024, 64)).dump();
  EXPECT_EQ(tree.find("for j in 12 parallel"), tree.find("for ")) << tree;
  EXPECT_NE(tree.find(R"(for l in 32 by 2
            for l in 2 unroll
              for k in 4 unroll
                for j2 in 4 unroll
                  for k2 in 16 vectorize)"),
            std::string::npos)
      << tree;
  EXPECT_NE(tree.find(R"(for k2 in 8 by 2
            for k2 in 2 unroll
              for k in 4 unroll
                for n1 in 4 by 16 unroll
                  for n1 in 16 vectorize)"),
            std::string::npos)
      << tree;
}

// Sixteen registers: eight of them are sums, whatever the vectors have.
TEST(AttentionSchedule, KeepsTilesInFewRegistersToo) {
  const loops::IR kernel = lower(parse_graph(square(12, 1024, 64)).value()).value();
  const auto tree_for = [&](int64_t vector_bytes) {
    return default_schedule(kernel, Machine{.vector_bytes = vector_bytes, .vector_registers = 16, .threads = 2}).dump();
  };
  EXPECT_NE(tree_for(32).find(R"(for j2 in 32
        for k in 8 by 4
          for l in 32 by 2
            for l in 2 unroll
              for k in 4 unroll
                for k2 in 2 by 8 unroll
                  for k2 in 8 vectorize)"),
            std::string::npos)
      << tree_for(32);
  EXPECT_NE(tree_for(16).find(R"(for j2 in 32
        for k2 in 2 by 8
          for k in 8 by 4
            for l in 32 by 2
              for l in 2 unroll
                for k in 4 unroll
                  for k2 in 2 by 4 unroll
                    for k2 in 4 vectorize)"),
            std::string::npos)
      << tree_for(16);
}

TEST(AttentionSchedule, GivesThreadsBlocksOfQueriesWhereThereIsOneHead) {
  EXPECT_NE(scheduled(square(1, 512, 64)).dump().find("for k in 16 by 32 parallel"), std::string::npos);
}

// ---- results --------------------------------------------------------------------------------------------------------

TEST(AttentionSchedule, AgreesOnLengthsAroundTheBlocks) {
  for (const int64_t length : {1, 2, 15, 16, 17, 63, 65, 128, 257}) {
    expect_schedule_agrees(square(2, length, 8));
    expect_schedule_agrees(square(2, length, 8, "causal=true"));
  }
}

TEST(AttentionSchedule, AgreesOnFeatures) {
  for (const int64_t features : {1, 3, 16, 33, 64, 96, 128}) expect_schedule_agrees(square(2, 40, features));
  expect_schedule_agrees(attention({"2, 40, 24", "2, 70, 24", "2, 70, 65", "2, 40, 65", "", "scale=0.3"}));
}

TEST(AttentionSchedule, AgreesOnDifferentLengths) {
  for (const int64_t queries : {1, 3, 33, 150}) {
    for (const int64_t keys : {1, 20, 300}) {
      const std::string q = fmt::format("2, {}, 16", queries), k = fmt::format("2, {}, 16", keys);
      expect_schedule_agrees(attention({q, k, k, q}));
      expect_schedule_agrees(attention({q, k, k, q, "", "causal=true"}));
    }
  }
}

TEST(AttentionSchedule, AgreesWithMasks) {
  const std::string q = "2, 3, 40, 16", k = "2, 3, 300, 16";
  for (const std::string mask : {"bool[40, 300]", "bool[2, 1, 1, 300]", "bool[2, 3, 40, 300]", "f32[40, 300]",
                                 "f32[3, 40, 1]", "f32[2, 3, 40, 300]", "f32[300]"}) {
    expect_schedule_agrees(attention({q, k, k, q, mask}));
  }
}

TEST(AttentionSchedule, AgreesWithSharedAndBroadcastHeads) {
  expect_schedule_agrees(
      attention({"2, 6, 40, 16", "2, 2, 70, 16", "2, 2, 70, 16", "2, 6, 40, 16", "", "enable_gqa=true"}));
  expect_schedule_agrees(
      attention({"2, 6, 1, 16", "2, 2, 70, 16", "2, 2, 70, 16", "2, 6, 1, 16", "", "enable_gqa=true"}));
  expect_schedule_agrees(attention({"2, 6, 40, 16", "1, 6, 70, 16", "6, 70, 16", "2, 6, 40, 16"}));
  expect_schedule_agrees(attention({"40, 16", "6, 70, 16", "70, 16", "6, 40, 16"}));
}

TEST(AttentionSchedule, AgreesInOtherDtypes) {
  for (const std::string dtype : {"f64", "bf16", "f16"}) {
    const std::string shape = "2, 70, 24";
    expect_schedule_agrees(attention({shape, shape, shape, shape, "", "causal=true", dtype}));
    expect_schedule_agrees(attention({shape, shape, shape, shape, "bool[70, 70]", "", dtype}));
  }
}

TEST(AttentionSchedule, AgreesOnLengthsThatAreKnownLater) {
  for (const int64_t n : {0, 1, 5, 64, 129, 200}) {
    expect_schedule_agrees(attention({"2, N, 16", "2, N, 16", "2, N, 16", "2, N, 16"}), n);
    expect_schedule_agrees(attention({"2, N, 16", "2, N, 16", "2, N, 16", "2, N, 16", "", "causal=true"}), n);
    expect_schedule_agrees(attention({"2, 1, 16", "2, N, 16", "2, N, 16", "2, 1, 16", "bool[N]"}), n);
    expect_schedule_agrees(attention({"N, 40, 16", "N, 40, 16", "N, 40, 16", "N, 40, 16"}), n % 7);
  }
}

TEST(AttentionSchedule, AgreesWithWhatIsAroundIt) {
  expect_schedule_agrees(R"(graph g(%x: f32[2, 40, 16], %y: f32[2, 40, 16]) {
  %a: f32[2, 40, 16] = relu(%x)
  %b: f32[2, 40, 16] = scaled_dot_product_attention(%a, %a, %y, none)
  %c: f32[2, 40, 16] = add(%b, %x)
  %d: f32[2, 40, 16] = gelu(%c)
  return %d
}
)");
}

// ---- what is no number ----------------------------------------------------------------------------------------------

class SpecialAttention : public testing::Test {
 protected:
  static constexpr int64_t kQueries = 6, kKeys = 600, kFeatures = 4;

  SpecialAttention()
      : graph_(
            parse_graph(attention({fmt::format("{}, {}", kQueries, kFeatures), fmt::format("{}, {}", kKeys, kFeatures),
                                   fmt::format("{}, {}", kKeys, kFeatures), fmt::format("{}, {}", kQueries, kFeatures),
                                   fmt::format("f32[{}, {}]", kQueries, kKeys)}))
                .value()) {
    test::Random random(3);
    for (ValueRef input : graph_.inputs()) {
      inputs_.push_back(test::random_tensor(graph_.type(input), {}, Domain{}, random));
    }
  }

  void mask(int64_t query, int64_t first, int64_t past, double value) {
    for (int64_t key = first; key < past; ++key) inputs_[3].set_real(query * kKeys + key, value);
  }

  std::vector<double> result() {
    const auto backend = find_backend("cpu").value();
    const LoopTree tree = backend->schedule(lower(graph_).value());
    const std::vector<Tensor> got = run(*backend->compile(tree).value(), tree.ir, inputs_).value();
    EXPECT_TRUE(test::close(got[0], evaluate(graph_, inputs_).value()[0])) << tree.dump();
    return test::values_of(got[0]);
  }

  Graph graph_;
  std::vector<Tensor> inputs_;
};

TEST_F(SpecialAttention, ARowThatIsMaskedEverywhereGivesZeros) {
  mask(2, 0, kKeys, -kInfinity);
  mask(3, 0, kKeys - 1, -kInfinity);  // all blocks but the last, and all of that but one
  mask(4, 1, kKeys, -kInfinity);
  const std::vector<double> out = result();
  for (int64_t i = 0; i < kFeatures; ++i) {
    EXPECT_EQ(out[static_cast<size_t>(2 * kFeatures + i)], 0);
    EXPECT_NEAR(out[static_cast<size_t>(3 * kFeatures + i)], inputs_[2].real((kKeys - 1) * kFeatures + i), 1e-6);
    EXPECT_NEAR(out[static_cast<size_t>(4 * kFeatures + i)], inputs_[2].real(i), 1e-6);
  }
}

TEST_F(SpecialAttention, InfinityAndNaNSpreadOverTheirRow) {
  mask(0, 300, 301, kInfinity);
  mask(1, 17, 18, std::nan(""));
  const std::vector<double> out = result();
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i < 2 * kFeatures) << i;
}

TEST_F(SpecialAttention, LargeScoresStayExact) {
  mask(0, 0, kKeys, 1e30);
  mask(1, 0, kKeys, -1e30);
  mask(2, 0, 300, 1e4);
  mask(3, 0, kKeys, std::numeric_limits<float>::lowest());  // for all the same, so it makes no difference
  for (const double value : result()) EXPECT_TRUE(std::isfinite(value) && value != 0) << value;
}

}  // namespace
}  // namespace tenon
