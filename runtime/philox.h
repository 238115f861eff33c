// Philox 4x32-10, the counter-based random number generator of Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3" (2011). A pure function without state: each counter and key give four words.
#pragma once

#include <array>
#include <cstdint>

namespace tenon {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::array<uint32_t, 2> kPhiloxFactors = {0xD2511F53, 0xCD9E8D57};
inline constexpr std::array<uint32_t, 2> kPhiloxSteps = {0x9E3779B9, 0xBB67AE85};  // added to the key in each round

constexpr std::array<uint32_t, 4> philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t a = uint64_t{kPhiloxFactors[0]} * counter[0];
    const uint64_t b = uint64_t{kPhiloxFactors[1]} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + kPhiloxSteps[0], key[1] + kPhiloxSteps[1]};
  }
  return counter;
}

}  // namespace tenon
