#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/cpu_quota.h"
#include "runtime/cpus.h"
#include "tests/support_cpu_time.h"

namespace tenon {
namespace {

template <class Body>
int64_t in_parallel(int64_t begin, int64_t end, Body body) {
  return parallel_for(
      begin, end, [](void* context, int64_t b, int64_t e) { return (*static_cast<Body*>(context))(b, e); }, &body);
}

int64_t counted(int64_t count) {
  std::atomic<int64_t> runs = 0;
  in_parallel(0, count, [&](int64_t begin, int64_t end) -> int64_t { return runs += end - begin, 0; });
  return runs;
}

int64_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// A loop that ends only when `threads` threads are in it at once.
std::set<pthread_t> meet(int64_t threads) {
  std::vector<std::atomic<pthread_t>> who(static_cast<size_t>(threads));
  std::atomic<int64_t> here = 0;
  in_parallel(0, threads, [&](int64_t begin, int64_t end) -> int64_t {
    for (int64_t i = begin; i < end; ++i) {
      who[static_cast<size_t>(i)] = pthread_self();
      for (++here; here < threads;) std::this_thread::yield();
    }
    return 0;
  });
  return {who.begin(), who.end()};
}

TEST(ThreadPool, RunsEveryIterationOnce) {
  for (const int64_t threads : {1, 2, 3, 8}) {
    const ThreadCount guard(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 31, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      EXPECT_EQ(in_parallel(-5, count - 5,
                            [&](int64_t begin, int64_t end) -> int64_t {
                              for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i + 5)];
                              return 0;
                            }),
                0);
      for (const auto& run : runs) EXPECT_EQ(run, 1);
    }
  }
}

TEST(ThreadPool, SeveralThreadsRunAtOnce) {
  for (const int64_t threads : {2, 3, 5, 2}) {
    const ThreadCount guard(threads);
    EXPECT_EQ(std::ssize(meet(threads)), threads);
  }
}

TEST(ThreadPool, LoopsNest) {
  const ThreadCount guard(4);
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

TEST(ThreadPool, ALoopInALoopStaysOnItsThread) {
  const ThreadCount guard(4);
  std::atomic<int> elsewhere = 0;
  in_parallel(0, 20, [&](int64_t, int64_t) -> int64_t {
    const pthread_t outer = pthread_self();
    return in_parallel(0, 50, [&](int64_t, int64_t) -> int64_t { return elsewhere += pthread_self() != outer, 0; });
  });
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadPool, AnErrorEndsTheLoop) {
  const auto fails_at_7 = [](int64_t begin, int64_t end) -> int64_t { return begin <= 7 && 7 < end ? 42 : 0; };
  for (const int64_t threads : {1, 2, 4}) {
    const ThreadCount guard(threads);
    EXPECT_EQ(in_parallel(0, 1000, fails_at_7), 42);
    EXPECT_EQ(in_parallel(8, 1000, fails_at_7), 0);
    EXPECT_EQ(in_parallel(0, 20, [&](int64_t, int64_t) { return in_parallel(0, 20, fails_at_7); }), 42);
  }
}

TEST(ThreadPool, AnErrorSkipsWhatIsNotBegun) {
  const ThreadCount guard(2);
  std::atomic<int> stretches = 0;
  in_parallel(0, 1 << 20, [&](int64_t, int64_t) -> int64_t { return ++stretches; });
  EXPECT_LE(stretches, 2);  // each thread may have begun one
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  const ThreadCount guard(4);
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      const ThreadCount own(1 + caller % 4);
      for (int round = 0; round < 500; ++round) wrong += counted(round) != round;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, LoopsAfterAPauseFindItsWorkersAsleep) {
  const ThreadCount guard(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(std::ssize(meet(2)), 2);
  }
}

TEST(ThreadPool, WorkersSleepSoonAfterTheWork) {
  const ThreadCount guard(2);
  double least = HUGE_VAL;
  for (int tries = 0; tries < 5; ++tries) {
    meet(2);
    least = std::min(least, test::cpu_seconds_of([] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }));
  }
  EXPECT_LT(least, 0.01);
}

// ---- how many threads -----------------------------------------------------------------------------------------------

