// Limits that schedules and all emitters of code share.
#pragma once

#include <cstdint>

namespace tenon::loops {

// Numbers that one accumulator adds one after the other. Its rounding error grows with their number, so longer sums are
// added up in blocks.
inline constexpr int64_t kLongestChain = 64;

// The largest array of a kernel that is on the stack. Larger arrays come from the host, see runtime/kernel.h.
inline constexpr int64_t kMostStackArrayBytes = 1 << 14;

}  // namespace tenon::loops
