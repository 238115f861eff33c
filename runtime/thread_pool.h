// Threads that run loops together: a caller, and workers that live as long as the process.
//
// Workers are started when a loop first asks for them, and each is pinned to a CPU of its own, away from the caller's;
// where there are more threads than CPUs, none is pinned. A worker that has nothing to do spins for a moment, as loops
// often follow each other, then sleeps. One loop has the workers at a time: a loop inside of it, or one that another
// thread starts meanwhile, runs on its caller's thread alone.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr int64_t kMostThreads = 512;

// How many threads a loop of the calling thread runs on, its own among them. 1 means that no thread is ever started.
// Fewer do the work where the system refuses some.
int64_t thread_count() noexcept;

// For the process; at most kMostThreads, and 0 is the default: $TENON_THREADS, or the CPUs that the process may run on.
void set_threads(int64_t threads) noexcept;
// For the calling thread alone, where 0 is what the process has. Returns what was set before.
int64_t set_own_threads(int64_t threads) noexcept;

// `const ThreadCount one(1);`: the calling thread's, until the scope ends.
class ThreadCount {
 public:
  explicit ThreadCount(int64_t threads) noexcept : before_(set_own_threads(threads)) {}
  ThreadCount(const ThreadCount&) = delete;
  ~ThreadCount() { set_own_threads(before_); }

 private:
  int64_t before_;
};

// Runs one stretch [begin, end) of a loop. Returns 0, or an error that ends the loop. Does not throw.
using StretchFn = int64_t (*)(void* context, int64_t begin, int64_t end);

// Runs all of [begin, end) on several threads, the caller's among them, and returns the first error. Each thread has a
// contiguous share, the same one in loops of the same length, and helps the others when it is done with it. May be
// called from any thread, also from a stretch, and in a fork of the process (but not in one that a stretch makes).
int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept;

}  // namespace tenon
