// The memory plan: where in one arena each temporary lies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/type.h"

namespace tenon {

enum class SlotKind : uint8_t {
  kInput,      // the caller's memory
  kLeaf,       // memory of the model that may change: buffers that are updated, weights that are not frozen
  kConstant,   // weights, prepared or as they are
  kTemporary,  // in the arena, from the task that writes it to the last one that reads it
  kHeld,       // a tensor that its task makes: the host and library functions do
  kOutput,     // a fresh tensor
};

// A tensor of a program. One that is an alias lies where its root does, in another shape.
struct Slot {
  TensorType type;
  SlotKind kind = SlotKind::kTemporary;
  uint32_t root = 0;        // itself, unless it is an alias
  uint32_t position = 0;    // among the inputs, leaves, constants or outputs
  int64_t first_task = -1;  // of a root: the task that writes it
  int64_t last_task = -1;   // and the last one that needs it
};

inline constexpr int64_t kArenaAlignment = 64;

// A stretch of the arena that is needed for a stretch of time.
struct Lifetime {
  int64_t bytes;
  int64_t first;
  int64_t last;  // inclusive
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // of each lifetime
  int64_t bytes = 0;
};

// No two that live at the same time overlap. Sizes are checked: an arena beyond int64 is an Error.
ArenaPlan plan_arena(std::span<const Lifetime> lifetimes);

}  // namespace tenon
