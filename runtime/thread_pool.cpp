#include "runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "runtime/cpus.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// The number of stretches per thread: more balance the load, fewer cost less.
constexpr int64_t kStretchesPerThread = 4;
constexpr auto kSpin = std::chrono::microseconds(40);
// The system may move a caller to a worker's CPU. The worker then moves to another CPU, but not too often.
constexpr auto kBetweenMoves = std::chrono::milliseconds(1);

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

// Waits until the value changes: spins first, if `spin`, then sleeps.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t from, bool spin) {
  constexpr int kPausesBetweenLooksAtTheClock = 16;
  uint32_t now = value.load(std::memory_order_acquire);
  if (now != from) return now;
  for (const auto end = spin ? Clock::now() + kSpin : Clock::time_point(); spin && Clock::now() < end;) {
    for (int i = 0; i < kPausesBetweenLooksAtTheClock; ++i) {
      now = value.load(std::memory_order_acquire);
      if (now != from) return now;
      pause();
    }
  }
  value.wait(from, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// ---- a loop ---------------------------------------------------------------------------------------------------------

class Loop {
 public:
  void start(int64_t begin, int64_t end, int64_t threads, StretchFn stretch, void* context) {
    const int64_t count = end - begin;
    stretch_ = stretch;
    context_ = context;
    error_.store(0, std::memory_order_relaxed);
    share_count_ = std::min(threads, count);
    stretch_size_ = std::max<int64_t>(1, count / (share_count_ * kStretchesPerThread));
    const int64_t each = count / share_count_, rest = count % share_count_;
    for (int64_t i = 0, at = begin; i < share_count_; ++i) {
      Share& share = shares_[static_cast<size_t>(i)];
      share.next.store(at, std::memory_order_relaxed);
      share.end = at += each + (i < rest ? 1 : 0);
    }
  }

  // Runs the own share, then the rest of the other threads' shares.
  void help(int64_t share) {
    for (int64_t i = 0; i < share_count_; ++i) drain(shares_[static_cast<size_t>((share + i) % share_count_)]);
  }

  int64_t share_count() const { return share_count_; }
  int64_t error() const { return error_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };

  void drain(Share& share) {
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t from = share.next.fetch_add(stretch_size_, std::memory_order_relaxed);
      if (from < share.end) run(from, std::min(from + stretch_size_, share.end));
    }
  }

  void run(int64_t begin, int64_t end) {
    if (error() != 0) return;
    int64_t none = 0;
    if (const int64_t failure = stretch_(context_, begin, end)) error_.compare_exchange_strong(none, failure);
  }

  StretchFn stretch_;
  void* context_;
  int64_t share_count_;
  int64_t stretch_size_;
  std::atomic<int64_t> error_;
  std::array<Share, kMostThreads> shares_;
};

// ---- who may work on it ---------------------------------------------------------------------------------------------

// Workers may come late, or not at all: a loop waits only for workers that entered before it was done.
class Gate {
 public:
  void open(int64_t invited) { state_.store(static_cast<uint32_t>(invited) << kInvited, std::memory_order_release); }

  bool enter(int64_t worker) {
    uint32_t state = state_.load(std::memory_order_relaxed);
    while (worker < (state >> kInvited)) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void leave() {
    constexpr uint32_t kClosedWithOneInside = 1;
    if (state_.fetch_sub(1, std::memory_order_release) == kClosedWithOneInside) state_.notify_one();
  }

  void close_and_wait(bool spin) {
    uint32_t inside = state_.fetch_and(kInside, std::memory_order_acquire) & kInside;
    while (inside > 0) inside = wait_for_change(state_, inside, spin);
  }

 private:
  static constexpr uint32_t kInvited = 16;  // the bit position of the number of invited workers
  static constexpr uint32_t kInside = (1u << kInvited) - 1;
  std::atomic<uint32_t> state_ = 0;
};

// ---- the pool -------------------------------------------------------------------------------------------------------

// Threads never end before the process. Neither does the pool, in which they wait.
class Pool {
 public:
  bool take() { return !taken_.exchange(true, std::memory_order_acquire); }

  // For the thread that holds the pool.
  int64_t run(int64_t begin, int64_t end, int64_t threads, StretchFn stretch, void* context) {
    start_workers(threads - 1);
    loop_.start(begin, end, std::min(threads, worker_count_ + 1), stretch, context);
    const int64_t helpers = loop_.share_count() - 1;
    place_workers(helpers);
    gate_.open(helpers);
    for (int64_t i = 0; i < helpers; ++i) call(workers_[static_cast<size_t>(i)]);
    loop_.help(0);
    gate_.close_and_wait(spin_.load(std::memory_order_relaxed));
    const int64_t error = loop_.error();
    taken_.store(false, std::memory_order_release);
    return error;
  }

 private:
  static constexpr int kAnyCpu = -1;

