// The thread pool: a loop runs on its caller's thread and on workers that live as long as the process.
//
// Workers start when a loop first needs them. A loop that takes all CPUs has each pinned to its own, away from the
// caller's, unless $TENON_PIN_THREADS is 0; other loops have none pinned. An idle worker spins for a moment, because
// loops often follow each other, and then sleeps. One loop at a time has the workers: a nested loop, or a loop of
// another thread meanwhile, runs on its caller's thread alone.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kMostThreads = 512;

// The number of threads of the calling thread's loops, including itself. With 1, no thread is started. If the system
// refuses to start threads, fewer do the work.
int64_t thread_count() noexcept;

// Sets the number for the process, at most kMostThreads. 0: the default, $TENON_THREADS or the number of CPUs that the
// process may use: of its affinity, but no more than its quota (cpu_quota.h).
void set_threads(int64_t threads) noexcept;
// Sets the number for the calling thread; 0: the number of the process. Returns the old setting.
int64_t set_own_threads(int64_t threads) noexcept;

// `const ThreadCount one(1);` sets the calling thread's number until the end of the scope.
class ThreadCount {
 public:
  explicit ThreadCount(int64_t threads) noexcept : before_(set_own_threads(threads)) {}
  ThreadCount(const ThreadCount&) = delete;
  ~ThreadCount() { set_own_threads(before_); }

 private:
  int64_t before_;
};

// Runs the stretch [begin, end) of a loop. Returns 0, or an error that ends the loop. Does not throw.
using StretchFn = int64_t (*)(void* context, int64_t begin, int64_t end);

// Runs [begin, end) on several threads, including the caller's, and returns the first error. Each thread has a
// contiguous share, the same in loops of the same length, and takes work from others when it is done. May be called
// from any thread, from a stretch, and in a forked process (unless a stretch forked it).
int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept;

}  // namespace tenon
