// Blocks of an address range: the first gap that fits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

namespace atalla {

class Heap {
 public:
  Heap(uint64_t begin, uint64_t end) : begin_(begin), end_(end) {}

  // Throws std::runtime_error if there is no gap.
  uint64_t allocate(uint64_t bytes, uint64_t alignment) {
    bytes = std::max<uint64_t>(bytes, 1);  // an empty block, too, has an address that is no other's
    const auto aligned = [&](uint64_t address) { return (address + alignment - 1) / alignment * alignment; };
    uint64_t at = aligned(begin_);
    for (const auto& [address, size] : blocks_) {
      if (at <= address && address - at >= bytes) break;
      at = aligned(address + size);
    }
    if (at > end_ || bytes > end_ - at)
      throw std::runtime_error("the device's memory has no place for " + std::to_string(bytes) + " bytes");
    blocks_[at] = bytes;
    return at;
  }

  void free(uint64_t address) { blocks_.erase(address); }

 private:
  uint64_t begin_, end_;
  std::map<uint64_t, uint64_t> blocks_;  // by address: bytes
};

}  // namespace atalla
