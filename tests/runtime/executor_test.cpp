#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <semaphore>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace tenon {
namespace {

// An executor that does as the function says.
class Caller {
 public:
  using Body = std::function<void(int64_t index)>;
  using Parallel = std::function<void(int64_t count, const Body& body)>;

  explicit Caller(Parallel parallel) : parallel_(std::move(parallel)) {}

  tenon_executor executor() {
    return {
        .parallel = [](void* user, int64_t count, void (*body)(void* data, int64_t index),
                       void* data) { static_cast<Caller*>(user)->parallel_(count, [=](int64_t i) { body(data, i); }); },
        .user = this};
  }

 private:
  Parallel parallel_;
};

void on_threads(int64_t count, const Caller::Body& body) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

template <class Body>
int64_t run(ExecutorLoop& loop, int64_t count, Body body) {
  return loop.run(
      0, count, [](void* context, int64_t b, int64_t e) { return (*static_cast<Body*>(context))(b, e); }, &body);
}

// Whether each iteration runs once, and before the loop ends: the numbers are plain, so that ThreadSanitizer
// (robustness_thread) sees an order that is missing.
bool runs_all_once(ExecutorLoop& loop, int64_t count) {
  std::vector<int> runs(static_cast<size_t>(count));
  const int64_t error = run(loop, count, [&](int64_t begin, int64_t end) -> int64_t {
    for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
    return 0;
  });
  return error == 0 && std::ranges::all_of(runs, [](int each) { return each == 1; });
}

bool runs_all_once(Caller::Parallel parallel) {
  Caller caller(std::move(parallel));
  ExecutorLoop loop(caller.executor());
  bool right = true;
  for (const int64_t threads : {1, 2, 3, 8}) {
    const ThreadCount guard(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 31, 1000}) right &= runs_all_once(loop, count);
  }
  return right;
}

TEST(Executor, RunsEveryIterationOnce) { EXPECT_TRUE(runs_all_once(on_threads)); }

TEST(Executor, ThatDoesAsItLikesChangesNothing) {
  EXPECT_TRUE(runs_all_once([](int64_t, const Caller::Body&) {})) << "nothing runs";
  EXPECT_TRUE(runs_all_once([](int64_t, const Caller::Body& body) { body(0); })) << "only the first runs";
  EXPECT_TRUE(runs_all_once([](int64_t count, const Caller::Body& body) {
    on_threads(count, body);
    on_threads(count, body);
  })) << "all run twice";
  EXPECT_TRUE(runs_all_once([](int64_t count, const Caller::Body& body) {
    for (const int64_t wrong : {int64_t{-1}, INT64_MIN, count, count + 1, INT64_MAX}) body(wrong);
  })) << "there are no such indices";
}

TEST(Executor, IsAskedForTheThreadsOfALoop) {
  std::vector<int64_t> counts;
  Caller caller([&](int64_t count, const Caller::Body&) { counts.push_back(count); });
  ExecutorLoop loop(caller.executor());
  for (const int64_t threads : {1, 4}) {
    const ThreadCount guard(threads);
    for (const int64_t count : {1, 3, 100}) runs_all_once(loop, count);
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 4}));
}

TEST(Executor, ALoopInALoopStaysOnItsThread) {
  std::atomic<int> asked = 0, elsewhere = 0, inner = 0;
  Caller caller([&](int64_t count, const Caller::Body& body) {
    ++asked;
    on_threads(count - 1, body);  // the calling thread has the rest
  });
  ExecutorLoop loop(caller.executor());
  const ThreadCount guard(4);
  run(loop, 20, [&](int64_t begin, int64_t end) -> int64_t {
    const std::thread::id outer = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i) {
      run(loop, 50, [&](int64_t b, int64_t e) -> int64_t {
        elsewhere += std::this_thread::get_id() != outer;
        return inner += static_cast<int>(e - b), 0;
      });
    }
    return 0;
  });
  EXPECT_EQ(inner, 20 * 50);
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(asked, 1);
}

TEST(Executor, ThatThrowsFinishesTheLoopFirst) {
  Caller caller([](int64_t, const Caller::Body& body) {
    body(1);
    throw std::runtime_error("no threads");
  });
  ExecutorLoop loop(caller.executor());
  const ThreadCount guard(4);
  loop.check();
  EXPECT_TRUE(runs_all_once(loop, 100));
  try {
    loop.check();
    FAIL() << "it threw";
  } catch (const runtime::StatusError& error) {
    EXPECT_EQ(error.message(), "the executor threw: no threads");
  }
  loop.check();  // each failure once
}

TEST(Executor, MayReturnWhileABodyRuns) {
  std::thread left;
  std::binary_semaphore begun(0), may_end(0);
  Caller caller([&](int64_t, const Caller::Body& body) {
    left = std::thread(body, 1);
    begun.acquire();
  });
  ExecutorLoop loop(caller.executor());
  const ThreadCount guard(2);
  std::vector<int> runs(2);  // plain, as above: nothing but the loop's end orders the helper's write and the read here
  const std::thread::id caller_thread = std::this_thread::get_id();
  run(loop, 2, [&](int64_t begin, int64_t end) -> int64_t {
    if (std::this_thread::get_id() == caller_thread) {
      may_end.release();
    } else {
      begun.release();
      may_end.acquire();
    }
    for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
    return 0;
  });
  EXPECT_EQ(runs, (std::vector{1, 1}));
  left.join();
}

TEST(Executor, MayKeepABodyTooLong) {
  Caller::Body kept;
  Caller caller([&](int64_t, const Caller::Body& body) { kept = body; });
  ExecutorLoop loop(caller.executor());
  const ThreadCount guard(4);
  EXPECT_TRUE(runs_all_once(loop, 100));
  kept(2);
}

TEST(Executor, AnErrorEndsTheLoop) {
  Caller caller(on_threads);
  ExecutorLoop loop(caller.executor());
  const ThreadCount guard(4);
  EXPECT_EQ(run(loop, 1000, [](int64_t begin, int64_t end) -> int64_t { return begin <= 7 && 7 < end ? 42 : 0; }), 42);
  EXPECT_TRUE(runs_all_once(loop, 1000));
}

}  // namespace
}  // namespace tenon
