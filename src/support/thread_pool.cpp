#include "support/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace tenon {
namespace {

// Stretches for each thread: more even out their times, fewer cost less.
constexpr int64_t kStretchesPerThread = 4;

struct Loop {
  int64_t end;
  int64_t stretch_size;
  StretchFn stretch;
  void* context;
  std::atomic<int64_t> next;
  std::atomic<int64_t> left;  // iterations that are not done
  std::atomic<int64_t> error = 0;

  // Takes stretches until there are none. Whoever comes after the last touches nothing but this.
  void help() {
    while (true) {
      const int64_t from = next.fetch_add(stretch_size);
      if (from >= end) return;
      const int64_t count = std::min(stretch_size, end - from);
      int64_t none = 0;
      if (error == 0) {
        if (const int64_t failure = stretch(context, from, from + count)) error.compare_exchange_strong(none, failure);
      }
      if (left.fetch_sub(count) == count) left.notify_all();
    }
  }
};

// Its threads are never ended: the process does that. So is the pool itself, which they wait in.
class Pool {
 public:
  // Where the system gives no more threads, fewer do.
  explicit Pool(int64_t threads) {
    try {
      for (; threads_ < threads; ++threads_) std::thread([this] { work(); }).detach();
    } catch (const std::system_error&) {
      return;
    }
  }

  void ask_for_help(const std::shared_ptr<Loop>& loop) {
    {
      const std::lock_guard lock(mutex_);
      for (int64_t i = 0; i < threads_; ++i) loops_.push_back(loop);
    }
    changed_.notify_all();
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !loops_.empty(); });
      const std::shared_ptr<Loop> loop = std::move(loops_.front());
      loops_.pop_front();
      lock.unlock();
      loop->help();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Loop>> loops_;
  int64_t threads_ = 0;
};

// ---- one for the process --------------------------------------------------------------------------------------------

std::mutex pool_mutex;
Pool* the_pool = nullptr;

// A fork has none of the threads, and what they held stays locked: it starts a pool of its own.
void survive_forks() {
  pthread_atfork([] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
                 [] {
                   the_pool = nullptr;
                   pool_mutex.unlock();
                 });
}

Pool& pool() {
  static std::once_flag once;
  std::call_once(once, survive_forks);
  const std::lock_guard lock(pool_mutex);
  if (!the_pool) the_pool = new Pool(thread_count() - 1);
  return *the_pool;
}

}  // namespace

int64_t thread_count() {
  static const int64_t count = [] {
    const char* wanted = std::getenv("TENON_THREADS");
    const int64_t given = wanted ? std::atoll(wanted) : 0;
    return given > 0 ? given : std::max<int64_t>(1, std::thread::hardware_concurrency());
  }();
  return count;
}

int64_t parallel_for(int64_t begin, int64_t end, StretchFn stretch, void* context) {
  if (begin >= end) return 0;
  const int64_t count = end - begin;
  if (thread_count() == 1 || count == 1) return stretch(context, begin, end);
  const int64_t stretch_size = std::max<int64_t>(1, count / (thread_count() * kStretchesPerThread));
  const auto loop = std::make_shared<Loop>(end, stretch_size, stretch, context, begin, count);
  pool().ask_for_help(loop);
  loop->help();
  for (int64_t left = loop->left; left > 0; left = loop->left) loop->left.wait(left);
  return loop->error;
}

}  // namespace tenon
