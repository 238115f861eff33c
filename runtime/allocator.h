// An Allocator gives out memory up to a budget. An allocation that fits the budget exactly succeeds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenon::runtime {

inline constexpr int64_t kAlignment = 64;
inline constexpr int64_t kNoBudget = INT64_MAX;

// Rounds `bytes` up to whole cache lines. Throws a StatusError on overflow.
int64_t aligned_size(int64_t bytes);

// Aligned memory, with an address of its own if it is of 0 bytes; for std::free. Null if the system has no such memory.
void* allocate_aligned(int64_t bytes) noexcept;

class [[gnu::visibility("default")]] Allocator {  // visible in libtenon_compiler.so; libtenon_runtime.so hides it
 public:
  explicit Allocator(int64_t budget = kNoBudget) : budget_(budget) {}
  Allocator(const Allocator&) = delete;

  // Returns aligned, uninitialized memory. Returns null if the budget is too small (would_need() then says what would
  // be enough), or if the system is out of memory. Thread-safe.
  void* allocate(int64_t bytes) noexcept;
  void deallocate(void* memory, int64_t bytes) noexcept;

  // Counts memory that another owner allocates. Returns false if it does not fit the budget.
  bool reserve(int64_t bytes) noexcept;
  void release(int64_t bytes) noexcept;

  int64_t budget() const { return budget_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // the budget that the last refused allocation needed; 0: none was refused
  int64_t would_need() const { return would_need_.load(std::memory_order_relaxed); }
  void forget_refusal() { would_need_.store(0, std::memory_order_relaxed); }

 private:
  int64_t budget_;
  std::atomic<int64_t> used_ = 0;
  std::atomic<int64_t> peak_ = 0;
  std::atomic<int64_t> would_need_ = 0;
};

// A block of an Allocator's memory. The destructor gives it back.
class Block {
 public:
  Block() = default;
  Block(std::shared_ptr<Allocator> allocator, int64_t bytes);  // data() is null if the allocation fails
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Hands the memory to the caller. The budget no longer counts it, and the block is empty.
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
