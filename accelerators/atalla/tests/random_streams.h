// Random streams that obey the rules, and memory for them.
#pragma once

#include "body.h"

namespace atalla {

inline constexpr uint64_t kStreamMemory = 1 << 16;

// Commands of the default machine that work in small places at the edges of banks, so that they meet each other often.
std::vector<Command> random_stream(uint32_t seed, size_t count);

// Random bits, half of the 16-bit words near 1, some of them special: numbers of every kind as int8, bf16 and f32.
void fill_random(std::span<uint8_t> memory, uint32_t seed);

}  // namespace atalla
