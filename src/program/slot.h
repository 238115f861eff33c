// The tensors of a program, and what becomes of their memory.
#pragma once

#include <cstdint>

#include "graph/type.h"

namespace tenon {

enum class SlotKind : uint8_t {
  kInput,      // the caller's memory
  kLeaf,       // memory of the model that may change: buffers that are updated, weights that are not frozen
  kConstant,   // weights, prepared or as they are
  kTemporary,  // from the task that writes it to the last one that reads it
  kOutput,     // a result
};

inline constexpr uint32_t kNoSlot = ~0u;

// A tensor of a program. One that is an alias lies where its root does, in another shape.
struct Slot {
  TensorType type;
  SlotKind kind = SlotKind::kTemporary;
  uint32_t root = 0;      // itself, unless it is an alias
  uint32_t position = 0;  // among the inputs, leaves, constants or outputs
  // Of a temporary that is a root: whose place it takes when its task runs (program/in_place.h).
  uint32_t over = kNoSlot;
  uint32_t space = 0;  // whose memory: 0 is the host's, s > 0 is Program::spaces[s - 1]
};

}  // namespace tenon
