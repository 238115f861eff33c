// Memory that runs out at a chosen allocation. Whoever links this has its operator new, and with
// -Wl,--wrap=aligned_alloc that one too.
#pragma once

#include <cstdint>

namespace tenon::golden {

// While it lives, allocation `number` (from 0) fails, or all from that one on.
class FailAllocation {
 public:
  FailAllocation(int64_t number, bool all_after);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;

  static int64_t count();  // of allocations so far
};

int64_t live_blocks();  // of operator new that nobody has deleted

}  // namespace tenon::golden
