#include "runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cpu_quota.h"
#include "runtime/cpus.h"
#include "runtime/parallel_loop.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

// The system may move a caller to a worker's CPU. The worker then moves to another CPU, but not too often.
constexpr auto kBetweenMoves = std::chrono::milliseconds(1);

// ---- the pool -------------------------------------------------------------------------------------------------------

bool may_pin() {
  const char* const setting = std::getenv("TENON_PIN_THREADS");
  return !setting || std::string_view(setting) != "0";
}

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

  // Pins each helper to a CPU of its own, if the loop takes all CPUs. A smaller loop is not pinned: the system finds
  // CPUs for it that no other process uses. If there are too few CPUs, none of the threads spins.
  void place_workers(int64_t helpers) {
    const auto cpus = static_cast<int64_t>(cpus_.size());
    const bool spins = helpers < cpus, pins = may_pin_ && helpers == cpus - 1;
    if (spin_.load(std::memory_order_relaxed) != spins) spin_.store(spins, std::memory_order_relaxed);
    const int callers = pins ? current_cpu() : kAnyCpu;
    for (int64_t i = 0; i < helpers; ++i) {
      Worker& worker = workers_[static_cast<size_t>(i)];
      if (!pins && worker.cpu != kAnyCpu) move(worker, kAnyCpu);
      if (pins && worker.cpu == kAnyCpu) move(worker, free_cpu(helpers, callers));
      if (pins && worker.cpu == callers && may_move()) move(worker, free_cpu(helpers, callers));
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
  const bool may_pin_ = may_pin();
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

int64_t usable_cpus() { return std::min(static_cast<int64_t>(allowed_cpus().size()), cpu_quota()); }

int64_t default_threads() {
  static const int64_t count = [] {
    const char* wanted = std::getenv("TENON_THREADS");
    const int64_t given = wanted ? std::atoll(wanted) : 0;
    return std::min(given > 0 ? given : usable_cpus(), kMostThreads);
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
