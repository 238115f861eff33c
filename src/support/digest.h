// A hash of a text: 128 bits, the same on every machine. Two texts do not collide by chance; an attacker can make them
// collide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Digest&) const = default;
  std::string hex() const;  // 32 digits
};

Digest digest(std::string_view bytes);

}  // namespace tenon