TEST(ThreadCount, IsTheCallersOrTheProcesss) {
  const int64_t of_process = thread_count();
  {
    const ThreadCount three(3);
    EXPECT_EQ(thread_count(), 3);
    {
      const ThreadCount one(1);
      EXPECT_EQ(thread_count(), 1);
    }
    EXPECT_EQ(thread_count(), 3);
    int64_t of_other = 0;
    std::thread([&] { of_other = thread_count(); }).join();
    EXPECT_EQ(of_other, of_process);
    set_threads(5);
    EXPECT_EQ(thread_count(), 3);
  }
  EXPECT_EQ(thread_count(), 5);
  set_threads(int64_t{1} << 40);
  EXPECT_EQ(thread_count(), kMostThreads);
  set_threads(0);
  EXPECT_EQ(thread_count(), of_process);
}

// In a process of its own, which has no workers yet.
TEST(ThreadCountDeathTest, OneStartsNoThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto one_starts_none = [] {
    const int64_t before = threads_of_process();
    {
      const ThreadCount one(1);
      counted(1000);
    }
    if (threads_of_process() != before) return false;
    const ThreadCount three(3);
    meet(3);
    return threads_of_process() >= before + 2;  // ThreadSanitizer starts one of its own
  };
  EXPECT_EXIT(std::_Exit(one_starts_none() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(ThreadCountDeathTest, FollowsTheEnvironmentOrTheCpus) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with = [](const char* value) {
    value ? setenv("TENON_THREADS", value, 1) : unsetenv("TENON_THREADS");
    std::_Exit(static_cast<int>(thread_count()));
  };
  EXPECT_EXIT(with("7"), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(with("1"), ::testing::ExitedWithCode(1), "");
  const int cpus = static_cast<int>(std::min<int64_t>(std::ssize(allowed_cpus()), cpu_quota()));
  for (const char* value : {static_cast<const char*>(nullptr), "", "0", "-3", "many"}) {
    EXPECT_EXIT(with(value), ::testing::ExitedWithCode(cpus), "");
  }
  const auto on_one_cpu = [&] {
    run_on(pthread_self(), {allowed_cpus().back()});
    with(nullptr);
  };
  EXPECT_EXIT(on_one_cpu(), ::testing::ExitedWithCode(1), "");
}

// ---- CPUs -----------------------------------------------------------------------------------------------------------

// The CPUs that each thread of a loop may run on, the caller's first.
std::vector<std::vector<int>> cpus_of_threads(int64_t threads) {
  std::vector<std::vector<int>> cpus(1, allowed_cpus());
  std::mutex mutex;
  const pthread_t caller = pthread_self();
  std::atomic<int64_t> here = 0;
  in_parallel(0, threads, [&](int64_t, int64_t) -> int64_t {
    for (++here; here < threads;) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    if (pthread_self() != caller) cpus.push_back(allowed_cpus());
    return 0;
  });
  return cpus;
}

// Whether each is bound to one CPU, all of them to different ones.
bool are_apart(int callers, const std::vector<std::vector<int>>& cpus) {
  std::set<int> taken = {callers};
  return std::all_of(cpus.begin() + 1, cpus.end(),
                     [&](const std::vector<int>& own) { return own.size() == 1 && taken.insert(own[0]).second; });
}

TEST(ThreadPoolCpus, EachWorkerHasItsOwnAwayFromTheCaller) {
  const std::vector<int> all = allowed_cpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU has no place for a worker";
  const ThreadCount guard(std::ssize(all));
  cpus_of_threads(std::ssize(all));  // the workers start with all CPUs
  for (const int callers : all) {    // and make room wherever the caller goes, a little later
    run_on(pthread_self(), {callers});
    bool apart = false;
    for (int tries = 0; tries < 100 && !apart; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      apart = are_apart(callers, cpus_of_threads(std::ssize(all)));
    }
    EXPECT_TRUE(apart) << "the caller runs on CPU " << callers;
  }
  run_on(pthread_self(), all);
}

TEST(ThreadPoolCpus, MoreThreadsThanCpusRunAnywhere) {
  const std::vector<int> all = allowed_cpus();
  const int64_t many = std::ssize(all) + 2;
  const ThreadCount guard(many);
  const auto cpus = cpus_of_threads(many);
  EXPECT_EQ(std::ssize(cpus), many);
  for (const std::vector<int>& of_thread : cpus) EXPECT_EQ(of_thread, all);
}

// ---- forks ----------------------------------------------------------------------------------------------------------

// A fork inherits the pool without its threads.
// It leaves without a look for leaks: the pool of the process before the fork is one in its eyes.
TEST(ThreadPoolDeathTest, LoopsRunInAFork) {
  const ThreadCount guard(2);
  EXPECT_EQ(counted(1000), 1000);
  EXPECT_EXIT(std::_Exit(counted(1000) == 1000 && std::ssize(meet(2)) == 2 ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(counted(1000), 1000);
}

}  // namespace
}  // namespace tenon
