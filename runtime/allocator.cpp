#include "runtime/allocator.h"

#include <cstdlib>
#include <utility>

#include "runtime/checked.h"

namespace tenon::runtime {

int64_t aligned_size(int64_t bytes) { return checked_add(bytes, kAlignment - 1) / kAlignment * kAlignment; }

void* allocate_aligned(int64_t bytes) noexcept {
  const uint64_t whole = (static_cast<uint64_t>(bytes) + kAlignment) / kAlignment * kAlignment;
  return whole <= SIZE_MAX ? std::aligned_alloc(kAlignment, static_cast<size_t>(whole)) : nullptr;
}

bool Allocator::reserve(int64_t bytes) noexcept {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > budget_ - used) {
      int64_t needed;
      would_need_.store(__builtin_add_overflow(used, bytes, &needed) ? kNoBudget : needed, std::memory_order_relaxed);
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < used + bytes && !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return true;
}

void Allocator::release(int64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

void* Allocator::allocate(int64_t bytes) noexcept {
  if (!reserve(bytes)) return nullptr;
  void* const memory = allocate_aligned(bytes);
  if (memory == nullptr) release(bytes);
  return memory;
}

void Allocator::deallocate(void* memory, int64_t bytes) noexcept {
  if (memory == nullptr) return;
  std::free(memory);
  release(bytes);
}

Block::Block(std::shared_ptr<Allocator> allocator, int64_t bytes) : allocator_(std::move(allocator)), bytes_(bytes) {
  data_ = static_cast<std::byte*>(allocator_->allocate(bytes));
}

std::shared_ptr<void> Block::take() {
  std::byte* const data = std::exchange(data_, nullptr);
  if (data != nullptr) allocator_->release(bytes_);
  *this = Block();
  return {data, std::free};
}

Block::~Block() {
  if (allocator_) allocator_->deallocate(data_, bytes_);
}

}  // namespace tenon::runtime
