// Memory with a budget: what is allocated never exceeds it, and what fits exactly fits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenon::runtime {

inline constexpr int64_t kAlignment = 64;
inline constexpr int64_t kNoBudget = INT64_MAX;

// Rounded up to whole lines of the cache; throws a StatusError when that overflows.
int64_t aligned_size(int64_t bytes);

class Allocator {
 public:
  explicit Allocator(int64_t budget = kNoBudget) : budget_(budget) {}
  Allocator(const Allocator&) = delete;

  // Aligned, with any content. Null when it does not fit the budget (then would_need says how much would) or when the
  // system has no more. May be called from several threads.
  void* allocate(int64_t bytes) noexcept;
  void deallocate(void* memory, int64_t bytes) noexcept;

  // Accounts for memory that somebody else gets: false when it does not fit.
  bool reserve(int64_t bytes) noexcept;
  void release(int64_t bytes) noexcept;

  int64_t budget() const { return budget_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t would_need() const { return would_need_.load(std::memory_order_relaxed); }  // of the last refusal; 0: none
  void forget_refusal() { would_need_.store(0, std::memory_order_relaxed); }

 private:
  int64_t budget_;
  std::atomic<int64_t> used_ = 0;
  std::atomic<int64_t> peak_ = 0;
  std::atomic<int64_t> would_need_ = 0;
};

// Memory of an allocator, given back when it goes.
class Block {
 public:
  Block() = default;
  Block(std::shared_ptr<Allocator> allocator, int64_t bytes);  // null data where there is none
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Somebody else's from now on: it counts no more, and the block is empty.
  std::shared_ptr<void> take();

 private:
  void swap(Block& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Allocator> allocator_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tenon::runtime
