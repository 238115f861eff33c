// The arena plan: the position of each temporary in the arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::runtime {

// A temporary: its bytes, and the range of time in which it is needed.
struct Lifetime {
  int64_t bytes;
  int64_t first;
  int64_t last;  // inclusive
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // of each lifetime, aligned
  int64_t bytes = 0;
};

// Plans so that temporaries that live at the same time do not overlap. Throws a StatusError if the arena exceeds int64.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

// The largest sum of sizes at any one time. No plan needs less.
int64_t least_arena(std::span<const Lifetime> lifetimes);

}  // namespace tenon::runtime
