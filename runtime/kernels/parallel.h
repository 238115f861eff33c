// Parallel loops and scratch arrays, for library kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernel.h"

namespace tenon {

// The number of elements that are worth a second thread: a few microseconds of work.
inline constexpr int64_t kWorthThreads = 1 << 14;

// Calls body(begin, end) -> error for stretches of [begin, end); on the calling thread alone if there are few elements.
template <class Body>
int64_t in_parallel(const tenon_services* services, int64_t begin, int64_t end, int64_t elements, Body body) {
  if (begin >= end) return 0;
  const tenon_stretch run = [](void* context, int64_t b, int64_t e) { return (*static_cast<Body*>(context))(b, e); };
  if (elements < kWorthThreads) return run(&body, begin, end);  // the body's code is there once
  return services->parallel_for(services, begin, end, run, &body);
}

// How many threads in_parallel uses for `count` things, of `threads`.
inline int64_t workers(int64_t count, int64_t elements, int64_t threads) {
  return std::min(count, elements < kWorthThreads ? 1 : threads);
}

// Scratch memory for `size` trivially constructible objects; null if there is none.
template <class T>
class ScratchArray {
 public:
  ScratchArray(const tenon_services* services, int64_t size) : services_(services) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(size, static_cast<int64_t>(sizeof(T)), &bytes)) return;
    data_ = static_cast<T*>(services->allocate(services, bytes));
  }
  ScratchArray(const ScratchArray&) = delete;
  ~ScratchArray() { services_->release(services_, data_); }
  T* get() const { return data_; }

 private:
  const tenon_services* services_;
  T* data_ = nullptr;
};

}  // namespace tenon
