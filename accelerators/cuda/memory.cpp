#include "memory.h"

#include <utility>

namespace tenon::cuda {
namespace {

constexpr uint64_t kSmall = 1 << 20;

// Blocks have few sizes, so that a free one fits the next caller: multiples of 512 bytes, of 2 MiB from 1 MiB on.
uint64_t rounded(uint64_t bytes) {
  const uint64_t step = bytes < kSmall ? 512 : 2 << 20;
  if (bytes > UINT64_MAX - step) fail(TENON_OUT_OF_MEMORY, "no GPU has memory for ", bytes, " bytes");
  return (bytes + step - 1) / step * step;
}

// A free block of at most an eighth more is taken as it is.
bool is_close(uint64_t block, uint64_t bytes) { return block - bytes <= bytes / 8; }

}  // namespace

Memory::~Memory() {
  drop_free_blocks();
  for (const auto& [memory, bytes] : blocks_) driver_.free(memory);
}

Address Memory::allocate(uint64_t bytes) {
  bytes = rounded(bytes);
  const auto known = free_.lower_bound(bytes);
  if (known == free_.end() || !is_close(known->first, bytes)) {
    const Address memory = fresh(bytes);
    blocks_.emplace(memory, bytes);
    return memory;
  }
  const auto [size, memory] = *known;
  blocks_.emplace(memory, size);
  free_.erase(known);
  return memory;
}

Address Memory::fresh(uint64_t bytes) {
  Address memory = 0;
  Result result = driver_.allocate(&memory, bytes);
  if (result == kOutOfMemory && !free_.empty()) {
    drop_free_blocks();
    result = driver_.allocate(&memory, bytes);
  }
  if (result == kOutOfMemory) fail_full(bytes);
  driver_.check(result, "allocate memory of the GPU");
  return memory;
}

void Memory::fail_full(uint64_t bytes) const {
  size_t free = 0, total = 0;
  driver_.memory_info(&free, &total);
  fail(TENON_OUT_OF_MEMORY, "the GPU has no room for ", bytes, " bytes more: ", free, " of its ", total,
       " bytes are free");
}

void Memory::free(Address memory) noexcept {
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return;
  free_.emplace(found->second, memory);
  blocks_.erase(found);
}

void Memory::drop_free_blocks() noexcept {
  for (const auto& [bytes, memory] : std::exchange(free_, {})) driver_.free(memory);
}

Staging::~Staging() {
  for (std::byte* block : blocks_) driver_.free_host(block);
}

std::byte* Staging::take(uint64_t bytes) {
  if (bytes > kMostBytes) return nullptr;
  if (free_.empty()) {
    void* block = nullptr;
    if (blocks_.size() == kMostBlocks || driver_.allocate_host(&block, kMostBytes, 0) != kSuccess) return nullptr;
    blocks_.push_back(static_cast<std::byte*>(block));
    free_.push_back(blocks_.back());
  }
  std::byte* const block = free_.back();
  free_.pop_back();
  return block;
}

}  // namespace tenon::cuda
