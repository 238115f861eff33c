// The memory plan: where in one arena each temporary lies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::runtime {

// A stretch of the arena that is needed for a stretch of time.
struct Lifetime {
  int64_t bytes;
  int64_t first;
  int64_t last;  // inclusive
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // of each lifetime, aligned
  int64_t bytes = 0;
};

// No two that live at the same time overlap. Sizes are checked: an arena beyond int64 is a StatusError.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

// The largest sum of what lives at one time: no plan needs less.
int64_t least_arena(std::span<const Lifetime> lifetimes);

}  // namespace tenon::runtime
