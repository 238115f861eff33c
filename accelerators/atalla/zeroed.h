// A large array of zeros. The operating system gives its pages when they are touched, so that a machine may have more
// memory than a run uses.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace atalla {

template <typename T>
class Zeroed {
 public:
  Zeroed() = default;
  explicit Zeroed(uint64_t count)
      : data_(static_cast<T*>(std::calloc(count == 0 ? 1 : count, sizeof(T)))), size_(count) {
    if (!data_) throw std::bad_alloc();
  }
  T& operator[](size_t index) { return data_.get()[index]; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<T> span() { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace atalla
