// Which thread owns which tensors: the one that made them. A thread must leave alone the tensors of another one, since
// PyTorch guards none of what it keeps of them. The tensors of a thread that has ended go to the first that needs them.
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

  // Whether the tensor is this thread's. One of a thread that has ended becomes so.
  bool take(int64_t tensor) {
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(tensor);
    if (found == owners_.end()) return true;
    if (is_another(*found->second)) return false;
    found->second = this_thread();
    return true;
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
