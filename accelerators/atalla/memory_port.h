// The memory's side of the port, for bodies with time: a request keeps its channel for as many cycles as it touches
// aligned beats of dma_bytes.
#pragma once

#include <cstdint>

namespace atalla {

class MemoryChannel {
 public:
  explicit MemoryChannel(uint32_t beat_bytes) : beat_(beat_bytes) {}
  // Called in each cycle in which there is a request. Whether this cycle is its last.
  bool takes(uint64_t address, uint64_t bytes) {
    const uint64_t beats = (address + bytes - 1) / beat_ - address / beat_ + 1;
    if (++used_ < beats) return false;
    used_ = 0;
    return true;
  }

 private:
  uint64_t beat_;
  uint64_t used_ = 0;
};

}  // namespace atalla
