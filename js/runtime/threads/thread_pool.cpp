// Threads are workers of the page (js/thread.mjs), each with an instance of this module over the same memory. They wait
// in tenon_help for loops of the one thread that runs programs.
#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "shared_code.h"

namespace tenon {
namespace {

// The number of stretches per thread: more balance the load, fewer cost less.
constexpr int64_t kStretchesPerThread = 4;
// How often a thread looks before it sleeps: loops often follow each other.
constexpr int kLooks = 20'000;

// A number that threads wait for.
class Signal {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  void raise() {
    value_.fetch_add(1, std::memory_order_release);
    __builtin_wasm_memory_atomic_notify(address(), ~0u);
  }

  uint32_t wait(uint32_t from) {
    for (int look = 0; look < kLooks; ++look) {
      if (value() != from) return value();
    }
    while (value() == from) __builtin_wasm_memory_atomic_wait32(address(), static_cast<int>(from), -1);
    return value();
  }

 private:
  int* address() { return reinterpret_cast<int*>(&value_); }
  std::atomic<uint32_t> value_ = 0;
};

struct SharedLoop {
  StretchFn stretch;
  void* context;
  int64_t end;
  int64_t step;
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> error = 0;

  void help() {
    while (error.load(std::memory_order_relaxed) == 0) {
      const int64_t from = next.fetch_add(step, std::memory_order_relaxed);
      if (from >= end) return;
      int64_t none = 0;
      if (const int64_t failure = stretch(context, from, std::min(from + step, end)))
        error.compare_exchange_strong(none, failure);
    }
  }
};

SharedLoop loop;
Signal calls;
// Threads inside of the loop. Closed, nobody enters: threads may come late, or not at all.
constexpr uint32_t kClosed = 1u << 31;
std::atomic<uint32_t> inside = kClosed;
int64_t helpers = 0;  // threads of the pool
int64_t process_count = 0;
thread_local int64_t own_count = 0;
thread_local bool is_inside = false;
thread_local bool is_busy = false;  // with a loop: one inside of it runs on this thread alone

bool enter() {
  uint32_t count = inside.load(std::memory_order_relaxed);
  while (!(count & kClosed)) {
    if (inside.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) return is_inside = true;
  }
  return false;
}

void leave() {
  is_inside = false;
  inside.fetch_sub(1, std::memory_order_release);
}

// The thread of a page must not sleep, so it looks until all have left.
void close_and_wait() {
  inside.fetch_or(kClosed, std::memory_order_acquire);
  while (inside.load(std::memory_order_acquire) != kClosed) {
  }
}

}  // namespace

int64_t thread_count() noexcept {
  const int64_t wanted = own_count > 0 ? own_count : process_count;
  return wanted > 0 ? std::min(wanted, helpers + 1) : helpers + 1;
}
void set_threads(int64_t threads) noexcept { process_count = threads; }
int64_t set_own_threads(int64_t threads) noexcept { return std::exchange(own_count, threads); }

int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept {
  const int64_t threads = std::min(thread_count(), end - begin);
  if (begin >= end) return 0;
  if (threads == 1 || is_busy) return stretch(context, begin, end);
  is_busy = true;
  loop.stretch = stretch;
  loop.context = context;
  loop.end = end;
  loop.step = std::max<int64_t>(1, (end - begin) / (threads * kStretchesPerThread));
  loop.next = begin;
  loop.error = 0;
  inside.store(0, std::memory_order_release);
  calls.raise();
  loop.help();
  close_and_wait();
  is_busy = false;
  return loop.error;
}

}  // namespace tenon

// After a trap, which ends tenon_help: the loop fails, and nobody waits for this thread.
extern "C" void tenon_fail() {
  if (!tenon::is_inside) return;
  tenon::loop.error = -1;
  tenon::leave();
}

// A worker calls it when it is ready, and stays.
extern "C" void tenon_help() {
  tenon::is_busy = true;
  for (uint32_t seen = 0;;) {
    seen = tenon::calls.wait(seen);
    if (!tenon::enter()) continue;
    tenon::runtime::adopt_code();
    tenon::loop.help();
    tenon::leave();
  }
}

extern "C" void tenon_set_helpers(int64_t count) { tenon::helpers = count; }

// The thread ends with the page: its variables need no destructors.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
