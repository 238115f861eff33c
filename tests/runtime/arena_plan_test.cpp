#include "runtime/arena_plan.h"

#include <gtest/gtest.h>

#include "runtime/allocator.h"
#include "runtime/error.h"
#include "tests/graph/support_values.h"

namespace tenon::runtime {
namespace {

TEST(ArenaPlan, NothingThatLivesAtTheSameTimeOverlaps) {
  test::Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 20; ++i) {
      const auto first = static_cast<int64_t>(random() % 20);
      lifetimes.push_back({static_cast<int64_t>(random() % 1000), first, first + static_cast<int64_t>(random() % 6)});
    }
    const ArenaPlan plan = plan_arena(lifetimes);
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kAlignment, 0);
      EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.bytes);
      EXPECT_LE(least_arena(lifetimes), plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool meet = lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
        if (!meet || lifetimes[a].bytes == 0 || lifetimes[b].bytes == 0) continue;
        EXPECT_TRUE(plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                    plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a]);
      }
    }
  }
}

TEST(ArenaPlan, AnArenaBeyond64BitsIsAnError) {
  const Lifetime huge{INT64_MAX - 10, 0, 1};
  const Lifetime lifetimes[] = {huge, huge};
  EXPECT_THROW(plan_arena(lifetimes), StatusError);
}

TEST(ArenaPlan, TheLeastIsTheLargestSumOfWhatLivesAtOneTime) {
  const Lifetime lifetimes[] = {{64, 0, 1}, {128, 1, 2}, {256, 2, 2}, {64, 3, 3}};
  EXPECT_EQ(least_arena(lifetimes), 384);
  EXPECT_EQ(plan_arena(lifetimes).bytes, 384);
}

}  // namespace
}  // namespace tenon::runtime
