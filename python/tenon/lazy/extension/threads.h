// Which thread made which tensors. A thread must leave alone the tensors of another one: PyTorch guards none of what it
// keeps of them. The tensors of a thread that has ended belong to everybody.
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

class TensorOwners {
 public:
  // Of all tensors of this process. It outlives every thread.
  static TensorOwners& get() {
    static TensorOwners* const all = new TensorOwners;
    return *all;
  }

  void add(int64_t tensor) {
    const std::lock_guard lock(mutex_);
    owners_.emplace(tensor, this_thread());
  }

  void remove(int64_t tensor) {
    const std::lock_guard lock(mutex_);
    owners_.erase(tensor);
  }

  // Tensors that another thread may use at this moment.
  bool is_of_another(int64_t tensor) const {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(tensor);
    return found != owners_.end() && is_another(*found->second);
  }

  // Whether another thread has tensors.
  bool has_others() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(owners_, [](const auto& entry) { return is_another(*entry.second); });
  }

 private:
  static bool is_another(const Thread& thread) { return &thread != this_thread().get() && !thread.has_ended; }

  mutable std::mutex mutex_;
  std::unordered_map<int64_t, ThreadPtr> owners_;  // by the id of a tensor
};

}  // namespace tenon::lazy_device
