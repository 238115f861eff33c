// A loop that several threads share, and the gate that lets them in: parts of the thread pool and of executors.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/thread_pool.h"

namespace tenon {

// Waits until the value is not `from`, and returns it: spins first, if `spin`, then sleeps.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t from, bool spin);

// The iterations of a loop, in one share per thread.
class Loop {
 public:
  void start(int64_t begin, int64_t end, int64_t threads, StretchFn stretch, void* context);
  // Runs the own share, then the rest of the other threads' shares.
  void help(int64_t share);

  int64_t share_count() const { return share_count_; }
  int64_t error() const { return error_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };

  void drain(Share& share);
  void run(int64_t begin, int64_t end);

  StretchFn stretch_;
  void* context_;
  int64_t share_count_;
  int64_t stretch_size_;
  std::atomic<int64_t> error_;
  std::array<Share, kMostThreads> shares_;
};

// Who may work on a loop. Helpers may come late, or not at all: a loop waits only for helpers that entered before it
// was done.
class Gate {
 public:
  void open(int64_t invited) { state_.store(static_cast<uint32_t>(invited) << kInvited, std::memory_order_release); }
  bool enter(int64_t helper);  // helpers have the numbers [0, invited)
  void leave();
  void close_and_wait(bool spin);

 private:
  static constexpr uint32_t kInvited = 16;  // the bit position of the number of invited helpers
  static constexpr uint32_t kInside = (1u << kInvited) - 1;
  std::atomic<uint32_t> state_ = 0;
};

}  // namespace tenon
