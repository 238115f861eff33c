#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <vector>

namespace tenon {
namespace {

template <class Body>
int64_t in_parallel(int64_t begin, int64_t end, Body body) {
  return parallel_for(
      begin, end, [](void* context, int64_t b, int64_t e) { return (*static_cast<Body*>(context))(b, e); }, &body);
}

TEST(ThreadPool, RunsEveryIterationOnce) {
  for (const int64_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
    EXPECT_EQ(in_parallel(5, 5 + count,
                          [&](int64_t begin, int64_t end) -> int64_t {
                            for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i - 5)];
                            return 0;
                          }),
              0);
    for (const auto& run : runs) EXPECT_EQ(run, 1);
  }
}

TEST(ThreadPool, LoopsNest) {
  std::atomic<int64_t> sum = 0;
  const auto inner = [&](int64_t begin, int64_t end) -> int64_t { return sum += end - begin, 0; };
  for (int round = 0; round < 100; ++round) {
    in_parallel(0, 20, [&](int64_t begin, int64_t end) -> int64_t {
      for (int64_t i = begin; i < end; ++i) in_parallel(0, 10, inner);
      return 0;
    });
  }
  EXPECT_EQ(sum, 100 * 20 * 10);
}

TEST(ThreadPool, AnErrorEndsTheLoop) {
  const auto fails_at_7 = [](int64_t begin, int64_t end) -> int64_t { return begin <= 7 && 7 < end ? 42 : 0; };
  EXPECT_EQ(in_parallel(0, 1000, fails_at_7), 42);
  EXPECT_EQ(in_parallel(8, 1000, fails_at_7), 0);
}

// A fork inherits the pool without its threads.
// It leaves without a look for leaks: the pool of the process before the fork is one in its eyes.
TEST(ThreadPoolDeathTest, LoopsRunInAFork) {
  const auto count = [] {
    std::atomic<int64_t> runs = 0;
    in_parallel(0, 1000, [&](int64_t begin, int64_t end) -> int64_t { return runs += end - begin, 0; });
    return runs.load();
  };
  EXPECT_EQ(count(), 1000);
  EXPECT_EXIT(std::_Exit(count() == 1000 ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(count(), 1000);
}

}  // namespace
}  // namespace tenon
