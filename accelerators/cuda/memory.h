// Memory of the GPU and pinned memory of the host, kept for the next caller: the driver takes up to a millisecond for
// each block.
//
// What is freed may be given out again at once, because all commands of a device happen in one order (queue.h).
#pragma once

#include <map>
#include <vector>

#include "driver.h"

namespace tenon::cuda {

constexpr uint64_t kAlignment = 256;  // of every tensor

class Memory {
 public:
  explicit Memory(const Driver& driver) : driver_(driver) {}
  ~Memory();
  Memory(const Memory&) = delete;

  // Throws a StatusError that says how much is free.
  Address allocate(uint64_t bytes);
  void free(Address memory) noexcept;

 private:
  Address fresh(uint64_t bytes);
  void drop_free_blocks() noexcept;
  [[noreturn]] void fail_full(uint64_t bytes) const;

  const Driver& driver_;
  std::map<Address, uint64_t> blocks_;     // that are in use: their bytes
  std::multimap<uint64_t, Address> free_;  // by bytes
};

// Blocks of pinned memory, which copies pass through without holding up the host.
class Staging {
 public:
  static constexpr uint64_t kMostBytes = 1 << 20;  // of a block: larger copies are staged by the driver
  static constexpr uint64_t kMostBlocks = 32;

  explicit Staging(const Driver& driver) : driver_(driver) {}
  ~Staging();
  Staging(const Staging&) = delete;

  std::byte* take(uint64_t bytes);  // null where there is none: too large, or all are in use
  void give_back(std::byte* block) { free_.push_back(block); }

 private:
  const Driver& driver_;
  std::vector<std::byte*> blocks_;
  std::vector<std::byte*> free_;
};

}  // namespace tenon::cuda