  struct alignas(64) Worker {
    std::atomic<uint32_t> calls = 0;
    Pool* pool;
    int64_t number;
    pthread_t thread;
    int cpu = kAnyCpu;
  };

  static void call(Worker& worker) {
    worker.calls.fetch_add(1, std::memory_order_release);
    worker.calls.notify_one();
  }

  [[noreturn]] static void work(Worker& self) {
    Pool& pool = *self.pool;
    for (uint32_t calls = 0;;) {
      calls = wait_for_change(self.calls, calls, pool.spin_.load(std::memory_order_relaxed));
      if (!pool.gate_.enter(self.number)) continue;
      pool.loop_.help(self.number + 1);
      pool.gate_.leave();
    }
  }

  // Starts workers, up to this number.
  void start_workers(int64_t wanted) {
    while (worker_count_ < wanted) {
      Worker& worker = workers_[static_cast<size_t>(worker_count_)];
      worker.pool = this;
      worker.number = worker_count_;
      const auto body = [](void* self) -> void* { work(*static_cast<Worker*>(self)); };
      if (pthread_create(&worker.thread, nullptr, body, &worker) != 0) return;
      pthread_detach(worker.thread);
      ++worker_count_;
    }
  }

  // Pins each helper to a CPU of its own. If there are too few CPUs, no thread is pinned and none spins.
  void place_workers(int64_t helpers) {
    const bool enough = helpers < static_cast<int64_t>(cpus_.size());
    if (spin_.load(std::memory_order_relaxed) != enough) spin_.store(enough, std::memory_order_relaxed);
    const int callers = current_cpu();
    for (int64_t i = 0; i < helpers; ++i) {
      Worker& worker = workers_[static_cast<size_t>(i)];
      if (!enough && worker.cpu != kAnyCpu) move(worker, kAnyCpu);
      if (enough && worker.cpu == kAnyCpu) move(worker, free_cpu(helpers, callers));
      if (enough && worker.cpu == callers && may_move()) move(worker, free_cpu(helpers, callers));
    }
  }

  int free_cpu(int64_t helpers, int callers) const {
    const auto is_free = [&](int cpu) {
      const auto end = workers_.begin() + helpers;
      return cpu != callers && std::none_of(workers_.begin(), end, [&](const Worker& w) { return w.cpu == cpu; });
    };
    const auto found = std::find_if(cpus_.begin(), cpus_.end(), is_free);
    return found == cpus_.end() ? kAnyCpu : *found;
  }

  void move(Worker& worker, int cpu) {
    if (worker.cpu == cpu) return;
    worker.cpu = cpu;
    run_on(worker.thread, cpu == kAnyCpu ? cpus_ : std::vector{cpu});
  }

  bool may_move() {
    const auto now = Clock::now();
    if (now - last_move_ < kBetweenMoves) return false;
    last_move_ = now;
    return true;
  }

  Loop loop_;
  Gate gate_;
  std::atomic<bool> taken_ = false;
  std::atomic<bool> spin_ = true;
  int64_t worker_count_ = 0;
  Clock::time_point last_move_;
  const std::vector<int> cpus_ = allowed_cpus();
  std::array<Worker, kMostThreads> workers_;
};

std::atomic<Pool*> the_pool = nullptr;

// A forked process has no workers: it starts its own pool.
const int kForksStartAnew =
    pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr, std::memory_order_relaxed); });

// Null if there is no memory.
Pool* pool() {
  Pool* found = the_pool.load(std::memory_order_acquire);
  if (found) return found;
  Pool* const made = new (std::nothrow) Pool;
  if (!made || the_pool.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  delete made;
  return found;
}

// ---- how many threads -----------------------------------------------------------------------------------------------

int64_t default_threads() {
  static const int64_t count = [] {
    const char* wanted = std::getenv("TENON_THREADS");
    const int64_t given = wanted ? std::atoll(wanted) : 0;
    return std::min(given > 0 ? given : static_cast<int64_t>(allowed_cpus().size()), kMostThreads);
  }();
  return count;
}

int64_t clamped(int64_t threads) { return std::clamp<int64_t>(threads, 0, kMostThreads); }

std::atomic<int64_t> process_threads = 0;
thread_local int64_t own_threads = 0;

}  // namespace

int64_t thread_count() noexcept {
  if (own_threads > 0) return own_threads;
  const int64_t threads = process_threads.load(std::memory_order_relaxed);
  return threads > 0 ? threads : default_threads();
}

void set_threads(int64_t threads) noexcept { process_threads.store(clamped(threads), std::memory_order_relaxed); }

int64_t set_own_threads(int64_t threads) noexcept { return std::exchange(own_threads, clamped(threads)); }

int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) noexcept {
  if (begin >= end) return 0;
  const int64_t threads = thread_count();
  Pool* const helpers = threads == 1 || end - begin == 1 ? nullptr : pool();
  if (!helpers || !helpers->take()) return stretch(context, begin, end);
  return helpers->run(begin, end, threads, stretch, context);
}

}  // namespace tenon
