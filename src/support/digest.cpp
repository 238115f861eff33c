#include "support/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tenon {
namespace {

constexpr uint64_t kOdd0 = 0x9e3779b97f4a7c15,
                   kOdd1 = 0xd1b54a32d192ed03;  // from the golden ratios in 1 and 2 dimensions

// Every step is invertible, so no step loses information.
void mix(Digest& state, uint64_t first, uint64_t second) {
  state.high = std::rotl(state.high ^ (first * kOdd0), 29) * kOdd1 + state.low;
  state.low = std::rotl(state.low ^ (second * kOdd1), 33) * kOdd0 + state.high;
}

uint64_t spread(uint64_t value) {
  for (int round = 0; round < 3; ++round) value = (value ^ (value >> 31)) * kOdd1;
  return value ^ (value >> 32);
}

// The first 8 bytes as a number. Missing bytes are 0.
uint64_t word(std::string_view bytes) {
  uint64_t value = 0;
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  return std::endian::native == std::endian::little ? value : __builtin_bswap64(value);
}

}  // namespace

Digest digest(std::string_view bytes) {
  Digest state{kOdd1, bytes.size()};
  for (; bytes.size() >= 16; bytes.remove_prefix(16)) mix(state, word(bytes), word(bytes.substr(8)));
  mix(state, word(bytes), word(bytes.substr(std::min<size_t>(bytes.size(), 8))));
  mix(state, 0, 0);
  return {spread(state.high + state.low), spread(state.low)};
}

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

}  // namespace tenon
