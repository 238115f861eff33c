// Which thread recorded which tensors. A thread must leave alone what another one is recording: PyTorch guards none of
// it. What a thread recorded that has ended since belongs to everybody.
#pragma once

#include <torch/csrc/lazy/core/tensor.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace tenon::lazy_device {

struct Thread {
  std::atomic<bool> has_ended = false;
};

using ThreadPtr = std::shared_ptr<Thread>;

inline const ThreadPtr& this_thread() {
  struct Self {
    ThreadPtr thread = std::make_shared<Thread>();
    ~Self() { thread->has_ended = true; }
  };
  static thread_local const Self self;
  return self.thread;
}

class Recorders {
 public:
  // Of all that is recorded in this process. It outlives every thread.
  static Recorders& get() {
    static Recorders* const all = new Recorders;
    return *all;
  }

  void add(int64_t tensor) {
    const std::lock_guard lock(mutex_);
    recorders_.emplace(tensor, this_thread());
  }

  void remove(int64_t tensor) {
    const std::lock_guard lock(mutex_);
    recorders_.erase(tensor);
  }

  // Tensors that another thread may use at this moment.
  bool is_of_another(int64_t tensor) const {
    const std::lock_guard lock(mutex_);
    const auto found = recorders_.find(tensor);
    return found != recorders_.end() && is_another(*found->second);
  }

  bool has_others() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(recorders_, [](const auto& entry) { return is_another(*entry.second); });
  }

 private:
  static bool is_another(const Thread& thread) { return &thread != this_thread().get() && !thread.has_ended; }

  mutable std::mutex mutex_;
  std::unordered_map<int64_t, ThreadPtr> recorders_;  // by the id of a tensor with recorded calls
};

}  // namespace tenon::lazy_device
